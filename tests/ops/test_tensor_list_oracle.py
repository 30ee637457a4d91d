"""The same TensorList programs under tideflow and under TensorFlow: results or kinds of error."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours
from tideflow.graph.building import apply_op
from tideflow.ops.tensor_arrays.list_values import TensorList
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import as_dtype
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

tensorflow = pytest.importorskip("tensorflow")
theirs = tensorflow.compat.v1
pytestmark = pytest.mark.tensorflow

F, S = "float32", "string"
X = np.arange(6, dtype=np.float32).reshape(3, 2)


class Ops:
    """Makes list ops in either framework; shapes and indices may be fed, to be checked late."""

    def __init__(self, tf):
        self.tf = tf
        self.feeds = {}

    def __call__(self, name, *args, **attrs):
        if self.tf is ours:
            return apply_op(name, *args, **attrs)
        raw = getattr(tensorflow.raw_ops, name)
        inputs = _INPUTS[name].split()
        return raw(**dict(zip(inputs, args, strict=True)), **attrs)

    def late(self, value, dtype="int32"):
        """Return a value of which nothing is known before the step."""
        tensor = self.tf.placeholder(dtype, None)
        self.feeds[tensor] = value
        return tensor

    def rows(self, value=X, shape=-1):
        value = self.tf.constant(value)
        return self("TensorListFromTensor", value, self.late(shape))

    def stack(self, handle, dtype=F, shape=-1, **attrs):
        return self("TensorListStack", handle, self.late(shape), element_dtype=dtype, **attrs)

    def empty(self, dtype=F, shape=-1, most=-1):
        return self("EmptyTensorList", self.late(shape), self.late(most), element_dtype=dtype)

    def reserve(self, count, dtype=F, shape=-1):
        return self("TensorListReserve", self.late(shape), self.late(count), element_dtype=dtype)

    def push(self, handle, value):
        return self("TensorListPushBack", handle, self.tf.constant(value))

    def pop(self, handle, dtype=F, shape=-1):
        return self("TensorListPopBack", handle, self.late(shape), element_dtype=dtype)

    def put(self, handle, index, value, **attrs):
        value = self.tf.constant(value)
        return self("TensorListSetItem", handle, self.late(index), value, **attrs)

    def get(self, handle, index, dtype=F, shape=-1):
        return self(
            "TensorListGetItem", handle, self.late(index), self.late(shape), element_dtype=dtype
        )

    def gather(self, handle, indices, dtype=F, shape=-1):
        return self(
            "TensorListGather", handle, self.late(indices), self.late(shape), element_dtype=dtype
        )

    def split(self, value, lengths, shape=-1):
        return self(
            "TensorListSplit",
            self.tf.constant(value),
            self.late(shape),
            self.late(np.array(lengths, np.int64), "int64"),
        )

    def scatter(self, value, indices, count=-1, shape=-1):
        return self(
            "TensorListScatterV2",
            self.tf.constant(value),
            self.late(indices),
            self.late(shape),
            self.late(count),
        )

    def concat(self, handle, dtype=F, shape=-1, leading=()):
        return self(
            "TensorListConcatV2",
            handle,
            self.late(shape),
            self.late(np.array(leading, np.int64), "int64"),
            element_dtype=dtype,
        )


_INPUTS = {
    "EmptyTensorList": "element_shape max_num_elements",
    "TensorListReserve": "element_shape num_elements",
    "TensorListFromTensor": "tensor element_shape",
    "TensorListSplit": "tensor element_shape lengths",
    "TensorListScatter": "tensor indices element_shape",
    "TensorListScatterV2": "tensor indices element_shape num_elements",
    "TensorListScatterIntoExistingList": "input_handle tensor indices",
    "TensorListLength": "input_handle",
    "TensorListElementShape": "input_handle",
    "TensorListPushBack": "input_handle tensor",
    "TensorListPopBack": "input_handle element_shape",
    "TensorListGetItem": "input_handle index element_shape",
    "TensorListSetItem": "input_handle index item",
    "TensorListResize": "input_handle size",
    "TensorListStack": "input_handle element_shape",
    "TensorListGather": "input_handle indices element_shape",
    "TensorListConcat": "input_handle",
    "TensorListConcatV2": "input_handle element_shape leading_dims",
    "TensorListPushBackBatch": "input_handles tensor",
    "TensorListConcatLists": "input_a input_b",
}


def _into(op, indices, value=X[:2]):
    return op(
        "TensorListScatterIntoExistingList", op.rows(), op.tf.constant(value), op.late(indices)
    )


def _resized(op, size, of=None):
    return op("TensorListResize", op.rows() if of is None else of, op.late(size))


def _old_and_new(op):
    old = op.rows()
    new = op.put(old, 1, [9.0, 9.0])
    newer, last = op.pop(new)
    return [op.stack(old), op.stack(new), op.stack(newer), last, op.get(old, 1)]


def _nested(op):
    outer = op.empty("variant", shape=[])
    for rows in (X, X[:1]):
        outer = op("TensorListPushBack", outer, op.rows(rows))
    rest, last = op.pop(outer, "variant", [])
    first = op.get(rest, 0, "variant", [])
    return [op.stack(last), op.stack(first), op("TensorListLength", rest)]


def _batch(op):
    lists = op.tf.stack([op.rows(), op.rows(X[:1])])
    more = op("TensorListPushBackBatch", lists, op.tf.constant(X[:2]))
    joined = op("TensorListConcatLists", more, more, element_dtype=F)
    return [op.stack(h) for h in (more[0], more[1], joined[1])]


def _element_shape(op, shape, dtype="int32"):
    return op("TensorListElementShape", op.empty(shape=shape), shape_type=dtype)


def _length(op, handle):
    return op("TensorListLength", handle)


PROGRAMS = {
    "versions": _old_and_new,
    "nested": _nested,
    "batch": _batch,
    "stack": lambda op: op.stack(op.rows()),
    "stack counted": lambda op: op.stack(op.rows(), num_elements=3),
    "stack miscounted": lambda op: op.stack(op.rows(), num_elements=2),
    "stack with unset": lambda op: op.stack(op.put(op.reserve(3), 1, [1.0, 2.0])),
    "stack of unset": lambda op: op.stack(op.reserve(3)),
    "stack of unset, shape from op": lambda op: op.stack(op.reserve(3), shape=[2]),
    "stack of unset, shape from list": lambda op: op.stack(op.reserve(3, shape=[2])),
    "stack shapes disagree": lambda op: op.stack(op.reserve(3, shape=[2]), shape=[3]),
    "stack elements disagree": lambda op: op.stack(op.push(op.rows(), [1.0])),
    "stack empty": lambda op: op.stack(op.empty()),
    "stack empty, known": lambda op: op.stack(op.empty(shape=[2])),
    "stack other type": lambda op: op.stack(op.rows(), "int32"),
    "stack strings": lambda op: op.stack(op.rows(np.array([b"a", b"bc"], object)), S),
    "stack unset strings": lambda op: op.stack(op.put(op.reserve(2, S), 1, b"x"), S),
    "stack scalars": lambda op: op.stack(op.push(op.empty(shape=[]), 4.0)),
    "shape of two axes": lambda op: op.stack(op.empty(shape=[[1]])),
    "shape a scalar": lambda op: op.stack(op.empty(shape=3)),
    "shape negative": lambda op: op.stack(op.empty(shape=[-2])),
    "push": lambda op: op.stack(op.push(op.rows(), [7.0, 8.0])),
    "push misfit": lambda op: _length(op, op.push(op.empty(shape=[3]), [7.0, 8.0])),
    "push other type": lambda op: _length(op, op.push(op.empty(), [7])),
    "push to full": lambda op: _length(op, op.push(op.push(op.empty(most=1), 1.0), 2.0)),
    "push up to full": lambda op: _length(op, op.push(op.empty(most=1), 1.0)),
    "pop": lambda op: op.pop(op.rows())[1],
    "pop empty": lambda op: op.pop(op.empty())[1],
    "pop unset": lambda op: op.pop(op.reserve(2), shape=[3])[1],
    "pop unset unknown": lambda op: op.pop(op.reserve(2))[1],
    "get": lambda op: op.get(op.rows(), 2),
    "get outside": lambda op: op.get(op.rows(), 3),
    "get negative": lambda op: op.get(op.rows(), -1),
    "get unset": lambda op: op.get(op.reserve(2), 0, shape=[2, 1]),
    "get unset unknown": lambda op: op.get(op.reserve(2), 0, shape=[-1, 1]),
    "get unset inferred": lambda op: op.get(op.put(op.reserve(2), 1, [1.0]), 0),
    "get other type": lambda op: op.get(op.rows(), 0, "int32"),
    "set outside": lambda op: _length(op, op.put(op.rows(), 3, [1.0, 1.0])),
    "set negative": lambda op: _length(op, op.put(op.rows(), -1, [1.0, 1.0])),
    "set misfit": lambda op: _length(op, op.put(op.rows(shape=[2]), 0, [1.0])),
    "set beyond": lambda op: op.stack(
        op.put(op.rows(), 5, [1.0, 1.0], resize_if_index_out_of_bounds=True)
    ),
    "reserve negative": lambda op: _length(op, op.reserve(-1)),
    "length": lambda op: _length(op, op.reserve(4)),
    "shape unknown": lambda op: _element_shape(op, -1),
    "shape partly known": lambda op: _element_shape(op, [-1, 3], "int64"),
    "shape of scalars": lambda op: _element_shape(op, []),
    "resize up": lambda op: op.stack(_resized(op, 4)),
    "resize down": lambda op: op.stack(_resized(op, 1)),
    "resize to nothing": lambda op: _length(op, _resized(op, 0)),
    "resize negative": lambda op: _length(op, _resized(op, -1)),
    "rows of a scalar": lambda op: _length(op, op.rows(np.float32(1))),
    "rows misfit": lambda op: _length(op, op.rows(shape=[3])),
    "rows of nothing": lambda op: op.stack(op.rows(np.zeros((0, 2), np.float32), [2])),
    "gather": lambda op: op.gather(op.rows(), [2, 0, 2]),
    "gather none": lambda op: op.gather(op.rows(shape=[2]), np.zeros(0, np.int32)),
    "gather outside": lambda op: op.gather(op.rows(), [3]),
    "gather unset": lambda op: op.gather(op.reserve(3, shape=[1]), [0, 1]),
    "scatter": lambda op: op.stack(op.scatter(X, [3, 0, 1])),
    "scatter sized": lambda op: op.stack(op.scatter(X, [3, 0, 1], 6)),
    "scatter too small": lambda op: _length(op, op.scatter(X, [3, 0, 1], 2)),
    "scatter negative": lambda op: _length(op, op.scatter(X, [-1, 0, 1])),
    "scatter size -2": lambda op: _length(op, op.scatter(X, [0, 1, 2], -2)),
    "scatter miscounted": lambda op: _length(op, op.scatter(X, [0, 1])),
    "scatter misfit": lambda op: _length(op, op.scatter(X, [0, 1, 2], shape=[3])),
    "scatter into": lambda op: op.stack(_into(op, [2, 0])),
    "scatter into miscounted": lambda op: op.stack(_into(op, [0])),
    "split": lambda op: op.stack(op.split(X, [1, 1, 1])),
    "split and join": lambda op: list(op.concat(op.split(X, [2, 0, 1]))),
    "split short": lambda op: _length(op, op.split(X, [1, 1])),
    "split negative": lambda op: _length(op, op.split(X, [4, -1])),
    "split a scalar": lambda op: _length(op, op.split(np.float32(1), [1])),
    "split misfit": lambda op: _length(op, op.split(X, [3], [-1, 3])),
    "split into scalars": lambda op: _length(op, op.split(X, [3], [])),
    "join": lambda op: list(op.concat(op.rows())),
    "join scalars": lambda op: op.concat(op.rows(np.float32([1, 2])))[0],
    "join misfits": lambda op: op.concat(op.push(op.rows(X[None]), [[1.0]]))[0],
    "join nothing": lambda op: op.concat(op.empty())[0],
    "join nothing, known": lambda op: list(op.concat(op.empty(shape=[-1, 2]))),
    "join unset": lambda op: list(op.concat(op.reserve(2), shape=[-1, 2], leading=[2, 1])),
    "join unset, length known": lambda op: list(op.concat(op.reserve(2), shape=[3, 2])),
    "join unset, length unknown": lambda op: op.concat(op.reserve(2), shape=[-1, 2])[0],
    "add": lambda op: op.stack(op.tf.add_n([op.rows(), op.rows(X * 2)])),
    "zeros like": lambda op: op.stack(op.tf.zeros_like(op.rows())),
}


def outcome(tf, program):
    with tf.Graph().as_default(), tf.Session() as session:
        op = Ops(tf)
        try:
            found = session.run(program(op), op.feeds)
        except tf.errors.OpError as error:
            return type(error).__name__
        except ValueError:
            return "InvalidArgumentError"  # found when the graph was built
    parts = found if isinstance(found, list) else [found]
    arrays = [np.asarray(part) for part in parts]
    return [(a.tolist(), a.shape, a.dtype.name) for a in arrays]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_list_program_gives_what_it_gives_on_tensorflow(name):
    assert outcome(ours, PROGRAMS[name]) == outcome(theirs, PROGRAMS[name])


# TensorFlow takes these elements for ones of shape [0] and fails; zeros are what they mean.
@pytest.mark.parametrize(
    "program", [lambda op: op.pop(_resized(op, 5))[1], lambda op: op.get(_into(op, [4, 0]), 3)]
)
def test_an_element_that_growing_made_reads_as_zeros(program):
    assert outcome(ours, program) == [([0.0, 0.0], (2,), "float32")]


# ---- gradients: the same function of x, by either framework's own gradients


def _through(op, x, how):
    handle = op("TensorListFromTensor", x, [2])
    return how(op, handle, x)


GRADIENTS = {
    "stack": lambda op, h, x: op.stack(h),
    "get": lambda op, h, x: op.get(h, 1),
    "set": lambda op, h, x: op.stack(op("TensorListSetItem", h, op.late(0), x[2] * 3)),
    "push and pop": lambda op, h, x: op.stack(op.pop(op("TensorListPushBack", h, x[0]))[0]),
    "popped": lambda op, h, x: op.pop(op("TensorListPushBack", h, x[0] * x[1]))[1],
    "gather": lambda op, h, x: op.gather(h, [2, 0]),
    "scatter": lambda op, h, x: op.stack(
        op("TensorListScatterV2", x, op.late([2, 0, 1]), op.late([2]), op.late(-1))
    ),
    "scatter into": lambda op, h, x: op.stack(
        op("TensorListScatterIntoExistingList", h, x[:1] * 2, op.late([1]))
    ),
    "resize": lambda op, h, x: op.stack(op("TensorListResize", h, op.late(2))),
    "join": lambda op, h, x: op.concat(
        op("TensorListFromTensor", x[None] * 2, op.late([3, 2])), shape=[-1, 2]
    )[0],
    "split": lambda op, h, x: op.concat(
        op("TensorListSplit", x, op.late([-1, 2]), op.late(np.int64([1, 2]), "int64"))
    )[0],
    "used twice": lambda op, h, x: op.stack(h) * op.get(h, 0),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_is_tensorflows(name):
    found = []
    for tf in (ours, theirs):
        with tf.Graph().as_default(), tf.Session() as session:
            op = Ops(tf)
            x = tf.constant(X + 1)
            y = _through(op, x, GRADIENTS[name])
            (grad,) = tf.gradients(tf.reduce_sum(y * y), [x])
            found.append(session.run(grad, op.feeds))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


# ---- travelling


def _tensorflow_variant(handle):
    """Return TensorFlow's message for an eager variant tensor."""
    serialized = tensorflow.io.serialize_tensor(handle).numpy()
    return pb.TensorProto.FromString(serialized)


def _make_own(dtype, dims, items):
    return TensorList(as_dtype(dtype), dims, items)


def test_a_list_of_tensorflows_is_read():
    found = decode_tensor(_tensorflow_variant(_eager_list_of_rank()))
    assert isinstance(found, TensorList)
    assert (found.element_dtype.name, found.element_shape, found.most) == (F, (None, 2), -1)
    before, set_, after = found.items()
    assert before is None
    assert after is None
    np.testing.assert_array_equal(set_, X)


def _eager_list_of_rank():
    raw = tensorflow.raw_ops
    made = raw.TensorListReserve(element_shape=[-1, 2], num_elements=3, element_dtype=F)
    return raw.TensorListSetItem(input_handle=made, index=1, item=X)


@pytest.mark.parametrize(
    ("dtype", "dims", "items"),
    [
        (F, (None, 2), [None, X, None]),
        (S, (), [np.array(b"a", object), np.array(b"", object)]),
        ("int64", None, []),
    ],
)
def test_tensorflow_reads_our_list(dtype, dims, items):
    made = _make_own(dtype, dims, items)
    message = encode_tensor(made).SerializeToString()
    with tensorflow.device("CPU:0"):
        handle = tensorflow.io.parse_tensor(message, tensorflow.variant)
    raw = tensorflow.raw_ops
    assert raw.TensorListLength(input_handle=handle).numpy() == len(items)
    shape = raw.TensorListElementShape(input_handle=handle, shape_type=tensorflow.int32).numpy()
    wanted = -1 if dims is None else [-1 if size is None else size for size in dims]
    assert shape.tolist() == wanted
    for index, item in enumerate(items):
        if item is not None:
            found = raw.TensorListGetItem(
                input_handle=handle, index=index, element_shape=-1, element_dtype=dtype
            )
            np.testing.assert_array_equal(found.numpy(), item)
