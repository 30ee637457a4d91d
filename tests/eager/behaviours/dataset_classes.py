"""Classes of datasets: those of files, and those that programs derive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eager.behaviours.registry import error, program


def _sources(tf: Any, data: Any, folder: Path) -> dict[str, Any]:
    """Return the datasets of each class of files, by the name of the class."""
    text, records = folder / "rows", str(folder / "records")
    text.write_text("1,a\n2,b\n")
    with tf.io.TFRecordWriter(records) as writer:
        writer.write(b"one")
        writer.write(b"two")
    more = data.experimental
    return {
        "TextLineDataset": data.TextLineDataset([str(text)]),
        "TFRecordDataset": data.TFRecordDataset(records, num_parallel_reads=2),
        "FixedLengthRecordDataset": data.FixedLengthRecordDataset(str(text), 2),
        "experimental.CsvDataset": more.CsvDataset(str(text), [tf.int32, tf.string]),
        "experimental.SqlDataset": more.SqlDataset("sqlite", ":memory:", "select 3", tf.int32),
        "experimental.RandomDataset": more.RandomDataset(3),
    }


def _described(tf: Any, data: Any, folder: Path) -> list[Any]:
    found = []
    for name, dataset in _sources(tf, data, folder).items():
        kind = data
        for part in name.split("."):
            kind = getattr(kind, part)
        taken = dataset.take(2)
        found.append(
            [
                name,
                isinstance(dataset, kind),
                isinstance(dataset, data.Dataset),
                issubclass(kind, tf.data.Dataset),
                isinstance(taken, kind),
                repr(dataset),
                repr(taken),
                repr(dataset.with_options(tf.data.Options())),
                [str(x) for x in taken.as_numpy_iterator()],
            ]
        )
    return found


@program
def classes_of_files(tf: Any, folder: Path) -> Any:
    return _described(tf, tf.data, folder)


@program
def classes_of_files_of_the_v1_shape(tf: Any, folder: Path) -> Any:
    return _described(tf, tf.compat.v1.data, folder)


@program
def both_shapes(tf: Any) -> Any:
    old, new = tf.compat.v1.data, tf.data
    return [
        issubclass(old.Dataset, new.Dataset),
        issubclass(old.TFRecordDataset, new.TFRecordDataset),
        isinstance(old.Dataset.range(3).map(lambda x: x), old.Dataset),
        isinstance(new.Dataset.range(3).map(lambda x: x), old.Dataset),
        repr(old.Dataset.range(3).batch(2)),
    ]


@program
def a_class_derived_from_records(tf: Any, folder: Path) -> Any:
    path = str(folder / "records")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"one")

    class Numbered(tf.data.TFRecordDataset):
        def __init__(self, names: Any) -> None:
            super().__init__(names)
            self.names = names

        def numbered(self) -> Any:
            return self.enumerate(start=5)

    made = Numbered([path])
    return [
        repr(made),
        made.names == [path],
        isinstance(made, tf.data.TFRecordDataset),
        type(made.take(1)) is Numbered,
        [(int(i), str(x.numpy())) for i, x in made.numbered()],
    ]


@program
def a_class_that_makes_others(tf: Any) -> Any:
    class Artificial(tf.data.Dataset):
        def _numbers(count: Any) -> Any:  # noqa: N805 - as in guides
            for i in range(count):
                yield (i,)

        def __new__(cls, count: int = 3) -> Any:
            return tf.data.Dataset.from_generator(
                cls._numbers, output_signature=tf.TensorSpec((1,), tf.int64), args=(count,)
            )

    return [
        [x.tolist() for x in Artificial(2).as_numpy_iterator()],
        [x.tolist() for x in Artificial().map(lambda x: x * 2).as_numpy_iterator()],
        isinstance(Artificial(), Artificial),
    ]


def _own(tf: Any) -> Any:
    class Own(tf.data.Dataset):
        """Takes what holds another dataset."""

        def __init__(self, source: Any) -> None:
            self._source = source
            super().__init__(tf.data.experimental.to_variant(source))

        def _inputs(self) -> list[Any]:
            return [self._source]

        @property
        def element_spec(self) -> Any:
            return self._source.element_spec

    return Own


@program
def a_class_with_a_variant_of_its_own(tf: Any) -> Any:
    own = _own(tf)(tf.data.Dataset.range(3))

    @tf.function
    def total(dataset: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for x in dataset:
            found += x
        return found

    inner = tf.data.Dataset.range(2).flat_map(lambda x: _own(tf)(tf.data.Dataset.range(x + 1)))
    return [
        repr(own),
        [int(x) for x in own],
        [int(x) for x in own.map(lambda x: x * x)],
        len(own),
        repr(own.take(1)),
        repr(tf.data.Dataset.zip((own, own))),
        int(total(own)),
        int(own.reduce(tf.constant(0, tf.int64), lambda a, b: a + b)),
        [int(x) for x in inner],
    ]


@program
def options_of_what_a_class_is_made_of(tf: Any) -> Any:
    options = tf.data.Options()
    options.deterministic = False
    own = _own(tf)(tf.data.Dataset.range(3).with_options(options))
    return [own.options().deterministic, own.take(1).options().deterministic]


@program
def a_class_of_the_v1_shape(tf: Any) -> Any:
    class Own(tf.compat.v1.data.Dataset):
        def __init__(self, count: int) -> None:
            self._source = tf.data.Dataset.range(count)
            super().__init__()

        def _as_variant_tensor(self) -> Any:
            return tf.data.experimental.to_variant(self._source)

        def _inputs(self) -> list[Any]:
            return [self._source]

        @property
        def element_spec(self) -> Any:
            return self._source.element_spec

    made = Own(3)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        following = tf.compat.v1.data.make_one_shot_iterator(Own(2)).get_next()
        steps = [int(session.run(following)) for _ in range(2)]
    return [repr(made), [int(x) for x in made], repr(made.map(lambda x: x)), steps]


@program
def the_base_class_is_abstract(tf: Any) -> Any:
    return [
        error(lambda: tf.data.Dataset()),
        error(lambda: tf.data.Dataset(tf.constant(1))),
        error(lambda: tf.compat.v1.data.Dataset()),
    ]
