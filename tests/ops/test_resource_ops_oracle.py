"""Ops on variables, stacks, arrays and lists of tensors that are reached through handles."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def variable(value, name="v"):
    """Return a variable's handle, and what gives it its value."""
    array = np.asarray(value)
    handle = apply_op("VarHandleOp", dtype=array.dtype, shape=None, shared_name=name, name=name)
    return handle, apply_op("AssignVariableOp", handle, tf.constant(array))


def reading(handle, dtype):
    return apply_op("ReadVariableOp", handle, dtype=dtype)


# ---- variables


def test_whether_there_is_a_variable():
    def build():
        v, begin = variable(np.float32([1, 2]))
        asked = apply_op("VarIsInitializedOp", v)
        return [Run([asked]), Run([begin]), Run([asked])]

    check_both_run(build, ["VarIsInitializedOp"])


@pytest.mark.parametrize("ignores", [True, False])
def test_destroying_a_variable(ignores):
    def build():
        v, begin = variable(np.float32([1, 2]))
        asked = apply_op("VarIsInitializedOp", v)
        destroy = apply_op("DestroyResourceOp", v, ignore_lookup_error=ignores)
        read = reading(v, np.float32)
        return [Run([begin]), Run([destroy]), Run([asked]), Run([begin]), Run([read])]

    check_both_run(build, ["DestroyResourceOp"])


@pytest.mark.parametrize("ignores", [True, False])
def test_destroying_what_is_not_there(ignores):
    def build():
        v, _ = variable(np.float32([1, 2]))
        return [Run([apply_op("DestroyResourceOp", v, ignore_lookup_error=ignores)])]

    check_both_run(build, ["DestroyResourceOp"])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_counting_up(dtype):
    def build():
        v, begin = variable(dtype(5))
        counted = apply_op("ResourceCountUpTo", v, limit=7, T=dtype)
        read = reading(v, dtype)
        return [Run([begin]), Run([counted]), Run([counted]), Run([read])]

    check_both_run(build, ["ResourceCountUpTo"])


@pytest.mark.parametrize("value", [np.int64(7), np.int64([1, 2]), None], ids=str)
def test_counting_up_where_there_is_no_counting(value):
    def build():
        v, begin = variable(np.int64(0) if value is None else value)
        counted = apply_op("ResourceCountUpTo", v, limit=7, T=np.int64)
        return [*([] if value is None else [Run([begin])]), Run([counted])]

    check_both_run(build, ["ResourceCountUpTo"])


@pytest.mark.parametrize("indices_type", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64, np.bool_])
@pytest.mark.parametrize("batch_dims", [0, 1])
def test_gathering(dtype, indices_type, batch_dims):
    indices = np.array([[2, 0], [1, 1]], indices_type)

    def build():
        v, begin = variable(np.arange(24).reshape(2, 3, 4).astype(dtype))
        given = tf.constant(indices % 2 if not batch_dims else indices)
        found = apply_op("ResourceGather", v, given, dtype=dtype, batch_dims=batch_dims)
        return [Run([begin]), Run([found])]

    check_both_run(build, ["ResourceGather"])


@pytest.mark.parametrize(
    ("value", "indices", "batch_dims"),
    [
        (np.ones((2, 3), np.float32), [2], 0),
        (np.ones((2, 3), np.float32), [-1], 0),
        (np.float32(1), [0], 0),
        (np.ones((2, 3), np.float32), [[0], [3]], 1),
        (None, [0], 0),
    ],
    ids=str,
)
def test_gathering_what_is_not_there(value, indices, batch_dims):
    def build():
        v, begin = variable(np.ones(2, np.float32) if value is None else value)
        given = tf.placeholder(tf.int32, None)
        found = apply_op("ResourceGather", v, given, dtype=np.float32, batch_dims=batch_dims)
        return [*([] if value is None else [Run([begin])]), Run([found], {given: indices})]

    check_both_run(build, ["ResourceGather"])


@pytest.mark.parametrize("indices_type", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64, np.bool_])
def test_gathering_by_several_indices(dtype, indices_type):
    def build():
        v, begin = variable(np.arange(24).reshape(2, 3, 4).astype(dtype))
        given = tf.constant(np.array([[1, 2], [0, 1], [1, 0]], indices_type))
        found = apply_op("ResourceGatherNd", v, given, dtype=dtype)
        rows = apply_op("ResourceGatherNd", v, given[:, :1], dtype=dtype)
        return [Run([begin]), Run([found, rows])]

    check_both_run(build, ["ResourceGatherNd"])


@pytest.mark.parametrize("indices", [[[2, 0]], [[0, -1]], [[0, 0, 0]], 0], ids=str)
def test_gathering_by_indices_that_are_not_there(indices):
    def build():
        v, begin = variable(np.ones((2, 3), np.float32))
        given = tf.placeholder(tf.int32, None)
        found = apply_op("ResourceGatherNd", v, given, dtype=np.float32)
        return [Run([begin]), Run([found], {given: indices})]

    check_both_run(build, ["ResourceGatherNd"])


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64, np.bool_])
def test_assigning_to_a_slice(dtype, index_type):
    def build():
        v, begin = variable(np.zeros((4, 3), dtype))
        ends = [tf.constant(np.array(x, index_type)) for x in ([1, 0], [4, 2], [2, 1])]
        value = tf.constant(np.ones((2, 2), dtype))
        change = apply_op("ResourceStridedSliceAssign", v, *ends, value)
        row = apply_op(
            "ResourceStridedSliceAssign",
            v,
            *(tf.constant(np.array([x], index_type)) for x in (0, 1, 1)),
            tf.constant(np.ones(3, dtype)),
            shrink_axis_mask=1,
        )
        read = reading(v, dtype)
        return [Run([begin]), Run([change]), Run([read]), Run([row]), Run([read])]

    check_both_run(build, ["ResourceStridedSliceAssign"])


@pytest.mark.parametrize(
    ("ends", "value"),
    [
        (([0], [2], [0]), np.ones((2, 3))),
        (([0], [2], [1]), np.ones((3, 3))),
        (([0], [2], [1]), np.ones((2, 2))),
        (([0, 0, 0], [2, 2, 2], [1, 1, 1]), np.ones((2, 2))),
        (([0], [2, 2], [1]), np.ones((2, 3))),
    ],
    ids=str,
)
def test_assigning_what_does_not_fit_a_slice(ends, value):
    def build():
        v, begin = variable(np.zeros((4, 3), np.float32))
        given = [tf.placeholder(tf.int32, None) for _ in ends]
        change = apply_op(
            "ResourceStridedSliceAssign", v, *given, tf.constant(value.astype(np.float32))
        )
        return [Run([begin]), Run([change], dict(zip(given, ends)))]

    check_both_run(build, ["ResourceStridedSliceAssign"])


def test_reading_without_a_copy():
    def build():
        v, begin = variable(np.float32([1, 2]))
        change = apply_op("ResourceScatterAdd", v, [0], tf.constant([5.0]))
        read = reading(v, np.float32)
        return [Run([begin]), Run([apply_op("DisableCopyOnRead", v)]), Run([change]), Run([read])]

    check_both_run(build, ["DisableCopyOnRead"])


def test_reading_without_a_copy_what_is_not_there():
    def build():
        v, _ = variable(np.float32([1, 2]))
        return [Run([apply_op("DisableCopyOnRead", v)])]

    check_both_run(build, ["DisableCopyOnRead"])


@pytest.mark.parametrize("written", [True, False])
def test_reading_several_at_once(written):
    def build():
        handles = apply_op(
            "_VarHandlesOp",
            containers=["", ""],
            shared_names=["a", "b"],
            N=2,
            dtypes=[np.float32, np.int64],
            shapes=[[2], []],
            name="handles",
        )
        values = [tf.constant([1.0, 2.0]), tf.constant(np.int64(3))]
        begin = [apply_op("AssignVariableOp", h, x) for h, x in zip(handles, values)]
        read = apply_op("_ReadVariablesOp", handles, dtypes=[np.float32, np.int64], name="read")
        return [Run(begin if written else begin[:1]), Run(read)]

    check_both_run(build, ["_VarHandlesOp", "_ReadVariablesOp"])


# ---- what belongs to one step


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_closing_a_stack(dtype):
    def build():
        stack = apply_op("StackV2", 5, elem_type=dtype)
        pushed = apply_op("StackPushV2", stack, tf.constant(np.array([1, 2], dtype)))
        with tf.control_dependencies([pushed]):
            popped = apply_op("StackPopV2", stack, elem_type=dtype)
        with tf.control_dependencies([popped]):
            close = apply_op("StackCloseV2", stack)
        return [Run([popped, close])] * 2

    check_both_run(build, ["StackCloseV2"])


def test_a_closed_stack():
    def build():
        stack = apply_op("StackV2", 5, elem_type=np.float32)
        pushed = apply_op("StackPushV2", stack, tf.constant(1.0))
        with tf.control_dependencies([pushed]):
            close = apply_op("StackCloseV2", stack)
        with tf.control_dependencies([close]):
            again = apply_op("StackCloseV2", stack)
            popped = apply_op("StackPopV2", stack, elem_type=np.float32)
        return [Run([again]), Run([popped])]

    check_both_run(build, ["StackCloseV2"])


def tensor_array(dtype, count):
    return apply_op("TensorArrayV3", count, dtype=dtype, element_shape=[2])


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_closing_an_array_of_tensors(dtype):
    def build():
        handle, flow = tensor_array(dtype, 2)
        flow = apply_op("TensorArrayWriteV3", handle, 1, tf.constant(np.array([1, 2], dtype)), flow)
        read = apply_op("TensorArrayReadV3", handle, 1, flow, dtype=dtype)
        with tf.control_dependencies([read]):
            close = apply_op("TensorArrayCloseV3", handle)
        return [Run([read, close])] * 2

    check_both_run(build, ["TensorArrayCloseV3"])


def test_a_closed_array_of_tensors():
    def build():
        handle, flow = tensor_array(np.float32, 2)
        with tf.control_dependencies([apply_op("TensorArrayCloseV3", handle)]):
            again = apply_op("TensorArrayCloseV3", handle)
            late = apply_op("TensorArrayWriteV3", handle, 0, [1.0, 2.0], flow)
        return [Run([again]), Run([late])]

    check_both_run(build, ["TensorArrayCloseV3"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_gradients_of_an_array_with_a_further_dimension(dtype):
    def build():
        handle, flow = tensor_array(dtype, 2)
        flow = apply_op("TensorArrayWriteV3", handle, 0, tf.constant(np.array([1, 2], dtype)), flow)
        made, after = apply_op("TensorArrayGradWithShape", handle, flow, [3], source="gradients")
        given = tf.constant(np.arange(6).reshape(3, 2).astype(dtype))
        once = apply_op("TensorArrayWriteV3", made, 0, given, after)
        twice = apply_op("TensorArrayWriteV3", made, 0, given, once)
        return [Run([apply_op("TensorArrayReadV3", made, 0, twice, dtype=dtype)])]

    check_both_run(build, ["TensorArrayGradWithShape"])


@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_a_gradient_of_another_shape(shape):
    def build():
        handle, flow = tensor_array(np.float32, 2)
        made, after = apply_op("TensorArrayGradWithShape", handle, flow, [3], source="gradients")
        given = tf.placeholder(tf.float32, None)
        write = apply_op("TensorArrayWriteV3", made, 0, given, after)
        return [Run([write], {given: np.ones(shape, np.float32)})]

    check_both_run(build, ["TensorArrayGradWithShape"])


# ---- lists


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64, np.bool_])
def test_joining_a_list(dtype):
    def build():
        tensor = tf.constant(np.arange(12).reshape(3, 2, 2).astype(dtype))
        made = apply_op("TensorListFromTensor", tensor, [-1, 2])
        shorter = apply_op("TensorListSetItem", made, 1, tensor[0, :1])
        runs = []
        for shape in (None, [None, 2]):
            for one in (made, shorter):
                attrs = {"element_dtype": dtype, "element_shape": shape}
                runs.append(Run(list(apply_op("TensorListConcat", one, **attrs))))
        return runs

    check_both_run(build, ["TensorListConcat"])


@pytest.mark.parametrize("shape", [None, [2], [3]], ids=str)
def test_joining_an_empty_list(shape):
    def build():
        made = apply_op("EmptyTensorList", -1, 5, element_dtype=np.float32)
        attrs = {"element_dtype": np.float32, "element_shape": shape}
        return [Run(list(apply_op("TensorListConcat", made, **attrs)))]

    check_both_run(build, ["TensorListConcat"])


@pytest.mark.parametrize(
    ("attrs", "elements"),
    [
        ({"element_dtype": np.float32}, [1.0, 2.0]),
        ({"element_dtype": np.float32, "element_shape": [None, 3]}, [[[1.0]], [[2.0]]]),
        ({"element_dtype": np.float32}, [[1.0], [[2.0]]]),
        ({"element_dtype": np.float32}, [[[1.0, 2.0]], [[2.0]]]),
    ],
    ids=str,
)
def test_joining_what_does_not_fit(attrs, elements):
    def build():
        made = apply_op("EmptyTensorList", -1, 5, element_dtype=np.float32)
        for one in elements:
            made = apply_op("TensorListPushBack", made, tf.constant(one))
        return [Run(list(apply_op("TensorListConcat", made, **attrs)))]

    check_both_run(build, ["TensorListConcat"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64, np.bool_])
@pytest.mark.parametrize("shape_type", [np.int32, np.int64])
@pytest.mark.parametrize("indices", [[2, 0, 1], [0, 3, 1], [1, 1, 0]], ids=str)
def test_a_list_from_rows(dtype, shape_type, indices):
    def build():
        tensor = tf.constant(np.arange(6).reshape(3, 2).astype(dtype))
        made = apply_op("TensorListScatter", tensor, indices, np.array([2], shape_type))
        stacked = apply_op("TensorListStack", made, [2], element_dtype=dtype)
        return [Run([stacked, apply_op("TensorListLength", made)])]

    check_both_run(build, ["TensorListScatter"])


@pytest.mark.parametrize(
    ("tensor", "indices", "shape"),
    [
        ([[1.0, 2.0]], [-1], [2]),
        ([[1.0, 2.0]], [0], [3]),
        ([[1.0, 2.0]], [0, 1], [2]),
        ([[1.0, 2.0], [3.0, 4.0]], [0], [2]),
        (1.0, [0], [2]),
        ([[1.0, 2.0]], [[0]], [2]),
    ],
    ids=str,
)
def test_a_list_from_rows_that_do_not_fit(tensor, indices, shape):
    def build():
        rows, places = tf.placeholder(tf.float32, None), tf.placeholder(tf.int32, None)
        made = apply_op("TensorListScatter", rows, places, shape)
        length = apply_op("TensorListLength", made)
        return [Run([length], {rows: tensor, places: indices})]

    check_both_run(build, ["TensorListScatter"])
