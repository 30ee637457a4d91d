"""One graph, run by both: built here, and given to TensorFlow as a GraphDef.

For what a call of one op cannot show: references, resources, functions, datasets, loops.  Every run
of a session in a list of runs is compared: what it fetches, or the class of the error it ends with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tideflow.v1 as ours
from ops import compared
from tideflow.graph.graph import Operation
from tideflow.wire import dtypes


@dataclass
class Run:
    """A call of Session.run.

    fetches: tensors and operations of the graph that was built; feeds: by tensor.
    instead: what TensorFlow fetches, where it has no kernel for an op that is compared: what the
      same comes to by other ops.
    """

    fetches: Sequence[Any]
    feeds: Mapping[Any, Any] = field(default_factory=dict)
    instead: Sequence[Any] | None = None


# Outputs, or the name of the class of an error.
_End = list[np.ndarray[Any, Any]] | str


def check_both_run(
    build: Callable[[], Sequence[Run]],
    about: Sequence[str],
    rtol: float = 1e-5,
    atol: float = 1e-6,
    config: Any = None,
    change: Callable[[Any], None] | None = None,
    options: Any = None,
) -> list[_End]:
    """Build a graph, run it with tideflow and with TensorFlow, and compare every run.

    Args:
      build: makes the nodes in the default graph and returns what to run, in order.
      about: the ops that this compares; the graph must have each of them.
      config: of both sessions, a ConfigProto.
      options: of every run of both, a RunOptions.
      change: is given the GraphDef before TensorFlow imports it, to change it in place.
    Returns: what each run gave here: arrays, or the name of the class of its error.
    """
    graph = ours.Graph()
    with graph.as_default():
        runs = build()
    found = _types(graph)
    absent = set(about) - set(found)
    assert not absent, f"the graph has no {sorted(absent)}; it has {sorted(found)}"
    mine = _run_here(graph, runs, config, options)
    theirs = _run_there(graph, runs, config, options, change)
    for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        _compare(one, other, f"run {number}", rtol, atol)
    failed = isinstance(mine[-1], str)
    for op in about:
        if failed:
            compared.refused(op)
        else:
            compared.agreed(op, found[op])
    return mine


def _types(graph: Any) -> dict[str, set[str]]:
    """Return the types of the inputs of each op, those in the graph's functions too.

    Of an op without inputs they are the types of its outputs.
    """
    found: dict[str, set[str]] = {}
    for op in graph.get_operations():
        tensors = op.inputs or op.outputs
        found.setdefault(op.type, set()).update(x.dtype.base_dtype.name for x in tensors)
    for function in graph.as_graph_def().library.function:
        for node in function.node_def:
            types = {dtypes.as_dtype(attr.type).name for attr in node.attr.values() if attr.type}
            found.setdefault(node.op, set()).update(types)
    return found


def _run_here(graph: Any, runs: Sequence[Run], config: Any, options: Any) -> list[_End]:
    with ours.Session(graph=graph, config=config) as session:
        return [_end(ours, session, run.fetches, run.feeds, options) for run in runs]


def _run_there(
    graph: Any,
    runs: Sequence[Run],
    config: Any,
    options: Any,
    change: Callable[[Any], None] | None,
) -> list[_End]:
    import tensorflow  # noqa: PLC0415 - the oracle is optional

    tf = tensorflow.compat.v1
    given = tf.GraphDef.FromString(graph.as_graph_def().SerializeToString())
    if change is not None:
        change(given)
    settings = None if config is None else tf.ConfigProto.FromString(config.SerializeToString())
    if options is not None:
        options = tf.RunOptions.FromString(options.SerializeToString())
    with tf.Graph().as_default() as other:
        tf.import_graph_def(given, name="")
        with tf.Session(graph=other, config=settings) as session:
            return [
                _end(
                    tf,
                    session,
                    [other.as_graph_element(_name(fetch)) for fetch in run.instead or run.fetches],
                    {_name(key): value for key, value in run.feeds.items()},
                    options,
                )
                for run in runs
            ]


def _name(thing: Any) -> str:
    return str(thing.name)


def _end(
    tf: Any, session: Any, fetches: Sequence[Any], feeds: Mapping[Any, Any], options: Any
) -> _End:
    try:
        values = session.run(list(fetches), dict(feeds), options=options)
    except tf.errors.OpError as error:
        return type(error).__name__
    return [
        np.array(value, object) if isinstance(value, bytes) else np.asarray(value)
        for fetch, value in zip(fetches, values, strict=True)
        if not (isinstance(fetch, Operation) or type(fetch).__name__ == "Operation")
    ]


def _compare(mine: _End, theirs: _End, what: str, rtol: float, atol: float) -> None:
    if isinstance(mine, str) or isinstance(theirs, str):
        assert isinstance(mine, str), f"{what}: {mine}; TensorFlow: {theirs}"
        assert mine == theirs, f"{what}: {mine}; TensorFlow: {theirs}"
        return
    for one, other in zip(mine, theirs, strict=True):
        assert one.shape == other.shape, f"{what}: shape {one.shape}, TensorFlow {other.shape}"
        assert one.dtype == other.dtype, f"{what}: type {one.dtype}, TensorFlow {other.dtype}"
        if one.dtype == object:
            assert one.tolist() == other.tolist(), what
        elif one.dtype.kind in "fcV":
            wide = np.complex128 if one.dtype.kind == "c" else np.float64
            near = max(rtol, 2e-2) if one.dtype.itemsize < 4 else rtol
            np.testing.assert_allclose(
                one.astype(wide), other.astype(wide), rtol=near, atol=atol, err_msg=what
            )
        else:
            np.testing.assert_array_equal(one, other, err_msg=what)
