"""Running one op in both tiers, and beside TensorFlow.

A Case names an op, its inputs and attrs.  `run` evaluates it with NumPy or with a jitted JAX;
`check_against_tensorflow` compares both tiers with TensorFlow's own kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ops import compared
from tideflow.graph.building import make_op
from tideflow.graph.graph import Graph
from tideflow.graph.kernel import bind
from tideflow.graph.node import arg_sizes
from tideflow.graph.op_def import get_op_def
from tideflow.wire import dtypes


@dataclass
class Case:
    """One op on given inputs.

    jit: whether the op can be traced with these inputs; static inputs are held constant.
    rtol, atol: tolerance for floats against TensorFlow.
    oracle: TensorFlow's op, where it is another one.
    """

    op: str
    inputs: Sequence[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    jit: bool = True
    rtol: float = 1e-5
    atol: float = 1e-6
    id: str = ""
    oracle: str = ""

    def __str__(self) -> str:
        shapes = "-".join(
            "x".join(map(str, np.shape(i))) if not isinstance(i, list) else f"list{len(i)}"
            for i in self.inputs
        )
        return self.id or f"{self.op}-{shapes}"


def build(case: Case) -> tuple[Any, list[Any]]:
    """Return the case's operation in a graph of its own, and its flat input arrays."""
    graph = Graph()
    with graph.as_default():
        op = make_op(get_op_def(case.op), case.inputs, dict(case.attrs), case.op.lstrip("_"))
    return op, [node.attrs["value"] for node, _ in op.edges]


def run(case: Case, tier: str = "numpy") -> list[Any]:
    """Return the outputs of a pure op, by tier "numpy" or "jax"."""
    op, flat = build(case)
    count = len(op.output_types)
    if tier == "numpy":
        with np.errstate(all="ignore"):
            outputs = _as_list(bind(op, np)(*flat), count)
    else:
        outputs = _as_list(_run_jax(op, flat), count)
    for value, dtype, tensor in zip(outputs, op.output_types, op.outputs, strict=True):
        assert value.dtype == dtype.as_numpy_dtype, f"{op.type} gave {value.dtype}, not {dtype}"
        assert tensor.shape.is_compatible_with(list(value.shape)), (
            f"{op.type}: static shape {tensor.shape}, run {value.shape}"
        )
    return outputs


def _as_list(result: Any, count: int) -> list[Any]:
    if count == 0:
        return []
    return [result] if count == 1 else list(result)


def _run_jax(op: Any, flat: list[Any]) -> Any:
    held: set[int] = set()
    at = 0
    for arg, size in zip(op.op_def.inputs, arg_sizes(op.op_def.inputs, op.attrs), strict=True):
        width = 1 if size is None else size
        if arg.name in op.op_def.static_inputs:
            held.update(range(at, at + width))
        at += width
    traced = [i for i in range(len(flat)) if i not in held and flat[i].dtype != object]

    def traced_call(*values: Any) -> Any:
        args = list(flat)
        for i, value in zip(traced, values, strict=True):
            args[i] = value
        return bind(op, jnp)(*args)

    with jax.enable_x64(True):
        result = jax.jit(traced_call)(*[flat[i] for i in traced])
        return jax.tree.map(np.asarray, result)


def on_tensorflow(case: Case, op: Any, tensors: Sequence[Any]) -> Any:
    """Call TensorFlow's kernel for a case built as `op`, on its tensors in flat order."""
    import tensorflow as tf  # noqa: PLC0415 - the oracle is optional

    inferred = {
        name
        for arg in op.op_def.inputs
        for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)
    }
    attrs = {
        name: _for_tensorflow(op.attrs[name])
        for name in get_op_def(case.oracle or case.op).attrs
        if name not in inferred
    }
    raw_op = getattr(tf.raw_ops, case.oracle or case.op)
    # TensorFlow's Python functions rename some inputs, but keep their order.
    names = list(inspect.signature(raw_op).parameters)
    grouped = {
        arg.name if arg.name in names else name: value
        for arg, value, name in zip(op.op_def.inputs, grouped_inputs(op, tensors), names)
    }
    return raw_op(**grouped, **attrs)


def grouped_inputs(op: Any, flat: Sequence[Any]) -> list[Any]:
    """Return flat inputs by argument: a list for an argument that takes several."""
    rest = iter(flat)
    return [
        next(rest) if size is None else [next(rest) for _ in range(size)]
        for size in arg_sizes(op.op_def.inputs, op.attrs)
    ]


def check_against_tensorflow(case: Case) -> None:
    """Compare both tiers with TensorFlow's kernel: values, types and shapes."""
    import tensorflow as tf  # noqa: PLC0415 - the oracle is optional

    op, flat = build(case)
    raw = on_tensorflow(case, op, [tf.constant(value) for value in flat])
    expected = [x.numpy() for x in tf.nest.flatten(raw)]
    for tier in ("numpy", "jax") if case.jit and op.op_def.is_pure else ("numpy",):
        found = run(case, tier)
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            compare(ours, theirs, case, f"{case} on {tier}")
    compared.agreed(case.op, (dtypes.dtype_of(value).name for value in flat or expected))


def compare(ours: Any, theirs: Any, case: Case, what: str) -> None:
    """Assert that two arrays agree in shape, type and values (within the case's tolerance)."""
    ours = np.asarray(ours)
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, TensorFlow {theirs.shape}"
    if ours.dtype == object:
        assert ours.tolist() == theirs.tolist(), what
        return
    assert ours.dtype == theirs.dtype, f"{what}: type {ours.dtype}, TensorFlow {theirs.dtype}"
    if ours.dtype.kind in "fcV":
        wide = np.complex128 if ours.dtype.kind == "c" else np.float64
        rtol = max(case.rtol, 2e-2) if ours.dtype.itemsize < 4 else case.rtol
        np.testing.assert_allclose(
            ours.astype(wide), theirs.astype(wide), rtol=rtol, atol=case.atol, err_msg=what
        )
    else:
        np.testing.assert_array_equal(ours, theirs, err_msg=what)


def _for_tensorflow(value: Any) -> Any:
    if isinstance(value, dtypes.DType):
        return value.name
    if isinstance(value, list):
        return [_for_tensorflow(v) for v in value]
    if hasattr(value, "dims"):
        return None if value.dims is None else list(value.dims)
    return value
