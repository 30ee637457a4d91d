"""Variables' cells, and the ops that read and change them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from ops.state_fixtures import Device, run_op
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph, Tensor
from tideflow.ops.state import ResourceVariableState, VariableState, held_only_here
from tideflow.wire import dtypes, errors

LARGE = 100_000


@pytest.fixture
def graph():
    with Graph().as_default() as made:
        yield made


@pytest.fixture
def device() -> Device:
    return Device()


def handle(shape: Any = (2,), dtype: Any = "float32", name: str = "x") -> Tensor:
    return apply_op("VarHandleOp", shared_name=name, dtype=dtype, shape=shape)


def made(device: Device, value: Any, name: str = "x") -> Tensor:
    """Return the handle of a variable that has the value."""
    array = np.asarray(value)
    found = handle(array.shape, dtypes.dtype_of(array), name)
    device.run(apply_op("AssignVariableOp", found, array))
    return found


def read(device: Device, variable: Tensor) -> Any:
    dtype = variable.op.attrs["dtype"]
    return device.run(apply_op("ReadVariableOp", variable, dtype=dtype))


def fed(value: Any) -> Tensor:
    """Return a tensor whose shape is not known when the graph is built."""
    array = np.asarray(value)
    return apply_op("PlaceholderWithDefault", array, shape=None)


def cell(device: Device, name: str = "x") -> VariableState:
    found = device.resources.find("", name, ResourceVariableState)
    assert found is not None
    return found


F32 = np.float32


# ---- reading and assigning


def test_a_value_assigned_is_read(graph: Graph, device: Device):
    x = made(device, F32([1, 2]))
    assert read(device, x).tolist() == [1, 2]
    device.run(apply_op("AssignVariableOp", x, F32([3, 4])))
    assert read(device, x).tolist() == [3, 4]


def test_what_was_read_does_not_change(graph: Graph, device: Device):
    x = made(device, np.zeros(LARGE, F32))
    before = read(device, x)
    device.run(apply_op("AssignAddVariableOp", x, np.ones(LARGE, F32)))
    device.run(apply_op("ResourceScatterAdd", x, [0], F32([5])))
    assert not before.any()
    assert read(device, x)[:2].tolist() == [6, 1]


def test_a_large_array_that_nobody_else_holds_is_changed_in_place(graph: Graph, device: Device):
    x = made(device, np.zeros(LARGE, F32))
    add = apply_op("AssignAddVariableOp", x, np.ones(LARGE, F32))
    scatter = apply_op("ResourceScatterAdd", x, [0], F32([5]))
    device.run(add)  # the constant that was assigned is not the variable's own
    address = cell(device).value.ctypes.data
    device.run(add)
    device.run(scatter)
    assert cell(device).value.ctypes.data == address
    assert read(device, x)[:2].tolist() == [7, 2]


def test_a_view_or_an_array_with_another_name_is_never_free():
    named = np.zeros(3)
    assert held_only_here([np.zeros(3), named, np.zeros(3)[:2]]) == [True, False, False]


def test_an_assigned_view_is_copied(device: Device):
    owner = np.zeros(3, F32)
    state = ResourceVariableState("x", dtypes.float32, (3,))
    state.assign(owner[:])
    owner[0] = 9
    assert state.read().tolist() == [0, 0, 0]


def test_readers_wait_while_an_array_is_being_changed():
    state = ResourceVariableState("x", dtypes.float32, (1,))
    state.assign(np.zeros(1, F32))
    found: list[Any] = []
    with state.lock:
        value, state.value = state.value, None
        reader = threading.Thread(target=lambda: found.append(state.read()))
        reader.start()
        state.value = value
    reader.join()
    assert found == [value]


def test_reading_before_initialization_says_what_to_do(graph: Graph, device: Device):
    with pytest.raises(errors.FailedPreconditionError, match=r"'x'.*global_variables_initializer"):
        read(device, handle())
    assert not device.run(apply_op("VarIsInitializedOp", handle()))


def test_a_destroyed_variable_is_uninitialized(graph: Graph, device: Device):
    x = made(device, F32([1]))
    assert device.run(apply_op("VarIsInitializedOp", x))
    device.run(apply_op("DestroyResourceOp", x))
    device.run(apply_op("DestroyResourceOp", x))
    assert not device.run(apply_op("VarIsInitializedOp", x))
    with pytest.raises(errors.NotFoundError):
        device.run(apply_op("DestroyResourceOp", x, ignore_lookup_error=False))


def test_an_assignment_may_change_the_shape_unless_it_validates(graph: Graph, device: Device):
    x = made(device, F32([1, 2]))
    device.run(apply_op("AssignVariableOp", x, fed(F32([1, 2, 3]))))
    assert device.run(apply_op("VariableShape", x)).tolist() == [3]
    with pytest.raises(errors.InvalidArgumentError, match=r"\[3\].*\[1\]"):
        device.run(apply_op("AssignVariableOp", x, fed(F32([1])), validate_shape=True))


def test_reading_as_another_type_is_refused(graph: Graph, device: Device):
    made(device, F32([1]))
    other = handle((1,), "int32")
    with pytest.raises(errors.InvalidArgumentError, match=r"float32.*int32"):
        read(device, other)


def test_anonymous_variables_are_new_each_time_and_go_with_their_handle(device: Device):
    name = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
    first = run_op(device, "VarHandleOp", shared_name=name, dtype="float32", shape=())
    second = run_op(device, "VarHandleOp", shared_name=name, dtype="float32", shape=())
    assert first.name != second.name
    state = ResourceVariableState(first.name, dtypes.float32, ())
    device.resources.create("", first.name, state)
    assert device.resources.lookup(first, ResourceVariableState) is state
    kept = first.name
    del first
    assert device.resources.find("", kept, ResourceVariableState) is None


# ---- updates


def test_updates_of_a_missing_variable_have_tensorflows_codes(graph: Graph, device: Device):
    x = handle()
    two = F32([1, 2])
    for op_name, args, code in [
        ("AssignAddVariableOp", (two,), errors.NotFoundError),
        ("ResourceScatterAdd", ([0], F32([1])), errors.NotFoundError),
        ("ResourceScatterNdAdd", ([[0]], F32([1])), errors.NotFoundError),
        ("ResourceApplyGradientDescent", (F32(0.1), two), errors.InternalError),
    ]:
        with pytest.raises(code, match="'x'"):
            device.run(apply_op(op_name, x, *args))
    with pytest.raises(errors.NotFoundError):
        device.run(apply_op("ResourceGather", x, [0], dtype="float32"))
    with pytest.raises(errors.FailedPreconditionError):
        device.run(apply_op("DisableCopyOnRead", x))


@pytest.mark.parametrize(
    ("op_name", "args"),
    [
        ("AssignAddVariableOp", ([1.0, 2.0, 3.0],)),
        ("ResourceApplyGradientDescent", (0.1, [1.0, 2.0, 3.0])),
        ("ResourceApplyGradientDescent", ([0.1, 0.2], [1.0, 2.0])),
        ("ResourceScatterAdd", ([2], [1.0])),
        ("ResourceScatterAdd", ([-1], [1.0])),
        ("ResourceScatterAdd", ([0, 1], [1.0])),
        ("ResourceScatterNdAdd", ([[2]], [1.0])),
        ("ResourceScatterNdAdd", ([[0, 0]], [1.0])),
    ],
)
def test_an_update_that_does_not_fit_changes_nothing(
    graph: Graph, device: Device, op_name: str, args: Any
):
    x = made(device, F32([1, 2]))
    inputs = [fed(np.array(a, np.int32 if np.asarray(a).dtype.kind == "i" else F32)) for a in args]
    with pytest.raises(errors.InvalidArgumentError):
        device.run(apply_op(op_name, x, *inputs))
    assert read(device, x).tolist() == [1, 2]


def test_a_sparse_update_checks_rows_and_indices(graph: Graph, device: Device):
    x, a = made(device, np.ones((3, 2), F32)), made(device, np.ones((3, 2), F32), "a")
    rows = np.ones((1, 2), F32)
    with pytest.raises(errors.InvalidArgumentError, match=r"indices\[0\] = 3 is not in \[0, 3\)"):
        device.run(apply_op("ResourceSparseApplyAdagrad", x, a, F32(0.1), rows, [3]))
    with pytest.raises(errors.InvalidArgumentError, match="one row for each index"):
        device.run(
            apply_op("ResourceSparseApplyAdagrad", x, a, F32(0.1), fed(rows), fed(np.int32([0, 1])))
        )
    assert (read(device, x) == 1).all()
    assert (read(device, a) == 1).all()


@pytest.mark.parametrize("count", [40, 3000])
def test_rows_that_come_again_are_updated_in_order(graph: Graph, device: Device, count: int):
    draw = np.random.default_rng(0)
    table = draw.normal(size=(count, 2, 32)).astype(F32)
    indices = draw.integers(0, count, 900)
    grads = draw.normal(size=(900, 2, 32)).astype(F32)
    x = made(device, table)
    a = made(device, np.ones_like(table), "a")
    device.run(apply_op("ResourceSparseApplyMomentum", x, a, F32(0.5), grads, indices, F32(0.5)))
    device.run(apply_op("ResourceScatterAdd", x, indices, grads))
    wanted, momenta = table.copy(), np.ones_like(table)
    for at, grad in zip(indices, grads):
        momenta[at] = momenta[at] * F32(0.5) + grad
        wanted[at] -= momenta[at] * F32(0.5)
    for at, grad in zip(indices, grads):
        wanted[at] += grad
    np.testing.assert_allclose(read(device, a), momenta, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(read(device, x), wanted, rtol=1e-5, atol=1e-4)


def test_an_update_of_no_rows_changes_nothing(graph: Graph, device: Device):
    x, a = made(device, np.ones((3, 2), F32)), made(device, np.ones((3, 2), F32), "a")
    none, rows = np.zeros(0, np.int32), np.zeros((0, 2), F32)
    device.run(apply_op("ResourceSparseApplyAdagrad", x, a, F32(0.1), rows, none))
    for suffix in ("Update", "Add", "Mul", "Div", "Max"):
        device.run(apply_op(f"ResourceScatter{suffix}", x, none, rows))
    assert (read(device, x) == 1).all()
    assert (read(device, a) == 1).all()


def test_integer_division_by_zero_is_refused(graph: Graph, device: Device):
    x = made(device, np.int32([4, 5]))
    with pytest.raises(errors.InvalidArgumentError, match="zero"):
        device.run(apply_op("ResourceScatterDiv", x, [0], np.int32([0])))
    assert read(device, x).tolist() == [4, 5]


def test_bad_indices_can_be_ignored(graph: Graph, device: Device):
    x = made(device, F32([1, 2]))
    device.run(
        apply_op("ResourceScatterNdAdd", x, [[1], [5]], F32([1, 1]), bad_indices_policy="IGNORE")
    )
    assert read(device, x).tolist() == [1, 3]


def test_large_and_small_updates_agree(graph: Graph, device: Device):
    random = np.random.default_rng(0)
    values = [random.uniform(0.5, 1, LARGE).astype(F32) for _ in range(3)]
    grad = random.normal(size=LARGE).astype(F32)
    rates = [F32(r) for r in (0.9, 0.99, 0.1, 0.9, 0.999, 1e-7)]
    large = [made(device, value, f"large{i}") for i, value in enumerate(values)]
    small = [made(device, value[:7], f"small{i}") for i, value in enumerate(values)]
    device.run(apply_op("ResourceApplyAdam", *large, *rates, grad))
    device.run(apply_op("ResourceApplyAdam", *small, *rates, grad[:7]))
    for a, b in zip(large, small, strict=True):
        np.testing.assert_allclose(read(device, a)[:7], read(device, b), rtol=1e-6)


def test_many_threads_lose_no_update(graph: Graph, device: Device):
    x = made(device, np.zeros(20_000, F32))
    add = apply_op("AssignAddVariableOp", x, np.ones(20_000, F32))
    reads = apply_op("ReadVariableOp", x, dtype="float32")
    torn: list[Any] = []

    def work() -> None:
        for _ in range(20):
            device.run(add)
            value = device.run(reads)
            if value.min() != value.max():
                torn.append(value)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn
    assert (read(device, x) == 80).all()


def test_the_same_variable_may_stand_in_two_places(graph: Graph, device: Device):
    x = made(device, F32([1, 1]))
    device.run(apply_op("ResourceApplyMomentum", x, x, F32(0.1), F32([1, 1]), F32(0.9)))
    assert read(device, x).shape == (2,)


# ---- gathering and counting


def test_gathering_rows_and_slices(graph: Graph, device: Device):
    value = np.arange(12, dtype=F32).reshape(3, 4)
    x = made(device, value)
    rows = apply_op("ResourceGather", x, [[2], [0]], dtype="float32")
    np.testing.assert_array_equal(device.run(rows), value[[[2], [0]]])
    assert rows.shape.as_list() == [2, 1, 4]
    batched = apply_op("ResourceGather", x, [[3, 0], [1, 1], [2, 0]], dtype="float32", batch_dims=1)
    assert device.run(batched).tolist() == [[3, 0], [5, 5], [10, 8]]
    found = apply_op("ResourceGatherNd", x, [[2, 1], [0, 3]], dtype="float32")
    assert device.run(found).tolist() == [9, 3]
    for op_name, indices in (("ResourceGather", [3]), ("ResourceGatherNd", [[0, 4]])):
        with pytest.raises(errors.InvalidArgumentError, match="is not in"):
            device.run(apply_op(op_name, x, indices, dtype="float32"))


@pytest.mark.parametrize("is_resource", [True, False])
def test_counting_up_to_a_limit(graph: Graph, device: Device, is_resource: bool):
    if is_resource:
        count = apply_op("ResourceCountUpTo", made(device, np.int64(0)), limit=2, T="int64")
    else:
        cell_ = apply_op("VariableV2", shape=(), dtype="int64")
        device.run(apply_op("Assign", cell_, np.int64(0)))
        count = apply_op("CountUpTo", cell_, limit=2)
    assert [device.run(count), device.run(count)] == [0, 1]
    with pytest.raises(errors.OutOfRangeError, match="limit 2"):
        device.run(count)


# ---- references


def test_a_reference_reads_as_the_value(graph: Graph, device: Device):
    ref = apply_op("VariableV2", shape=(2,), dtype="float32", name="v")
    with pytest.raises(errors.FailedPreconditionError, match="'v'"):
        device.run(ref)
    assert device.run(apply_op("Assign", ref, F32([1, 2]))).tolist() == [1, 2]
    assert device.run(apply_op("AssignAdd", ref, F32([1, 1]))).tolist() == [2, 3]
    assert device.run(apply_op("ScatterSub", ref, [0], F32([2]))).tolist() == [0, 3]
    assert device.run(apply_op("IsVariableInitialized", ref))
    with pytest.raises(errors.InvalidArgumentError):
        device.run(apply_op("Assign", ref, fed(F32([1]))))
    changed = apply_op("Assign", ref, fed(F32([1])), validate_shape=False)
    assert device.run(changed).tolist() == [1]


def test_an_uninitialized_reference_cannot_be_updated(graph: Graph, device: Device):
    ref = apply_op("VariableV2", shape=(2,), dtype="float32")
    for op_name, args in [
        ("AssignAdd", (F32([1, 1]),)),
        ("ApplyGradientDescent", (F32(0.1), F32([1, 1]))),
        ("ScatterAdd", ([0], F32([1]))),
    ]:
        with pytest.raises(errors.FailedPreconditionError):
            device.run(apply_op(op_name, ref, *args))


def test_reference_variables_are_shared_by_name_and_keep_their_type(graph: Graph, device: Device):
    first = apply_op("VariableV2", shape=(), dtype="float32", shared_name="s", name="a")
    second = apply_op("VariableV2", shape=(), dtype="float32", shared_name="s", name="b")
    device.run(apply_op("Assign", first, F32(3)))
    assert device.run(second) == 3
    with pytest.raises(errors.InternalError, match="float32 already"):
        device.run(apply_op("VariableV2", shape=(), dtype="int32", shared_name="s"))


def test_a_temporary_variable_lives_for_one_step(graph: Graph, device: Device):
    cell_ = apply_op("TemporaryVariable", shape=(2,), dtype="float32", var_name="t")
    added = apply_op("AssignAdd", cell_, F32([1, 2]))
    result = apply_op("DestroyTemporaryVariable", added, var_name="t")
    assert device.run(result).tolist() == [1, 2]
    assert device.run(result).tolist() == [1, 2]


# ---- static shapes


def test_shapes_follow_the_handle(graph: Graph):
    x = handle((3, None))
    assert apply_op("ReadVariableOp", x, dtype="float32").shape.as_list() == [3, None]
    assert apply_op("VariableShape", x).shape.as_list() == [2]
    for op_name, args in [
        ("AssignVariableOp", (np.zeros((4, 2), F32),)),
        ("AssignAddVariableOp", (np.zeros(3, F32),)),
        ("ResourceApplyGradientDescent", (F32(1), np.zeros((2, 2), F32))),
        ("ResourceApplyGradientDescent", (F32([1, 2]), np.zeros((3, 2), F32))),
        ("ResourceSparseApplyMomentum", (x, F32(1), np.zeros((2, 5), F32), [0], F32(1))),
        ("ResourceScatterAdd", ([0, 1], np.zeros((3, 2), F32))),
        ("ResourceScatterNdAdd", ([[0, 0, 0]], np.zeros(1, F32))),
    ]:
        with pytest.raises(ValueError, match=op_name):
            apply_op(op_name, x, *args)
    with pytest.raises(ValueError, match="holds float32"):
        apply_op("ReadVariableOp", x, dtype="int32")


def _adagrad(value, slot, row):
    slot = slot + row * row
    return value - np.float32(0.05) * row / np.sqrt(slot), slot


def _momentum(value, slot, row):
    slot = slot * np.float32(0.9) + row
    return value - slot * np.float32(0.05), slot


@pytest.mark.parametrize(("name", "rule"), [("Adagrad", _adagrad), ("Momentum", _momentum)])
def test_many_rows_of_which_some_come_again_are_applied_in_order(graph, device, name, rule):
    # TensorFlow hands the rows to threads, so what it gives differs now and then.
    draw = np.random.default_rng(2)
    indices = draw.integers(0, 900, 700)
    rows = draw.normal(size=(700, 64)).astype(np.float32)
    values = [draw.uniform(0.5, 1, (900, 64)).astype(np.float32) for _ in range(2)]
    held = [made(device, value, name) for value, name in zip(values, "va")]
    more = [np.float32(0.9)] if name == "Momentum" else []
    update = apply_op(f"ResourceSparseApply{name}", *held, np.float32(0.05), rows, indices, *more)
    device.run(update)
    found = [device.run(apply_op("ReadVariableOp", one, dtype="float32")) for one in held]
    for at, row in zip(indices, rows):
        values[0][at], values[1][at] = rule(values[0][at], values[1][at], row)
    for expected, value in zip(values, found):
        np.testing.assert_allclose(value, expected, rtol=1e-6)
