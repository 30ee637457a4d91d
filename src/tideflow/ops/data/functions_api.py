"""tf.data: datasets as a client builds them: where elements come from, and functions over them.

Source: tensorflow/python/data/ops/dataset_ops.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import with_dependencies
from tideflow.ops.data.debug_mode import debug_mode
from tideflow.ops.data.generator import generator_parts, generator_specs
from tideflow.ops.data.resampling import resampled
from tideflow.ops.data.saving_api import SavedTransformations, traced_reader
from tideflow.ops.data.structure import (
    attrs_of,
    check_rows,
    flat_rows,
    flat_tensors,
    int64,
    make,
    packed,
    specs_of,
)
from tideflow.ops.data.structure import tensors as as_tensors
from tideflow.ops.data.traced import Traced, traced_state
from tideflow.ops.data.transformations_api import order_text
from tideflow.ops.data.type_specs import set_default_kind
from tideflow.ops.export import export, export_v2, export_value
from tideflow.ops.framework import Assert, nest
from tideflow.platform.processors import usable_processors
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype

AUTOTUNE = -1
export_value("data.AUTOTUNE", AUTOTUNE)
export_value("data.experimental.AUTOTUNE", AUTOTUNE)


@export_v2("data.Dataset")
class Dataset(SavedTransformations):
    """Elements to come, each a structure of tensors.

    Datasets are made by the class methods below, by transformations of other datasets and by
    derived classes, never by the constructor itself.  Nothing is read or computed before somebody
    walks over them.  Each transformation takes a `name`, as TensorFlow's does; it labels nothing
    here.

    Args:
      variant_tensor: a variant scalar that holds the dataset, for classes that programs derive.
    Source: tensorflow/python/data/ops/dataset_ops.py for names and defaults.
    Example:
      >>> dataset = tf.data.Dataset.range(10).filter(lambda x: x % 2 == 0).map(lambda x: x * x)
      >>> [int(x) for x in dataset]
      [0, 4, 16, 36, 64]
    """

    # ---- where elements come from

    @classmethod
    def from_tensors(cls, tensors: TensorLike, name: str | None = None) -> Self:
        """Return a dataset of one element.

        Args:
          tensors: a structure of tensors, sparse and ragged ones, datasets and None: tuples and
            dicts stay, a list is one tensor.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [x.tolist() for x in tf.data.Dataset.from_tensors([1, 2]).as_numpy_iterator()]
          [[1, 2]]
        """
        made = as_tensors(tensors)
        return cls._make("TensorDataset", [flat_tensors(made)], specs_of(made), "Toutput_types")

    @classmethod
    def from_tensor_slices(cls, tensors: TensorLike, name: str | None = None) -> Self:
        """Return a dataset of the rows of tensors.

        Args:
          tensors: a structure of tensors [n, ...], sparse and ragged ones too, all with the same n;
            a list is one tensor, but one of datasets is a component itself.
          name: accepted for programs that give it.
        Returns: a dataset of n elements, of shapes [...].
        Raises: ValueError for scalars, components of different n, or none at all.
        Example:
          >>> [int(x) for x in tf.data.Dataset.from_tensor_slices([1, 2, 3])]
          [1, 2, 3]
        """
        made = as_tensors(tensors)
        flat = flat_rows(made)
        check_rows(flat)
        element = nest.map_structure(lambda spec: spec.unbatched(), specs_of(made))
        return cls._make("TensorSliceDataset", [flat], element, "Toutput_types")

    @classmethod
    def range(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a dataset of integers, as Python's range.

        Args:
          args: stop; start and stop; or start, stop and step: integer scalars.
          kwargs: output_type, an integer or floating type, int64 by default; name.
        Returns: a dataset of scalars.
        Raises: ValueError for no arguments or more than three; TypeError for other keywords.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2, 8, 3)]
          [2, 5]
        """
        wanted = as_dtype(kwargs.pop("output_type", dtypes.int64))
        kwargs.pop("name", None)
        if kwargs:
            raise TypeError(f"range takes output_type and name; found {sorted(kwargs)}")
        if not 1 <= len(args) <= 3:
            raise ValueError(f"range takes one to three numbers; found {len(args)}")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        inputs = [int64(start, "start"), int64(stop, "stop"), int64(step, "step")]
        return cls._make("RangeDataset", inputs, TensorSpec((), wanted))

    @classmethod
    def counter(
        cls, start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64, name: str | None = None
    ) -> Self:
        """Return numbers without end.

        Args:
          start, step: the first number, and how far numbers are apart.
          dtype: of the numbers.
          name: accepted for programs that give it.
        Returns: a dataset of scalars.
        Example:
          >>> [int(x) for x in tf.data.Dataset.counter(2, 3).take(3)]
          [2, 5, 8]
        """
        first = convert_to_tensor(start, as_dtype(dtype))
        apart = convert_to_tensor(step, as_dtype(dtype))
        endless = cls.from_tensors(0).repeat()
        return endless.scan(first, lambda state, _: (apply_op("AddV2", state, apart), state))

    @classmethod
    def from_generator(
        cls,
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Self:
        """Return a dataset of what a Python generator yields; it begins anew for each walk.

        Args:
          generator: called with args, as NumPy arrays; gives an iterable.
          output_types, output_shapes: the types and shapes of an element; or give output_signature.
          args: tensors.
          output_signature: a structure of TypeSpecs for an element.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: TypeError for something that cannot be called or without a signature; when walked
          over, InvalidArgumentError for an element of another type or shape.
        Example:
          >>> def squares():
          ...     yield from (0, 1, 4)
          >>> spec = tf.TensorSpec([], tf.int32)
          >>> [int(x) for x in tf.data.Dataset.from_generator(squares, output_signature=spec)]
          [0, 1, 4]
        """
        if not callable(generator):
            raise TypeError("`generator` must be a Python callable")
        specs = generator_specs(output_types, output_shapes, output_signature)
        inputs, attrs = generator_parts(generator, specs, args)
        return cls._make("GeneratorDataset", inputs, specs, **attrs)

    @classmethod
    def list_files(
        cls,
        file_pattern: TensorLike,
        shuffle: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Return a dataset of the names of files that match patterns.

        Args:
          file_pattern: glob patterns, a string scalar or vector.
          shuffle: whether the names come in random order; None for yes.
          seed: an integer, for the same order in each run of the program.
          name: accepted for programs that give it.
        Returns: a dataset of string scalars.
        Raises: InvalidArgumentError where no file matches: eagerly at once, else when the dataset
          is started.
        Example:
          >>> tf.data.Dataset.list_files("/nowhere/*.txt")
          Traceback (most recent call last):
            ...
          tideflow.wire.errors.InvalidArgumentError: ...No files matched pattern: /nowhere/*.txt...
        """
        with get_default_graph().name_scope("list_files"):
            pattern = convert_to_tensor(file_pattern, dtypes.string, name="file_pattern")
            names: Any = apply_op("MatchingFiles", pattern)
            size = apply_op("Size", names)
            patterns = apply_op("ReduceJoin", apply_op("Reshape", pattern, [-1]), 0, separator=", ")
            message = apply_op("StringJoin", ["No files matched pattern: ", patterns])
            checked = Assert(apply_op("Greater", size, 0), [message], summarize=1)
            if checked is not None:
                names = with_dependencies([checked], names)
            made = cls.from_tensor_slices(names)
            if shuffle is None or shuffle:
                count = apply_op("Cast", apply_op("Maximum", size, 1), DstT=dtypes.int64)
                return made.shuffle(count, seed)
            return made

    @classmethod
    def zip(cls, *args: Any, datasets: object | None = None, name: str | None = None) -> Self:
        """Return a dataset of structures of elements, one of each dataset; as long as the shortest.

        Args:
          args: datasets, or one structure of them.
          datasets: the structure, as a keyword.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: TypeError without datasets, or with both forms of them.
        Example:
          >>> a5, b2 = tf.data.Dataset.range(5), tf.data.Dataset.range(7, 9)
          >>> [(int(a), int(b)) for a, b in tf.data.Dataset.zip((a5, b2))]
          [(0, 7), (1, 8)]
        """
        if bool(args) == (datasets is not None):
            raise TypeError("give zip its datasets, either one by one or as `datasets`")
        datasets = datasets if not args else args[0] if len(args) == 1 else args
        flat = nest.flatten(datasets)
        element = nest.map_structure(lambda dataset: dataset._element, datasets)
        return cls._make("ZipDataset", [flat], element)

    def enumerate(self, start: int = 0, name: str | None = None) -> Self:
        """Return pairs of a number and an element.

        Args:
          start: the first number.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [(int(i), int(x)) for i, x in tf.data.Dataset.range(7, 9).enumerate()]
          [(0, 7), (1, 8)]
        """
        return self.zip((self.range(start, np.iinfo(np.int64).max), self))

    def snapshot(
        self,
        path: str,
        compression: str | None = "AUTO",
        reader_func: Callable[[Any], Any] | None = None,
        shard_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Return the elements, which come from files once a walk has come to their end.

        Datasets that are made in the same way share their files.

        Args:
          path: the directory.
          compression: "AUTO", "SNAPPY", "GZIP" or None.
          reader_func: called with a dataset of datasets, one for each shard; gives the dataset
            that is read.  None to let the shards take turns.
          shard_func: called with the parts of an element; gives an int64 scalar, which of the
            shards the element goes to.  None for one shard per processor, in turn.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: TypeError for a reader_func that gives no dataset.
        Example:
          >>> import tempfile
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     kept = tf.data.Dataset.range(3).snapshot(folder)
          ...     [[int(x) for x in kept] for _ in range(2)]
          [[0, 1, 2], [0, 1, 2]]
        """
        count = usable_processors()
        source = self if shard_func else self.enumerate()
        shard = Traced(
            shard_func or (lambda place, *_: place % count), source._element, "Dataset_shard"
        )
        read = traced_reader(
            reader_func or (lambda shards: shards.interleave(lambda one: one, count)),
            source._element,
            self._kind,
        )
        directory = convert_to_tensor(os.fspath(path), dtypes.string)
        inputs = [directory, read.captured, shard.captured]
        attrs: dict[str, Any] = {"reader_func": read.ref, "shard_func": shard.ref}
        made = source._like("SnapshotDatasetV2", *inputs, compression=compression or "", **attrs)
        return made if shard_func else made.map(lambda _, element: element)

    # ---- with functions

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Return what a function makes of each element.

        Args:
          map_func: called with the parts of an element while it is traced; gives a structure of
            tensors.
          num_parallel_calls: how many calls run at once; -1 (tf.data.AUTOTUNE) for as many as
            serve, None for
            one after the other.
          deterministic: whether the order of elements is kept with parallel calls; None for yes.
          synchronous, use_unbounded_threadpool: accepted; they change no element.
          name: accepted for programs that give it.
        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(3).map(lambda x: x * x)]
          [0, 1, 4]
        """
        traced = Traced(map_func, self._element, "Dataset_map")
        attrs: dict[str, Any] = {"f": traced.ref, "preserve_cardinality": True}
        inputs: list[Any] = [self, traced.captured]
        op = "MapDataset"
        if num_parallel_calls is not None and not debug_mode.is_on:
            op = "ParallelMapDatasetV2"
            inputs.append(int64(num_parallel_calls, "num_parallel_calls"))
            attrs["deterministic"] = order_text(deterministic)
        return self._make(op, inputs, traced.element, **attrs)

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """Return the elements for which a function gives true.

        Args:
          predicate: called with the parts of an element; gives a bool scalar.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: ValueError for a function that gives no bool scalar.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(5).filter(lambda x: x > 2)]
          [3, 4]
        """
        traced = Traced(predicate, self._element, "Dataset_filter")
        traced.require_truth()
        return self._like("FilterDataset", traced.captured, predicate=traced.ref)

    def flat_map(self, map_func: Callable[..., Dataset], name: str | None = None) -> Self:
        """Return the elements of the datasets that a function makes, one after the other.

        Args:
          map_func: called with the parts of an element; gives a dataset.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: TypeError for a function that gives no dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(3).flat_map(tf.data.Dataset.range)]
          [0, 0, 1]
        """
        traced, element = self._nested(map_func)
        inputs = [self, traced.captured]
        return self._make("FlatMapDataset", inputs, element, f=traced.ref)

    def interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: Any = None,
        block_length: Any = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Return the elements of the datasets that a function makes, which take turns.

        Args:
          map_func: called with the parts of an element; gives a dataset.
          cycle_length: how many datasets take turns at once; None leaves it to the runtime.
          block_length: how many elements each gives in a turn; 1 by default.
          num_parallel_calls: how many calls run at once; -1 (tf.data.AUTOTUNE) for as many as
            serve, None for
            one after the other.
          deterministic: whether the order of elements is kept with parallel calls; None for yes.
          name: accepted for programs that give it.
        Returns: a dataset.
        Raises: TypeError for a function that gives no dataset.
        Example:
          >>> pair = lambda x: tf.data.Dataset.from_tensors(x).repeat(2)
          >>> [int(x) for x in tf.data.Dataset.range(2).interleave(pair, cycle_length=2)]
          [0, 1, 0, 1]
        """
        traced, element = self._nested(map_func)
        cycle = int64(-1 if cycle_length is None else cycle_length, "cycle_length")
        block = int64(1 if block_length is None else block_length, "block_length")
        inputs: list[Any] = [self, traced.captured, cycle, block]
        attrs: dict[str, Any] = {"f": traced.ref}
        if num_parallel_calls is None or debug_mode.is_on:
            return self._make("InterleaveDataset", inputs, element, **attrs)
        # How much is buffered is left to the runtime.
        inputs += [int64(-1, "buffer_output_elements"), int64(-1, "prefetch_input_elements")]
        inputs.append(int64(num_parallel_calls, "num_parallel_calls"))
        attrs["deterministic"] = order_text(deterministic)
        return self._make("ParallelInterleaveDatasetV4", inputs, element, **attrs)

    def _nested(self, function: Callable[..., Any]) -> tuple[Traced, Any]:
        traced = Traced(function, self._element, "Dataset_nested")
        if traced.dataset is None:
            raise TypeError(f"the function must return a Dataset; it gave {traced.result!r}")
        return traced, traced.dataset._element

    def reduce(
        self, initial_state: object, reduce_func: Callable[..., Any], name: str | None = None
    ) -> Any:
        """Return the last state that a function makes of the state before and an element.

        Args:
          initial_state: a structure of tensors, and of what elements may be.
          reduce_func: called with the state and the element; gives the next state, of the same
            types; its shapes may become less known.
          name: accepted for programs that give it.
        Returns: the state, a structure of tensors.
        Raises: TypeError for a function that gives a state of other types.
        Example:
          >>> add = lambda total, x: total + x
          >>> int(tf.data.Dataset.range(5).reduce(tf.constant(0, tf.int64), add))
          10
        """
        with get_default_graph().name_scope("initial_state"):
            state = as_tensors(initial_state)
        traced, specs = traced_state(
            reduce_func, specs_of(state), self._element, "Dataset_reduce", lambda found: found
        )
        inputs = [self._variant, flat_tensors(state), traced.captured]
        op = make("ReduceDataset", inputs, f=traced.ref, **attrs_of(specs))
        return packed(specs, op.outputs)

    def get_single_element(self, name: str | None = None) -> Any:
        """Return the only element.

        Args:
          name: accepted for programs that give it.
        Returns: a structure of tensors.
        Raises: InvalidArgumentError, when it runs, for none or several.
        Example:
          >>> int(tf.data.Dataset.from_tensors(7).get_single_element())
          7
        """
        op = make("DatasetToSingleElement", [self._variant], **attrs_of(self._element))
        return packed(self._element, op.outputs)

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Self:
        """Return elements so that classes have the wanted shares; some are left out.

        Args:
          class_func: called with the parts of an element; gives its class, an int32 scalar in
            [0, n).
          target_dist: the share of each class that is wanted, floats [n].
          initial_dist: the share of each class that there is, floats [n]; None to estimate it on
            the way.
          seed: an integer, for the same choice in each run of the program.
          name: accepted for programs that give it.
        Returns: a dataset of pairs of a class and an element.
        Example:
          >>> made = tf.data.Dataset.range(9).map(lambda x: x % 3).rejection_resample(
          ...     lambda x: tf.cast(x > 0, tf.int32), [0.0, 1.0], [1 / 3, 2 / 3])
          >>> {int(found) for found, _ in made}
          {1}
        """
        made: Self = resampled(self, class_func, target_dist, initial_dist, seed)
        return made


Dataset._kind = Dataset
set_default_kind(Dataset)
nest.register_composite(
    Dataset,
    lambda dataset: [dataset.argument_handle],
    lambda like, parts: like.with_handle(parts[0]),
)


@export("data.experimental.to_variant")
def to_variant(dataset: Dataset) -> Tensor:
    """Return a dataset as a tensor, for ops that take one.

    Args:
      dataset: the dataset.
    Returns: a variant scalar.
    Example:
      >>> tf.data.experimental.to_variant(tf.data.Dataset.range(3)).dtype.name
      'variant'
    """
    return dataset._variant


@export("data.experimental.from_variant")
@export_v2("data.experimental.from_variant")
def from_variant(variant: Tensor, structure: Any) -> Dataset:
    """Return the dataset that a variant tensor holds.

    Args:
      variant: a variant scalar.
      structure: the TypeSpecs of an element, as `Dataset.element_spec` gives them.
    Returns: a dataset.
    Example:
      >>> given = tf.data.Dataset.range(2)
      >>> variant = tf.data.experimental.to_variant(given)
      >>> [int(x) for x in tf.data.experimental.from_variant(variant, given.element_spec)]
      [0, 1]
    """
    return Dataset._held(variant, structure)
