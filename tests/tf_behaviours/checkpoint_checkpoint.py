"""Checkpoints of objects: what is matched, restored now or later, asserted and kept."""

# ruff: noqa: B023, C416 - programs are written as users write them

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from shown_values import value
from tf_behaviours.registry import behaviour, error

checkpoints = functools.partial(behaviour, "python/checkpoint/checkpoint_test.py")
managers = functools.partial(behaviour, "python/checkpoint/checkpoint_management_test.py")
structures = functools.partial(behaviour, "python/trackable/data_structures_test.py")
compatible = functools.partial(behaviour, "python/checkpoint/tensor_callable_test.py")
readers = functools.partial(behaviour, "python/training/checkpoint_utils_test.py")
iterators = functools.partial(behaviour, "python/data/kernel_tests/iterator_checkpoint_test.py")


def _tracked(tf: Any, **attributes: Any) -> Any:
    module = tf.Module()
    for name, one in attributes.items():
        setattr(module, name, one)
    return module


@checkpoints("Keys are the ways to a variable through attributes; slashes and dots are escaped.")
def keys(tf: Any, folder: str) -> Any:
    root = _tracked(
        tf, a=_tracked(tf, b=tf.Variable(1.0)), l=[tf.Variable(2.0), {"k": tf.Variable(3)}]
    )
    path = tf.train.Checkpoint(root=root, v=tf.Variable(1, dtype=tf.int64)).save(f"{folder}/c")
    return [sorted(map(str, tf.train.list_variables(path))), os.path.basename(path)]


@checkpoints("save numbers its files and writes which is the latest; write does neither.")
def save_and_write(tf: Any, folder: str) -> Any:
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    found = [
        checkpoint.save(f"{folder}/c"),
        checkpoint.save(f"{folder}/c"),
        checkpoint.write(f"{folder}/w"),
    ]
    return [
        found,
        value(checkpoint.save_counter),
        tf.train.latest_checkpoint(folder),
        sorted(os.listdir(folder)),
        tf.train.latest_checkpoint(f"{folder}/none"),
    ]


@checkpoints("What is there is restored at once, what comes later when it comes.")
def now_and_later(tf: Any, folder: str) -> Any:
    path = tf.train.Checkpoint(a=tf.Variable(2.0), m=_tracked(tf, b=tf.Variable([3.0]))).save(
        f"{folder}/c"
    )
    into = tf.train.Checkpoint(a=tf.Variable(0.0))
    status = into.restore(path)
    early = [
        value(into.a),
        error(status.assert_consumed),
        error(lambda: status.assert_existing_objects_matched() and 1),
    ]
    into.m = _tracked(tf)
    into.m.b = tf.Variable([0.0])
    return [*early, value(into.m.b), error(lambda: bool(status.assert_consumed()))]


@checkpoints(
    "Assertions tell apart what the file lacks, what the program lacks and nothing at all."
)
def assertions(tf: Any, folder: str) -> Any:
    path = tf.train.Checkpoint(a=tf.Variable(1.0)).save(f"{folder}/c")

    def found(**given: Any) -> Any:
        status = tf.train.Checkpoint(**given).restore(path)
        return [
            error(lambda: getattr(status, name)() and 1)
            for name in (
                "assert_consumed",
                "assert_existing_objects_matched",
                "assert_nontrivial_match",
                "expect_partial",
            )
        ]

    return [
        found(a=tf.Variable(0.0)),
        found(b=tf.Variable(0.0)),
        found(a=tf.Variable(0.0), b=tf.Variable(0.0)),
        found(),
    ]


@checkpoints("Another shape or type is refused, and so is a file that is not there.")
def refused(tf: Any, folder: str) -> Any:
    path = tf.train.Checkpoint(a=tf.Variable([1.0, 2.0])).save(f"{folder}/c")

    def restored(v: Any) -> Any:
        checkpoint = tf.train.Checkpoint(a=v)
        checkpoint.restore(path)
        return value(checkpoint.a)

    return [
        error(lambda: restored(tf.Variable([1.0]))),
        error(lambda: restored(tf.Variable([1, 2]))),
        error(lambda: tf.train.Checkpoint(a=tf.Variable(1.0)).restore(f"{folder}/none")),
        error(lambda: tf.train.Checkpoint(a=tf.Variable(1.0)).read(f"{folder}/none")),
        error(lambda: tf.train.Checkpoint(a=3)),
        error(lambda: tf.train.Checkpoint(a="x")),
        value(tf.train.Checkpoint(a=tf.Variable(1.0)).restore(None)) is None,
        error(lambda: tf.train.Checkpoint(tf.Variable(1.0), root=1)),
    ]


@checkpoints("The last restore wins, for objects that come later too.")
def overlapping(tf: Any, folder: str) -> Any:
    source = tf.train.Checkpoint(m=_tracked(tf, v=tf.Variable(1.0)))
    one = source.save(f"{folder}/one")
    source.m.v.assign(2.0)
    two = source.save(f"{folder}/two")
    late = _tracked(tf, v=tf.Variable(0.0))
    first, second = tf.train.Checkpoint(), tf.train.Checkpoint()
    first.restore(one)
    second.restore(two)
    first.m = late
    found = [value(late.v)]
    second.m = late
    found.append(value(late.v))
    return found


@checkpoints("One object of a file cannot become two, and two may become one.")
def shared_objects(tf: Any, folder: str) -> Any:
    shared = _tracked(tf, v=tf.Variable(1.0))
    path = tf.train.Checkpoint(a=shared, b=shared).save(f"{folder}/c")
    split = tf.train.Checkpoint(
        a=_tracked(tf, v=tf.Variable(0.0)), b=_tracked(tf, v=tf.Variable(0.0))
    )
    other = tf.train.Checkpoint(
        a=_tracked(tf, x=tf.Variable(3.0)), b=_tracked(tf, y=tf.Variable(4.0))
    ).save(f"{folder}/d")
    both = _tracked(tf, x=tf.Variable(0.0), y=tf.Variable(0.0))
    return [
        error(lambda: split.restore(path).assert_consumed() and 1),
        error(lambda: tf.train.Checkpoint(a=both, b=both).restore(other).assert_consumed() and 1),
        value(both.x),
        value(both.y),
    ]


@checkpoints("Cycles are saved and restored; empty lists are as if they were not there.")
def cycles_and_empty_lists(tf: Any, folder: str) -> Any:
    def pair(x: float) -> Any:
        one, two = _tracked(tf, v=tf.Variable(x)), _tracked(tf, v=tf.Variable(x))
        one.other, two.other = two, one
        return one

    path = tf.train.Checkpoint(m=pair(5.0), l=[]).save(f"{folder}/c")
    made = pair(0.0)
    status = tf.train.Checkpoint(m=made, k=[]).restore(path)
    return [error(lambda: status.assert_consumed() and 1), value(made.other.v)]


@checkpoints("A variable that is set later is restored where it was made before or not.")
def restored_on_assignment(tf: Any, folder: str) -> Any:
    path = tf.train.Checkpoint(a=tf.Variable(4.0), b=tf.Variable(8.0)).save(f"{folder}/c")
    checkpoint = tf.train.Checkpoint(b=tf.Variable(0.0))
    checkpoint.restore(path)
    v = tf.Variable(-2.0)
    before = value(v)
    checkpoint.a = v
    return [before, value(v), value(checkpoint.b)]


@checkpoints("Optimizers' slots are restored when they are made.")
def slots(tf: Any, folder: str) -> Any:
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(v * v)
    optimizer = tf.compat.v1.train.AdamOptimizer(0.5)
    optimizer.apply_gradients([(tape.gradient(y, v), v)])
    path = tf.train.Checkpoint(o=optimizer, v=v).save(f"{folder}/c")
    names = sorted(name for name, _ in tf.train.list_variables(path))
    late = tf.compat.v1.train.AdamOptimizer(0.5)
    w = tf.Variable([0.0, 0.0])
    status = tf.train.Checkpoint(o=late, v=w).restore(path)
    late.apply_gradients([(tf.constant([0.0, 0.0]), w)])
    status.assert_consumed()
    return [names, value(late.get_slot(w, "m"))]


@checkpoints("read and write restore without counting; a Checkpoint of a root has its keys bare.")
def roots(tf: Any, folder: str) -> Any:
    root = _tracked(tf, v=tf.Variable(3.0))
    path = tf.train.Checkpoint(root).write(f"{folder}/c")
    other = _tracked(tf, v=tf.Variable(0.0))
    tf.train.Checkpoint(other).read(path).assert_consumed()
    both = tf.train.Checkpoint(root, extra=tf.Variable(1.0))
    return [
        sorted(n for n, _ in tf.train.list_variables(path)),
        value(other.v),
        sorted(n for n, _ in tf.train.list_variables(both.write(f"{folder}/d"))),
        error(lambda: tf.train.Checkpoint(root, v=tf.Variable(1.0))),
    ]


@checkpoints("Types of all kinds come back, with text and empty variables.")
def types(tf: Any, folder: str) -> Any:
    values = [
        np.array([1, 2], np.int8),
        np.array(True),
        np.array([1 + 2j]),
        np.zeros([0, 3], np.float32),
        np.array([1.5], np.float16),
        np.array(["a", ""], object),
        np.array(2**40),
    ]
    names = [f"v{i}" for i in range(len(values))]
    path = tf.train.Checkpoint(**{n: tf.Variable(v) for n, v in zip(names, values)}).save(
        f"{folder}/c"
    )
    into = {n: tf.Variable(tf.zeros_like(tf.constant(v))) for n, v in zip(names, values)}
    tf.train.Checkpoint(**into).restore(path).assert_consumed()
    found = [value(into[n]) for n in names]
    return [[str(x.dtype), str(x.tolist())] for x in map(np.asarray, found)]


@checkpoints("Options name where files are written, and may be given to save and restore.")
def options(tf: Any, folder: str) -> Any:
    given = tf.train.CheckpointOptions(experimental_io_device="/job:localhost")
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    path = checkpoint.save(f"{folder}/c", options=given)
    checkpoint.v.assign(5.0)
    checkpoint.restore(path, options=given)
    return value(checkpoint.v)


@managers("A manager keeps the latest files, and restores or initialises.")
def kept_files(tf: Any, folder: str) -> Any:
    checkpoint = tf.train.Checkpoint(v=tf.Variable(0))
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    found = [manager.latest_checkpoint, manager.restore_or_initialize()]
    for _ in range(3):
        checkpoint.v.assign_add(1)
        manager.save()
    again = tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable(9)), folder, 2)
    return [
        found,
        manager.checkpoints,
        manager.latest_checkpoint,
        sorted(os.listdir(folder)),
        again.restore_or_initialize(),
        value(again.checkpoint.v),
        again.directory,
    ]


@managers("Numbers and names of files are given; steps decide whether it is time.")
def numbers_of_files(tf: Any, folder: str) -> Any:
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(step=step)
    manager = tf.train.CheckpointManager(
        checkpoint, folder, 3, checkpoint_name="m", step_counter=step, checkpoint_interval=2
    )
    found = []
    for _ in range(5):
        step.assign_add(1)
        found.append(manager.save())
    found.append(manager.save(checkpoint_number=70, check_interval=False))
    state = tf.train.get_checkpoint_state(folder)
    return [
        found,
        os.path.basename(state.model_checkpoint_path),
        len(state.all_model_checkpoint_paths),
        manager.checkpoint_interval,
        error(lambda: tf.train.CheckpointManager(checkpoint, folder, 0)),
        error(lambda: tf.train.CheckpointManager(checkpoint, folder, None, checkpoint_interval=2)),
        error(lambda: tf.train.CheckpointManager(checkpoint, folder)),
    ]


@managers("init_fn runs where there is nothing to restore; no limit keeps all.")
def initialised(tf: Any, folder: str) -> Any:
    v = tf.Variable(0)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(v=v), folder, None, init_fn=lambda: v.assign(7)
    )
    found = [manager.restore_or_initialize(), value(v)]
    for _ in range(3):
        manager.save()
    return [*found, len(manager.checkpoints), tf.train.checkpoints_iterator is not None]


@structures("Lists and dicts that are attributes are tracked, and behave as lists and dicts.")
def lists_and_dicts(tf: Any) -> Any:
    module = _tracked(tf, l=[1, 2], d={"a": 1}, t=(1, [2]))
    module.l.append(tf.Variable(1.0))
    module.d["b"] = tf.Variable(2.0)
    return [
        len(module.l),
        module.l[:2] == [1, 2],
        isinstance(module.l, list),
        isinstance(module.d, dict),
        sorted(module.d),
        isinstance(module.t, tuple),
        len(module.variables),
        module.t == (1, [2]),
    ]


@structures("A list or dict that was changed in a way that cannot be tracked cannot be saved.")
def untracked_changes(tf: Any, folder: str) -> Any:
    def saved(change: Any) -> Any:
        root = tf.train.Checkpoint(
            l=[tf.Variable(1.0), tf.Variable(2.0)], d={"a": tf.Variable(1.0)}
        )
        change(root)
        return bool(root.save(f"{folder}/c"))

    def insert(root: Any) -> None:
        root.l.insert(0, tf.Variable(3.0))

    def pop(root: Any) -> None:
        del root.d["a"]

    def number(root: Any) -> None:
        root.d[1] = tf.Variable(3.0)

    def reverse(root: Any) -> None:
        root.l.reverse()

    def extend(root: Any) -> None:
        root.l.extend([tf.Variable(1.0)])

    return [error(lambda: saved(change)) for change in (insert, pop, number, reverse, extend)]


@iterators("An iterator's place is saved and restored, in shuffled and mapped datasets too.")
def places_of_iterators(tf: Any, folder: str) -> Any:
    data = tf.data.Dataset.range(6).map(lambda x: x * x).shuffle(3, seed=1).batch(2)
    it = iter(data)
    next(it)
    checkpoint = tf.train.Checkpoint(it=it)
    path = checkpoint.save(f"{folder}/c")
    rest = [value(x) for x in it]
    checkpoint.restore(path)
    again = [value(x) for x in it]
    other = iter(data)
    tf.train.Checkpoint(it=other).restore(path)
    return [[x.tolist() for x in rest] == [x.tolist() for x in again], len([x for x in other])]


@readers("A reader lists, tells shapes and types, and loads single values.")
def checkpoint_readers(tf: Any, folder: str) -> Any:
    path = tf.train.Checkpoint(v=tf.Variable([[1.0, 2.0]])).save(f"{folder}/c")
    reader = tf.train.load_checkpoint(path)
    key = "v/.ATTRIBUTES/VARIABLE_VALUE"
    return [
        reader.has_tensor(key),
        reader.has_tensor("x"),
        value(reader.get_tensor(key)),
        sorted(reader.get_variable_to_shape_map().items()),
        str(reader.get_variable_to_dtype_map()[key]),
        value(tf.train.load_variable(folder, key)),
        error(lambda: tf.train.load_variable(folder, "x")),
        error(lambda: tf.train.load_checkpoint(f"{folder}/none")),
        error(lambda: tf.train.list_variables(f"{folder}/no")),
    ]
