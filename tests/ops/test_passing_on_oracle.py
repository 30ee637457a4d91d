"""Ops that pass values on, or refuse to: placeholders, checks, sends; and old forms of others."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tideflow.v1 as tf
from ops import compared
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op
from tideflow.ops.control_flow import PythonFunction

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

TYPES = [np.float32, np.float64, np.int32, np.int64, np.bool_, np.complex64]
EVERY_TYPE = [*TYPES, np.float16, ml_dtypes.bfloat16, np.uint8, np.int8, np.uint16, np.object_]


def filled(dtype, *shape):
    count = int(np.prod(shape))
    if dtype is np.object_:
        return np.array([b"%d" % i for i in range(count)], object).reshape(shape)
    return np.arange(count).reshape(shape).astype(dtype)


# ---- values as they are


PASSING = ["StopGradient", "PreventGradient", "_EagerConst"]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *[(name, dtype) for name in PASSING for dtype in EVERY_TYPE],
        *[("Snapshot", dtype) for dtype in EVERY_TYPE if dtype is not np.object_],
    ],
)
def test_what_is_passed_on(name, dtype):
    def build():
        value = filled(dtype, 2, 3)
        given = tf.placeholder(tf.as_dtype(value.dtype), None)
        return [Run([apply_op(name, given, name="made")], {given: value})]

    check_both_run(build, [name])


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_fed(dtype):
    def build():
        given = apply_op("Placeholder", dtype=dtype, shape=[None, 3])
        return [Run([given, tf.shape(given)], {given: filled(dtype, 2, 3)})]

    check_both_run(build, ["Placeholder"])


@pytest.mark.parametrize("shape", [[None, 3], None, []], ids=str)
def test_what_is_not_fed(shape):
    def build():
        given = apply_op("Placeholder", dtype=np.float32, shape=shape)
        return [Run([tf.identity(given)])]

    check_both_run(build, ["Placeholder"])


@pytest.mark.parametrize("dtype", EVERY_TYPE)
def test_what_may_be_fed(dtype):
    def build():
        value = tf.constant(filled(dtype, 2, 3))
        given = apply_op("PlaceholderWithDefault", value, shape=[None, 3])
        other = tf.identity(given)
        return [Run([other]), Run([other], {given: filled(dtype, 1, 3)})]

    check_both_run(build, ["PlaceholderWithDefault"])


# ---- shapes


@pytest.mark.parametrize("dtype", EVERY_TYPE)
@pytest.mark.parametrize("shape", [None, [2, None], [2, 3], [None, None]], ids=str)
def test_a_shape_that_is_right(dtype, shape):
    def build():
        value = filled(dtype, 2, 3)
        given = tf.placeholder(tf.as_dtype(value.dtype), None)
        return [Run([apply_op("EnsureShape", given, shape=shape)], {given: value})]

    check_both_run(build, ["EnsureShape"])


@pytest.mark.parametrize("shape", [[2, 4], [2], [], [2, 3, None]], ids=str)
def test_a_shape_that_is_wrong(shape):
    def build():
        given = tf.placeholder(tf.float32, None)
        made = apply_op("EnsureShape", given, shape=shape)
        return [Run([made], {given: np.ones((2, 3))})]

    check_both_run(build, ["EnsureShape"])


@pytest.mark.parametrize("dtype", EVERY_TYPE)
@pytest.mark.parametrize("axes", [[], [0], [-1], [0, 2], [-2, 0]], ids=str)
def test_squeezing(dtype, axes):
    def build():
        value = filled(dtype, 1, 3, 1, 1)
        given = tf.placeholder(tf.as_dtype(value.dtype), None)
        return [Run([apply_op("Squeeze", given, squeeze_dims=axes)], {given: value})]

    check_both_run(build, ["Squeeze"])


@pytest.mark.parametrize("axes", [[1], [4], [-5]], ids=str)
def test_squeezing_what_is_no_1(axes):
    def build():
        given = tf.placeholder(tf.float32, None)
        made = apply_op("Squeeze", given, squeeze_dims=axes)
        return [Run([made], {given: np.ones((1, 3, 1, 1))})]

    check_both_run(build, ["Squeeze"])


# ---- sums


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.complex64])
def test_adding_up(dtype, count):
    def build():
        given = [tf.placeholder(dtype, [2, 3]) for _ in range(count)]
        made = apply_op("AccumulateNV2", given, shape=[2, 3])
        return [Run([made], {one: filled(dtype, 2, 3) + i for i, one in enumerate(given)})]

    check_both_run(build, ["AccumulateNV2"])


def test_adding_up_what_differs():
    def build():
        given = [tf.placeholder(tf.float32, None) for _ in range(2)]
        made = apply_op("AccumulateNV2", given, shape=[2])
        return [Run([made], {given[0]: [1.0, 2.0], given[1]: [1.0, 2.0, 3.0]})]

    check_both_run(build, ["AccumulateNV2"])


# ---- the largest


def as_its_successor(given):
    """Replace TopK, whose kernel TensorFlow no longer finds, by the op that took its place."""
    for node in [node for node in given.node if node.op == "TopK"]:
        k = given.node.add(name="how_many", op="Const")
        k.attr["dtype"].type = tensorflow.int32.as_datatype_enum
        k.attr["value"].tensor.CopyFrom(tensorflow.make_tensor_proto(node.attr["k"].i, "int32"))
        del node.attr["k"]
        node.op = "TopKV2"
        node.input.append(k.name)


@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8])
def test_the_largest(dtype, k):
    def build():
        given = tf.constant(np.array([[3, 1, 2, 3], [9, 8, 8, 1]], dtype))
        return [Run(list(apply_op("TopK", given, k=k)))]

    check_both_run(build, ["TopK"], change=as_its_successor)


@pytest.mark.parametrize("value", [[1.0, 2.0], 1.0], ids=str)
def test_more_than_there_are(value):
    def build():
        given = tf.placeholder(tf.float32, None)
        return [Run(list(apply_op("TopK", given, k=3)), {given: value})]

    check_both_run(build, ["TopK"], change=as_its_successor)


# ---- numbers that are none


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_numbers(dtype):
    def build():
        made = apply_op("CheckNumericsV2", tf.constant(filled(dtype, 2, 3)), message="here")
        return [Run([made])]

    check_both_run(build, ["CheckNumericsV2"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_number(dtype, wrong):
    def build():
        given = tf.constant(np.array([1.0, wrong]).astype(dtype))
        return [Run([apply_op("CheckNumericsV2", given, message="here")])]

    check_both_run(build, ["CheckNumericsV2"])


# ---- from one place to another


HOST = "/job:localhost/replica:0/task:0/device:CPU:0"


@pytest.mark.parametrize(
    ("send", "receive"), [("_Send", "_Recv"), ("_HostSend", "_HostRecv"), ("Send", "Recv")]
)
@pytest.mark.parametrize("dtype", [*TYPES, np.object_])
def test_a_value_that_is_sent(send, receive, dtype):
    def build():
        value = tf.constant(filled(dtype, 2, 3))
        address = {
            "tensor_name": "it",
            "send_device": HOST,
            "send_device_incarnation": 1,
            "recv_device": HOST,
        }
        sent = apply_op(send, value, name="sent", **address)
        received = apply_op(receive, tensor_type=value.dtype, name="received", **address)
        return [Run([sent, received])] * 2

    check_both_run(build, [send, receive])


# ---- the time


def test_the_time():
    def build():
        first = apply_op("Timestamp")
        with tf.control_dependencies([first]):
            second = apply_op("Timestamp")
        plausible = tf.logical_and(first > 1.6e9, second >= first)
        return [Run([plausible, tf.shape(first), tf.zeros_like(first)])]

    check_both_run(build, ["Timestamp"])


# ---- what is written


def written(build, about, read):
    """Return what both write that begins with "said"; the runs must agree, too."""
    check_both_run(build, about)
    return [line for line in read().splitlines() if line.startswith("said")]


SAID = [
    np.float32([1, 2.5, -3e10, 1e-7, np.nan, np.inf]),
    np.float64([0.1, 1 / 3, 12345678.9]),
    np.float32(7),
    np.array([1, -2, 3, 4]),
    np.array([True, False]),
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.arange(12).reshape(2, 3, 2),
    np.zeros((0,), np.float32),
    np.zeros((2, 0), np.int32),
    np.array([b"a b", b"c\xff", b"\"'\n\0"], object),
    np.array(b"one", object),
    np.complex64([1 + 2j, -1j]),
    np.float16([0.1, 1]),
    np.uint8([200, 1]),
    np.int8([-3, 4]),
]


@pytest.mark.parametrize("summarize", [3, 100, -1, 5])
@pytest.mark.parametrize("value", SAID, ids=repr)
def test_printing(capfd, value, summarize):
    def build():
        given = tf.constant(value)
        data = [given, tf.constant("and"), given]
        made = apply_op("Print", tf.constant(1.0), data, message="said ", summarize=summarize)
        return [Run([made])]

    mine, theirs = written(build, ["Print"], lambda: capfd.readouterr().err)
    assert mine == theirs


def test_printing_the_first_times(capfd):
    def build():
        given = tf.placeholder(tf.int32, [])
        made = apply_op("Print", given, [given], message="said ", first_n=2)
        return [Run([made], {given: i}) for i in range(3)]

    lines = written(build, ["Print"], lambda: capfd.readouterr().err)
    assert lines == ["said [0]", "said [1]"] * 2


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("end", ["\n", "", "!\n"])
def test_printing_a_line(capfd, stream, end):
    def build():
        lines = [
            apply_op("PrintV2", tf.constant(f"said {i}"), output_stream=stream, end=end)
            for i in range(2)
        ]
        # What ends no line is told apart by a line that does.
        last = apply_op("PrintV2", tf.constant("\nsaid it"), output_stream=stream)
        return [Run([one]) for one in [last, *lines, last]]

    lines = written(build, ["PrintV2"], lambda: getattr(capfd.readouterr(), stream[3:]))
    assert lines[: len(lines) // 2] == lines[len(lines) // 2 :]
    assert len(lines) > 4


def test_printing_to_a_file(tmp_path):
    path = tmp_path / "said"

    def build():
        text = tf.constant(np.array(b"said \xff", object))
        return [Run([apply_op("PrintV2", text, output_stream=f"file://{path}", end="|")])] * 2

    check_both_run(build, ["PrintV2"])
    assert path.read_bytes() == b"said \xff|" * 4


@pytest.mark.parametrize(("text", "stream"), [(["a", "b"], "stderr"), ("a", "nowhere")])
def test_what_cannot_be_printed(text, stream):
    def build():
        given = tf.placeholder(tf.string, None)
        return [Run([apply_op("PrintV2", given, output_stream=stream)], {given: text})]

    check_both_run(build, ["PrintV2"])


# ---- functions of Python


def called(library, name, body, inputs, types):
    """Call a function of Python by an op of either library: outputs, or the class of an error.

    Functions stay in the process and the library that made the op, so that each makes its own.
    """
    v1 = tf if library is tf else library.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        given = [v1.constant(one) for one in inputs]
        if library is tf:
            function = PythonFunction(body)
            made = apply_op(name, given, token=function.token, Tout=types)
        elif name == "EagerPyFunc":
            made = library.py_function(body, given, types)
        else:
            made = v1.py_func(body, given, types, stateful=name == "PyFunc")
        assert list(session.graph.get_operations())[-1].type == name
        try:
            return session.run(list(made))
        except v1.errors.OpError as error:
            return type(error).__name__


CALLS = ["PyFunc", "PyFuncStateless", "EagerPyFunc"]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [*TYPES, np.float16, np.uint8])
def test_a_function_of_python(name, dtype):
    given = [filled(dtype, 2, 3), filled(dtype, 2, 3)]
    types = [tf.as_dtype(dtype).name, "int64"]

    def body(x, y):
        return np.asarray(x) | np.asarray(y) if dtype is np.bool_ else x + y, np.int64(7)

    mine, theirs = (called(library, name, body, given, types) for library in (tf, tensorflow))
    for one, other in zip(mine, theirs, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    compared.agreed(name, [types[0]])


@pytest.mark.parametrize("name", CALLS[:2])
def test_a_function_of_strings(name):
    given = [np.array([b"a", b"bc"], object), np.array(b"d", object)]

    def body(x, y):
        return np.array([one + y for one in x], object), "text"

    mine, theirs = (
        called(library, name, body, given, ["string", "string"]) for library in (tf, tensorflow)
    )
    assert mine[0].tolist() == theirs[0].tolist()
    assert mine[1] == theirs[1]
    compared.agreed(name, ["string"])


RAISED = [
    ValueError,
    TypeError,
    StopIteration,
    MemoryError,
    NotImplementedError,
    KeyError,
    OSError,
    ZeroDivisionError,
]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("raised", RAISED)
def test_a_function_that_raises(name, raised):
    def body(x):
        raise raised("no")

    mine, theirs = (
        called(library, name, body, [np.float32(1)], ["float32"]) for library in (tf, tensorflow)
    )
    assert isinstance(mine, str)
    assert mine == theirs
    compared.refused(name)


@pytest.mark.parametrize("name", CALLS[:2])
@pytest.mark.parametrize(
    "result", [(1.0, 2.0), np.float64(1), np.int32(1), (), None, [[1.0], [1.0, 2.0]]], ids=repr
)
def test_a_function_that_gives_something_else(name, result):
    mine, theirs = (
        called(library, name, lambda x: result, [np.float32(1)], ["float32"])
        for library in (tf, tensorflow)
    )
    assert isinstance(mine, str)
    assert mine == theirs
    compared.refused(name)
