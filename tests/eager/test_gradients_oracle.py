"""Gradients of each op under a tape, called at once and traced, beside TensorFlow's."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ops
import tideflow as ours
import tideflow.v1
from ops.harness import Case, build, grouped_inputs, on_tensorflow
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import get_gradient, has_gradient

theirs = pytest.importorskip("tensorflow")
registry = importlib.import_module("tensorflow.python.framework.ops")._gradient_registry

pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore")]

_TABLES = ("array", "conv", "data_flow", "math", "nn_more", "nn", "pool", "volumes")
_EACH = 3
_TYPES = (np.float32, np.float64)


def cases() -> Iterator[Case]:
    """Yield the cases of the tables that compare values."""
    for name in _TABLES:
        module = importlib.import_module(f"ops.test_{name}_oracle")
        for function in vars(module).values():
            for mark in getattr(function, "pytestmark", []):
                for case in mark.args[1] if mark.name == "parametrize" else ():
                    if isinstance(case, Case):
                        yield case


def is_differentiable(op: str) -> bool:
    return has_gradient(op) and get_gradient(op) is not None


def _suits(case: Case) -> bool:
    flat = [np.asarray(i) for one in case.inputs for i in (one if isinstance(one, list) else [one])]
    floats = [i for i in flat if i.dtype.type in _TYPES]
    halves = [i for i in flat if i.dtype.kind in "fV" and i.dtype.type not in _TYPES]
    return bool(floats) and not halves and all(np.isfinite(i).all() for i in floats)


def _tiers() -> set[str]:
    found = json.loads((Path(ops.__path__[0]) / "op_tiers.json").read_text())
    return {*found["A"], *found["B"]}


# What is compared of these is only the first result, by the inputs before this one.
FIRST_RESULT = {
    # TensorFlow leaves out what reaches labels through the second result.
    "SoftmaxCrossEntropyWithLogits": 2,
    # TensorFlow says that frozen statistics do not matter.
    "FusedBatchNormV3": 3,
}
# TensorFlow registers functions that give None; ours are marked not differentiable.
NONE_IN_TENSORFLOW = {"ArgMax", "ArgMin", "FloorDiv"}
# Loops and branches of Switch and Merge are differentiated as a whole (ops.control_flow_grad).
PARTS_OF_LOOPS = {"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"}

TIERS = _tiers()
CASES: dict[str, list[Case]] = {}
for _case in cases():
    if not _case.oracle and _case.op in TIERS and is_differentiable(_case.op) and _suits(_case):
        CASES.setdefault(_case.op, []).append(_case)


def chosen(op: str) -> list[Case]:
    """Return some of the cases of an op, from all over its table."""
    table = CASES[op]
    return table[:: max(1, -(-len(table) // _EACH))]


def _weighted(tf: Any, results: list[Any]) -> list[Any]:
    """Return the results that are floats, each element times a number of its own."""
    return [
        y * tf.reshape(tf.sin(tf.cast(tf.range(1, tf.size(y) + 1), y.dtype)), tf.shape(y))
        for y in results
        if y.dtype.name in ("float32", "float64")
    ]


def gradients(tf: Any, case: Case, traced: bool) -> list[Any]:
    """Return the gradients of a case's outputs, weighted, for each input that is a float."""
    op, flat = build(case)
    at = [i for i, value in enumerate(flat) if value.dtype.type in _TYPES]

    def grads(*given: Any) -> list[Any]:
        tensors: list[Any] = [None] * len(flat)
        for i, value in enumerate(flat):
            tensors[i] = given[at.index(i)] if i in at else tf.constant(value)
        with tf.GradientTape() as tape:
            tape.watch(given)
            if tf is ours:
                found = apply_op(case.op, *grouped_inputs(op, tensors), **case.attrs)
            else:
                found = on_tensorflow(case, op, tensors)
            results = tf.nest.flatten(found)[: 1 if case.op in FIRST_RESULT else None]
            weighted = _weighted(tf, results)
        return [
            tf.zeros_like(x) if grad is None else tf.convert_to_tensor(grad)
            for x, grad in zip(given, tape.gradient(weighted, given), strict=True)
        ]

    call = tf.function(grads) if traced else grads
    return [grad.numpy() for grad in call(*[tf.constant(flat[i]) for i in at])]


@pytest.mark.parametrize("op", sorted(CASES))
def test_gradients_agree(op: str) -> None:
    compared = 0
    for case in chosen(op):
        try:
            expected = gradients(theirs, case, traced=False)[: FIRST_RESULT.get(op)]
        except theirs.errors.InvalidArgumentError:
            continue  # TensorFlow computes the op with these inputs, but not its gradient.
        for traced in (False, True):
            with np.errstate(all="ignore"):
                found = gradients(ours, case, traced)[: FIRST_RESULT.get(op)]
            for one, other in zip(found, expected, strict=True):
                tolerance = 1e-4 if other.dtype == np.float32 else 1e-7
                np.testing.assert_allclose(
                    one, other, rtol=tolerance, atol=tolerance, err_msg=f"{case}, {traced=}"
                )
                compared += 1
    assert compared


def values(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).uniform(0.3, 1.5, shape).astype(np.float32)


def definite(tf: Any, x: Any) -> Any:
    return tf.matmul(x, x, transpose_b=True) + 3.0 * tf.eye(3)


def sparse(tf: Any, x: Any) -> Any:
    return tf.SparseTensor([[0, 1], [2, 0], [2, 2]], x[0], [3, 3])


def ragged(tf: Any, x: Any) -> Any:
    return tf.raw_ops.RaggedTensorToTensor(
        shape=tf.constant([2, 2, 3], tf.int64),
        values=x,
        default_value=x[0, 0],
        row_partition_tensors=[tf.constant([0, 2, 3], tf.int64)],
        row_partition_types=["ROW_SPLITS"],
    )


def branches(tf: Any, x: Any) -> Any:
    y = tf.cond(tf.reduce_sum(x) > 1.0, lambda: x * x, lambda: tf.zeros_like(x))
    return tf.switch_case(tf.size(x) - 8, [lambda: y, lambda: y * x, lambda: x])


def loop(tf: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y) * x), [0, x])[1]


def arrays(tf: Any, x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3, dynamic_size=True, clear_after_read=False)
    array = array.unstack(x).write(3, x[0] * x[1])
    more = tf.TensorArray(tf.float32, size=2, infer_shape=False).split(x * x, [1, 2])
    scattered = tf.TensorArray(tf.float32, size=3).scatter([2, 0, 1], x)
    rows = [array.read(1) * array.read(3), *tf.unstack(array.gather([3, 0, 3]) ** 2)]
    return tf.concat([tf.stack(rows), more.concat(), scattered.stack() ** 3], 0)


def slope_of_batch_norm(tf: Any, x: Any) -> Any:
    pictures = x[None, ..., None]
    with tf.GradientTape() as tape:
        tape.watch(pictures)
        normed = tf.raw_ops.FusedBatchNormV3(
            x=pictures, scale=[1.5], offset=[0.5], mean=[0.0], variance=[1.0]
        ).y
        cubed = normed * normed * normed
    return tape.gradient(cubed, pictures)


PROGRAMS: dict[str, Any] = {
    "FusedBatchNormGradV3": slope_of_batch_norm,
    "Cholesky": lambda tf, x: tf.linalg.cholesky(definite(tf, x)),
    "ComplexAbs": lambda tf, x: tf.abs(tf.complex(x, x * x)),
    "MatrixTriangularSolve": lambda tf, x: tf.linalg.triangular_solve(definite(tf, x), x),
    "Qr": lambda tf, x: list(tf.linalg.qr(definite(tf, x))),
    "RaggedTensorToTensor": ragged,
    "ResizeBilinear": lambda tf, x: tf.image.resize(x[None, ..., None], [5, 4]),
    "SparseFillEmptyRows": lambda tf, x: (
        tf.sparse.fill_empty_rows(sparse(tf, x), x[1, 1])[0].values
    ),
    "SparseTensorDenseMatMul": lambda tf, x: tf.sparse.sparse_dense_matmul(sparse(tf, x), x),
    "SparseToDense": lambda tf, x: tf.sparse.to_dense(sparse(tf, x)),
    "Squeeze": lambda tf, x: tf.squeeze(x[:, None], 1),
    "If Case": branches,
    "While": loop,
    "PartitionedCall": lambda tf, x: tf.function(lambda x: tf.sin(x) * x)(x),
    "TensorList": arrays,
    "ReadVariableOp ResourceGather ResourceGatherNd": None,
}


@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if program])
def test_gradients_of_programs_agree(name: str) -> None:
    program = PROGRAMS[name]

    def run(tf: Any, traced: bool) -> Any:
        def grads(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                weighted = _weighted(tf, tf.nest.flatten(program(tf, x)))
            return tf.convert_to_tensor(tape.gradient(weighted, x))

        return (tf.function(grads) if traced else grads)(tf.constant(values(3, 3))).numpy()

    expected = run(theirs, False)
    assert np.abs(expected).max() > 0.01
    for traced in (False, True):
        np.testing.assert_allclose(run(ours, traced), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("traced", [False, True])
def test_gradients_of_variables_agree(traced: bool) -> None:
    def run(tf: Any, traced: bool) -> Any:
        v = tf.Variable(values(4, 3))

        def grads(x: Any) -> Any:
            with tf.GradientTape() as tape:
                rows = tf.gather(v, [1, 1, 3, 0]) * x
                y = _weighted(tf, [v * v * x, rows, v.gather_nd([[0], [2], [0]]) * x])
            return tf.convert_to_tensor(tape.gradient(y, v))

        return (tf.function(grads) if traced else grads)(tf.constant(values(3))).numpy()

    np.testing.assert_allclose(run(ours, traced), run(theirs, False), rtol=1e-5)


def test_the_same_ops_are_differentiable() -> None:
    known = TIERS & set(registry.list())
    others = {op for op in known if registry.lookup(op) is not None} - NONE_IN_TENSORFLOW
    own = {op for op in TIERS if is_differentiable(op)}
    assert others - own == PARTS_OF_LOOPS
    # TensorFlow differentiates these outside its registry.
    assert own - others == {"PartitionedCall", "StatefulPartitionedCall"}


def test_each_differentiable_op_is_compared() -> None:
    own = {op for op in TIERS if is_differentiable(op)} - set(CASES)
    named = tuple(part for name in PROGRAMS for part in name.split())
    left = {op for op in own if not op.removeprefix("Stateless").startswith(named)}
    # The graph API's own, what a constant is in a function, and parts of loops over datasets
    # (behaviours/walks_in_functions compares their gradients).
    assert {op for op in left if not op.startswith("TensorArray")} == {
        "OptionalFromValue",
        "OptionalGetValue",
        "PlaceholderWithDefault",
        "StatefulPartitionedCall",
        "_EagerConst",
    }
