"""What programs write beside their variables: state of Python's objects, and traces of graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eager.behaviours.registry import error, program


def _state(tf: Any, value: Any) -> Any:
    class State(tf.train.experimental.PythonState):  # type: ignore[misc]
        def __init__(self) -> None:
            self.value = value

        def serialize(self) -> str:
            return json.dumps(self.value)

        def deserialize(self, string_value: bytes) -> None:
            self.value = json.loads(string_value)

    return State()


@program
def state_of_python_in_checkpoints(tf: Any, folder: str) -> Any:
    saved = tf.train.Checkpoint(state=_state(tf, [1, 2]), w=tf.Variable(1.0))
    path = saved.save(f"{folder}/ckpt")
    other = tf.train.Checkpoint(state=_state(tf, None), w=tf.Variable(0.0))
    other.restore(path).assert_consumed()
    keys = [name for name, _ in tf.train.list_variables(path)]
    return [other.state.value, other.w, sorted(keys)]


@program
def traces_of_graphs(tf: Any, folder: str) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        return tf.matmul(x, x) + 1

    writer = tf.summary.create_file_writer(folder)
    early = error(lambda: tf.summary.trace_export("early"))
    f(tf.ones([4, 4]))
    tf.summary.trace_on()
    f(tf.ones([2, 2]))
    f(tf.ones([3, 3]))
    with writer.as_default():
        tf.summary.trace_export("traced", step=3)
    f(tf.ones([5, 5]))
    tf.summary.trace_on()
    tf.summary.trace_off()
    late = error(lambda: tf.summary.trace_export("late"))
    writer.close()
    found = []
    for path in Path(folder).iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                run = tf.compat.v1.RunMetadata.FromString(value.tensor.string_val[0])
                graphs = [graph.pre_optimization_graph for graph in run.function_graphs]
                products = [node.op for graph in graphs for node in graph.node].count("MatMul")
                found.append([value.tag, event.step, value.metadata.plugin_data, products])
    return [early, late, found]


def _saved(tf: Any, folder: str, callback: Any) -> Any:
    """Return how many files of data a checkpoint has, and what is read from it."""
    w = tf.Variable(tf.reshape(tf.range(24.0), [6, 4]))
    objects = {"w": w, "b": tf.Variable([1, 2]), "s": tf.Variable("text")}
    options = tf.train.CheckpointOptions(experimental_sharding_callback=callback)
    path = tf.train.Checkpoint(**objects).write(f"{folder}/ckpt", options)
    other = {"w": tf.Variable(tf.zeros([6, 4])), "b": tf.Variable([0, 0]), "s": tf.Variable("")}
    tf.train.Checkpoint(**other).read(path).assert_consumed()
    parts = [name.name for name in Path(folder).glob("ckpt.data*")]
    return [len(parts), other["w"], other["b"], other["s"], tf.train.list_variables(path)[1:]]


@program
def files_of_one_size(tf: Any, folder: str) -> Any:
    found = _saved(tf, folder, tf.train.experimental.MaxShardSizePolicy(max_shard_size=50))
    return [found[0] > 2, *found[1:]]


@program
def files_by_task(tf: Any, folder: str) -> Any:
    return _saved(tf, folder, tf.train.experimental.ShardByTaskPolicy())


@program
def files_by_a_callback(tf: Any, folder: str) -> Any:
    seen = []

    class EachAlone(tf.train.experimental.ShardingCallback):  # type: ignore[misc]
        @property
        def description(self) -> str:
            return "each alone"

        def __call__(self, shardable_tensors: Any) -> Any:
            seen.extend([t.checkpoint_key, t.dtype.name, t.slice_spec] for t in shardable_tensors)
            return [{t.checkpoint_key: {t.slice_spec: t.tensor}} for t in shardable_tensors]

    return [_saved(tf, folder, EachAlone()), sorted(seen)]
