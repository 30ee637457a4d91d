"""Update ops beside TensorFlow's kernels, in both tiers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ops import compared
from ops.state_fixtures import Device
from ops.update_inputs import update_inputs
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph
from tideflow.graph.op_def import get_op_def
from tideflow.ops.state import ResourceVariableState
from tideflow.ops.state.cells import RefVariableState
from tideflow.wire import dtypes
from tideflow.wire.dtypes import dtype_of

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

_DENSE = (
    "GradientDescent",
    "ProximalGradientDescent",
    "Momentum",
    "KerasMomentum",
    "Adagrad",
    "AdagradV2",
    "ProximalAdagrad",
    "AdagradDA",
    "Adadelta",
    "RMSProp",
    "CenteredRMSProp",
    "Adam",
    "AdamWithAmsgrad",
    "AdaMax",
    "AddSign",
    "PowerSign",
    "Ftrl",
    "FtrlV2",
)
_SPARSE = (
    "ProximalGradientDescent",
    "Momentum",
    "KerasMomentum",
    "Adagrad",
    "AdagradV2",
    "ProximalAdagrad",
    "AdagradDA",
    "Adadelta",
    "RMSProp",
    "CenteredRMSProp",
    "Ftrl",
    "FtrlV2",
)
_FLAGS = ("use_nesterov", "update_slots", "multiply_linear_by_lr")
_CASES = [
    *[(f"ResourceApply{name}", {}) for name in _DENSE],
    *[(f"ResourceSparseApply{name}", {}) for name in _SPARSE],
    ("ResourceApplyMomentum", {"use_nesterov": True}),
    ("ResourceApplyKerasMomentum", {"use_nesterov": True}),
    ("ResourceApplyAdam", {"use_nesterov": True}),
    ("ResourceApplyAdagrad", {"update_slots": False}),
    ("ResourceApplyFtrl", {"multiply_linear_by_lr": True}),
    ("ResourceSparseApplyMomentum", {"use_nesterov": True}),
    ("ResourceSparseApplyFtrlV2", {"multiply_linear_by_lr": True}),
]


def _ours(op_name: str, olds: list[Any], others: list[Any], attrs: dict[str, Any]) -> list[Any]:
    """Return the new values as the executor makes them."""
    device = Device()
    definition = get_op_def(op_name)
    for i, old in enumerate(olds):
        state = ResourceVariableState(f"v{i}", dtypes.dtype_of(old), old.shape, "localhost")
        state.assign(np.array(old))
        device.resources.create("", f"v{i}", state)
    with Graph().as_default():
        handles = [
            apply_op("VarHandleOp", shared_name=f"v{i}", dtype=old.dtype, shape=old.shape)
            for i, old in enumerate(olds)
        ]
        device.run(apply_op(definition.name, *handles, *others, **attrs))
    return [
        device.resources.find("", f"v{i}", ResourceVariableState).read() for i in range(len(olds))
    ]


def _traced(op_name: str, olds: list[Any], others: list[Any], attrs: dict[str, Any]) -> list[Any]:
    """Return the new values as a compiled rule makes them."""
    definition = get_op_def(op_name)
    settled = {
        name: attrs.get(name, definition.attrs[name].default) for name in definition.kernel_attrs
    }

    def rule(*args: Any) -> Any:
        return definition.kernel(jnp, *args, **settled)

    with jax.enable_x64(True):
        return [np.asarray(value) for value in jax.jit(rule)(*olds, *others)]


def _theirs(op_name: str, olds: list[Any], others: list[Any], attrs: dict[str, Any]) -> list[Any]:
    definition = get_op_def(op_name)
    variables = [tf.Variable(old) for old in olds]
    args = dict(
        zip(
            [arg.name for arg in definition.inputs],
            [*[v.handle for v in variables], *[tf.constant(o) for o in others]],
            strict=True,
        )
    )
    getattr(tf.raw_ops, op_name)(**args, **attrs)
    return [v.numpy() for v in variables]


def _check(op_name: str, attrs: dict[str, Any], olds: list[Any], others: list[Any]) -> None:
    expected = _theirs(op_name, olds, others, attrs)
    rtol, atol = (2e-2, 2e-2) if olds[0].dtype.itemsize < 4 else (2e-5, 1e-5)
    for tier in (_ours, _traced):
        found = tier(op_name, olds, others, attrs)
        for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            assert ours.dtype == theirs.dtype, (tier.__name__, i)
            wide = np.complex128 if ours.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                ours.astype(wide),
                theirs.astype(wide),
                rtol=rtol,
                atol=atol,
                err_msg=f"{op_name} {tier.__name__} variable {i}",
            )
    compared.agreed(op_name, [dtype_of(np.asarray(old)).name for old in olds])


@pytest.mark.parametrize(("op_name", "attrs"), _CASES, ids=lambda v: str(v))
def test_an_update_gives_what_tensorflow_gives(op_name: str, attrs: dict[str, Any]):
    _check(op_name, attrs, *update_inputs(op_name, np.float32, 0.05, -0.5))


@pytest.mark.parametrize(
    "op_name",
    [
        "ResourceApplyProximalGradientDescent",
        "ResourceApplyProximalAdagrad",
        "ResourceApplyAdagradDA",
        "ResourceApplyFtrl",
        "ResourceSparseApplyFtrl",
        "ResourceSparseApplyAdagradDA",
    ],
)
def test_without_l1_and_with_another_power(op_name: str):
    _check(op_name, {}, *update_inputs(op_name, np.float64, 0.0, -0.7))


@pytest.mark.parametrize(
    "op_name",
    [
        "ResourceApplyGradientDescent",
        "ResourceApplyAdam",
        "ResourceApplyMomentum",
        "ResourceApplyRMSProp",
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, dtypes.bfloat16.as_numpy_dtype, np.float64])
def test_other_float_types_keep_their_type(op_name: str, dtype: Any):
    _check(op_name, {}, *update_inputs(op_name, dtype, 0.05, -0.5))


@pytest.mark.parametrize("name", ["Adagrad", "Momentum", "Ftrl", "RMSProp"])
def test_a_repeated_index_is_applied_in_order(name: str):
    op_name = f"ResourceSparseApply{name}"
    olds, others = update_inputs(op_name, np.float32, 0.05, -0.5)
    at = get_op_def(op_name).update.indices
    others[at] = np.array([3, 0, 3, 3], np.int64)
    grads = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    others = [grads if np.ndim(o) == 2 else o for o in others]
    _check(op_name, {}, olds, others)


_SCATTERS = [
    f"ResourceScatter{suffix}" for suffix in ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max")
]


@pytest.mark.parametrize("op_name", _SCATTERS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("is_scalar", [False, True])
def test_scattering_by_row(op_name: str, dtype: Any, is_scalar: bool):
    random = np.random.default_rng(3)
    olds = [(random.integers(-9, 9, (4, 2)) + 0.5).astype(dtype)]
    indices = np.array([[2, 0], [2, 2]] if "Update" not in op_name else [[2, 0], [1, 3]])
    updates = random.integers(1, 5, () if is_scalar else (2, 2, 2)).astype(dtype)
    _check(op_name, {}, olds, [indices, updates])


@pytest.mark.parametrize("suffix", ["Add", "Sub", "Mul", "Div", "Min", "Max"])
def test_scattering_many_rows_of_which_some_come_again(suffix: str):
    draw = np.random.default_rng(4)
    olds = [draw.normal(size=(50, 2, 3)).astype(np.float32)]
    indices = draw.integers(0, 50, (8, 5)).astype(np.int32)
    updates = draw.uniform(0.5, 2, (8, 5, 2, 3)).astype(np.float32)
    _check(f"ResourceScatter{suffix}", {}, olds, [indices, updates])


@pytest.mark.parametrize("suffix", ["Update", "Add", "Sub", "Min", "Max"])
@pytest.mark.parametrize("depth", [1, 2])
def test_scattering_by_tuple(suffix: str, depth: int):
    random = np.random.default_rng(4)
    olds = [random.normal(size=(4, 3)).astype(np.float32)]
    indices = np.array([[2, 1], [0, 0], [3, 2]], np.int32)[:, :depth]
    updates = random.normal(size=(len(indices), *(4, 3)[depth:])).astype(np.float32)
    _check(f"ResourceScatterNd{suffix}", {}, olds, [indices, updates])


@pytest.mark.parametrize("op_name", ["AssignAddVariableOp", "AssignSubVariableOp"])
def test_adding_and_subtracting(op_name: str):
    olds = [np.array([1.0, -2.0], np.complex64)]
    _check(op_name, {}, olds, [np.array([0.5, 1j], np.complex64)])


def test_the_reference_op_does_the_same():
    olds, others = update_inputs("ResourceApplyAdam", np.float32, 0.05, -0.5)
    expected = _theirs("ResourceApplyAdam", olds, others, {})
    device = Device()
    with Graph().as_default():
        cells = [apply_op("VariableV2", shape=old.shape, dtype=old.dtype) for old in olds]
        for cell, old in zip(cells, olds, strict=True):
            device.run(apply_op("Assign", cell, old))
        updated = device.run(apply_op("ApplyAdam", *cells, *others))
    np.testing.assert_allclose(updated, expected[0], rtol=2e-5)
    kept = [device.resources.find("", cell.op.name, RefVariableState).read() for cell in cells]
    for ours, theirs in zip(kept, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5)
