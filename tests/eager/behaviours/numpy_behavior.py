"""Tensors with NumPy's methods, indices and operators: each program chooses them anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.behaviours.registry import error, program


def enabled(tf: Any, **choices: Any) -> Any:
    """Choose, and return tf.experimental.numpy."""
    tnp = tf.experimental.numpy
    tnp.experimental_enable_numpy_behavior(**choices)
    return tnp


def operands(tf: Any) -> dict[str, Any]:
    """Return values of all kinds that meet in operators."""
    return {
        "int": 2,
        "float": 1.5,
        "truths": tf.constant([True, False]),
        "complex": 1j,
        "list": [1, 2.5],
        "array": np.array([1.0, 2.0], np.float32),
        "int8": tf.constant([3, 4], tf.int8),
        "uint8": tf.constant([3, 4], tf.uint8),
        "int32": tf.constant([3, 4], tf.int32),
        "int64": tf.constant([3, 4], tf.int64),
        "float16": tf.constant([0.5, 1.5], tf.float16),
        "bfloat16": tf.constant([0.5, 1.5], tf.bfloat16),
        "float32": tf.constant([0.5, 1.5], tf.float32),
        "float64": tf.constant([0.5, 1.5], tf.float64),
        "complex64": tf.constant([1 + 1j, 2], tf.complex64),
        "variable": tf.Variable([1.0, 2.0]),
        "numpy": np.float64(2.5),
    }


def of_all_pairs(tf: Any, apply: Any) -> dict[str, Any]:
    values = operands(tf)
    tensors = ("int8", "int32", "float16", "float32", "float64", "complex64", "variable")
    found = {}
    for left in tensors:
        for right in values:
            for x, y in ((left, right), (right, left)):
                found[f"{x} {y}"] = error(lambda x=x, y=y: apply(values[x], values[y]))
    return found


@program
def sums_of_all_types(tf: Any) -> Any:
    enabled(tf)
    return of_all_pairs(tf, lambda x, y: x + y)


@program
def quotients_of_all_types(tf: Any) -> Any:
    enabled(tf)
    return of_all_pairs(tf, lambda x, y: x / y)


@program
def sums_with_narrow_floats(tf: Any) -> Any:
    enabled(tf, prefer_float32=True)
    return of_all_pairs(tf, lambda x, y: x * y)


@program
def comparisons_of_all_types(tf: Any) -> Any:
    enabled(tf)
    x = tf.constant([1, 2])
    return [
        x < 1.5,
        x <= np.array([1.0, 1.5]),
        x > True,
        x >= tf.constant([1.5, 2.0]),
        x == 1.5,
        x != tf.constant([1.0, 3.0], tf.float64),
        x == [1, 3],
        error(lambda: x == [1, 2, 3]),
    ]


@program
def other_operators(tf: Any) -> Any:
    enabled(tf)
    x, f = tf.constant([5, 6]), tf.constant([2.0, 4.0])
    return [
        x // f,
        x % 4.5,
        x**f,
        2**f,
        x & 3,
        tf.constant([True, False]) | True,
        x - 1.0,
        1.5 - x,
        7 // x,
        7.5 % x,
        -x,
        +x,
        abs(-f),
        ~x,
        round(tf.constant([1.26, 2.5])),
        round(tf.constant([1.26, 2.57]), 1),
        tf.constant([[1, 2], [3, 4]]) @ tf.constant([[1.5], [2.0]]),
        tf.constant([[1, 2], [3, 4]]) @ tf.constant([1, 2]),
        tf.constant([1, 2]) @ np.array([[1.5], [2.0]]),
        error(lambda: x @ tf.constant([[1, 2, 3]])),
    ]


@program
def methods(tf: Any) -> Any:
    enabled(tf)
    x = tf.constant([[1, 2, 3], [4, 5, 6]])
    f = tf.constant([[1.0, -2.5, 3.5], [0.25, 5.0, -6.0]])
    return [
        x.T,
        x.ndim,
        x.size,
        x.data,
        x.tolist(),
        x.astype(np.float32),
        x.astype("float64"),
        x.transpose(),
        x.transpose([1, 0]),
        x.reshape(3, 2),
        x.reshape((3, 2)),
        x.reshape(-1),
        x.reshape([2, -1], order="F"),
        error(lambda: x.reshape(3, 2, other=1)),
        x.ravel(),
        x.flatten(),
        x.flatten("F"),
        f.clip(-1.0, 2.0),
        f.clip(None, 2),
        x.max(),
        x.max(axis=0),
        f.min(axis=1, keepdims=True),
        x.mean(),
        f.mean(axis=0),
        f.max(axis=1),
    ]


@program
def single_and_sliced_indices(tf: Any) -> Any:
    enabled(tf)
    x = tf.reshape(tf.range(24), [2, 3, 4])
    return [
        x[1],
        x[1, 2],
        x[..., 1],
        x[:, 1:, ::2],
        x[None, 0],
        x[0, None, 1],
        x[tf.constant(1)],
        x[np.int64(1), -1],
        x[1, tf.constant(2, tf.int64)],
        x[tf.constant(1, tf.uint8)],
        error(lambda: x[True]),
        error(lambda: x[1.5]),
        error(lambda: x["a"]),
        error(lambda: x[0, 0, 0, 0]),
        x[tf.constant(0) : tf.constant(1)],
    ]


@program
def arrays_as_indices(tf: Any) -> Any:
    enabled(tf)
    x = tf.reshape(tf.range(24), [2, 3, 4])
    return [
        x[[1, 0]],
        x[np.array([1, 0, 1])],
        x[tf.constant([[1], [0]])],
        x[:, [0, 2]],
        x[:, :, [3, -1]],
        x[..., [0, 1]],
        x[[0, 1], [1, 2]],
        x[[0, 1], :, [1, 2]],
        x[:, [0, 1], [1, 2]],
        x[..., [0, 1], [1, 2]],
        x[[0, 1], [1, 2], [3, 0]],
        x[[[0], [1]], [0, 2]],
        x[0, [0, 2]],
        x[[0, 1], 1],
        x[0, :, [1, 2]],
        x[None, [0, 1]],
        x[:, None, [0, 1]],
        x[[0, 1], ..., [2, 3]],
        x[1:, [0, -1]],
        x[[0, 1], 1:],
        x[tf.constant([1, 0], tf.int64), np.array([0, 1], np.int32)],
        error(lambda: x[[]]),
        error(lambda: x[[0, 5]]),
        error(lambda: x[[0.5]]),
    ]


@program
def truths_as_indices(tf: Any) -> Any:
    enabled(tf)
    x = tf.reshape(tf.range(12), [3, 4])
    return [
        x[x > 5],
        x[tf.constant([True, False, True])],
        x[np.array([True, False, True])],
        x[[True, False, True]],
        x[:, [True, False, True, True]],
        x[[True, False, True], [0, 1]],
        x[:, np.array([True, False, False, False])],
        error(lambda: x[:, x > 5]),
    ]


@program
def in_functions(tf: Any) -> Any:
    tnp = enabled(tf)
    spec = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[spec])
    def f(x: Any) -> Any:
        return (
            x.T + 1.5,
            x[[0, -1]],
            x[:, [1, 0]],
            x[x > 2],
            tnp.sum(x, axis=0),
            tnp.mean(x),
            x.reshape(-1),
            tnp.concatenate([x, [[7.5, 8]]]),
            x / 2,
        )

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def of_any_rank(x: Any) -> Any:
        return (
            tnp.atleast_2d(x),
            tnp.flip(x, 0),
            tnp.swapaxes(x, 0, -1),
            tnp.moveaxis(x, 0, -1),
            tnp.cumsum(x, -1),
            tnp.tile(x, 2),
            tnp.ravel(x),
            tnp.diagflat(x),
        )

    shapes = [t.shape for t in f.get_concrete_function().outputs]
    return [f([[1, 2], [3, 4]]), shapes, of_any_rank([[1.0, 2.0], [3.0, 4.0]])]


@program
def under_tapes(tf: Any) -> Any:
    tnp = enabled(tf)
    x = tf.Variable([[1.0, -2.0], [3.0, 0.5]])
    with tf.GradientTape() as tape:
        t = tf.convert_to_tensor(x)
        y = tnp.sum(t[[1, 0]] * 2) + tnp.mean(t.T @ t) + tnp.maximum(t, 0).max() + t[0, [1, 0]][0]
        y = y + tnp.sum(tnp.take(t, [0, 3]) * np.arange(2)) + tnp.var(t) + tnp.logaddexp(y, 2.0)
    return tape.gradient(y, x)


@program
def functions_with_integers(tf: Any) -> Any:
    tnp = enabled(tf)
    names = [
        "exp",
        "log",
        "sqrt",
        "sin",
        "floor",
        "isnan",
        "cbrt",
        "log2",
        "sinc",
        "arctan",
        "heaviside",
    ]
    found = {}
    for name in names:
        rest = (0.5,) if name == "heaviside" else ()
        found[name] = error(lambda name=name, rest=rest: getattr(tnp, name)([1, 2], *rest))
    return [
        found,
        tnp.around([1, 2]),
        tnp.average([1, 2]),
        tnp.average([[1, 2], [3, 4]], axis=1, returned=True),
        tnp.nansum([1, 2]),
        tnp.nanprod([[1, 2], [3, 4]], axis=0, dtype=np.float32),
        tnp.logaddexp(tf.constant([1, 2]), 3),
        tnp.logaddexp2(tf.constant([1.5, 2.5]), np.array([2, 3])),
        tnp.round(tf.constant([1.256, 2.5, 3.5]), 1),
        tnp.around(tf.constant([125.0, 2.5]), -1),
        tnp.log2(tf.constant([2.0])),
        tnp.take_along_axis([[3, 1]], [1], None),
        tnp.isclose([1.0], tf.constant([1.0])),
        tnp.iscomplex([1 + 1j, 2]),
        tnp.hypot([3, 4], 4.0),
        tnp.rad2deg(tf.constant([1.0])),
        tnp.around(tf.constant([1.255]), 2),
    ]


@program
def types_with_narrow_floats(tf: Any) -> Any:
    tnp = enabled(tf, prefer_float32=True)
    return [
        tnp.array(1.5).dtype,
        tnp.array([1.5]).dtype,
        tnp.zeros([2]).dtype,
        tnp.ones([2]).dtype,
        tnp.sqrt(2).dtype,
        tnp.mean([1, 2]).dtype,
        tnp.arange(2.0).dtype,
        tnp.linspace(0.0, 1.0, 2).dtype,
        tnp.result_type(1.5, tf.int32),
        tnp.result_type(1j),
        tnp.random.randn(2).dtype,
        (tf.constant([1]) * 1.5).dtype,
        (tf.constant([1]) / 2).dtype,
        tnp.eye(2).dtype,
        tnp.full([2], 1.5).dtype,
        tnp.geomspace(1.0, 2.0, 2).dtype,
    ]


@program
def rules_that_lose_bits(tf: Any) -> Any:
    enabled(tf, dtype_conversion_mode="all")
    return of_all_pairs(tf, lambda x, y: [x + y, "weak=True" in repr(x + y)])


@program
def rules_that_lose_none(tf: Any) -> Any:
    enabled(tf, dtype_conversion_mode="safe")
    found = of_all_pairs(tf, lambda x, y: x + y)
    # What is refused with an array, TensorFlow leaves to the array's own operator.
    return {key: value for key, value in found.items() if not {"array", "numpy"} & {*key.split()}}


@program
def weak_tensors(tf: Any) -> Any:
    tnp = enabled(tf, dtype_conversion_mode="all")
    one = tnp.array(1.5)
    strong = tf.constant([1, 2], tf.int16)
    return [
        repr(one),
        repr(tnp.sqrt(2.0)),
        repr(tnp.sum([1, 2])),
        str(one + 1),
        repr(one + strong),
        repr(one * tf.constant([1.0], tf.float16)),
        repr(one == 1.5),
        tnp.result_type(1, 2.5),
        tnp.result_type(tf.int16, 1),
        tnp.result_type(tf.int16, 1.5),
        float(one),
        one.dtype,
        one.shape,
        len(tnp.array([1.0, 2.0])),
        [repr(part) for part in tnp.array([1.0, 2.0])],
    ]


@program
def functions_by_weak_rules(tf: Any) -> Any:
    enabled(tf, dtype_conversion_mode="all")
    half = tf.constant([1.0, 2.0], tf.float16)
    calls = {
        "constant": lambda: tf.constant(1.5),
        "constants": lambda: tf.constant([1, 2]),
        "typed": lambda: tf.constant(1, tf.int64),
        "of an array": lambda: tf.constant(np.array([1.0])),
        "again": lambda: tf.constant(tf.constant(2)),
        "add": lambda: tf.add(1, 2.5),
        "add half": lambda: tf.add(half, 1),
        "add constant": lambda: tf.math.add(half, tf.constant(2.5)),
        "subtract": lambda: tf.subtract(tf.constant(3), half),
        "multiply": lambda: tf.multiply(tf.constant([1], tf.int8), 300 - 299),
        "divide": lambda: tf.divide(tf.constant(3), 2),
        "matmul": lambda: tf.matmul([[1.0]], tf.ones([1, 1], tf.float64)),
        "maximum": lambda: tf.maximum(1, 2.5),
        "equal": lambda: tf.equal(half, 1.0),
        "pow": lambda: tf.pow(2, half),
        "floordiv": lambda: tf.math.floordiv(7, tf.constant([2], tf.int16)),
        "sqrt": lambda: tf.sqrt(4.0),
        "exp": lambda: tf.exp(half),
        "abs": lambda: tf.abs(-3),
        "reduce_sum": lambda: tf.reduce_sum([1, 2]),
        "reduce_mean": lambda: tf.reduce_mean(tf.constant([1.0, 2.0])),
        "reshape": lambda: tf.reshape([1, 2], [2, 1]),
        "zeros_like": lambda: tf.zeros_like([1.5]),
        "relu": lambda: tf.nn.relu(tf.constant([-1.0])),
        "elu": lambda: tf.nn.elu(tf.constant([-1.0])),
        "softsign": lambda: tf.nn.softsign(1.5),
        "softplus": lambda: tf.math.softplus(1.5),
        "relu6": lambda: tf.nn.relu6(tf.constant([-1.0])),
        "gelu": lambda: tf.nn.gelu(1.5),
        "silu": lambda: tf.nn.silu(1.5),
        "leaky_relu": lambda: tf.nn.leaky_relu(1.5),
        "log_softmax": lambda: tf.nn.log_softmax([1.5]),
        "sin": lambda: tf.sin(1),
        "square": lambda: tf.square(3),
        "identity": lambda: tf.identity(1.5),
        "squeeze": lambda: tf.squeeze([1.5]),
        "expand_dims": lambda: tf.expand_dims(1.5, 0),
        "transpose": lambda: tf.transpose([[1.5]]),
        "diag": lambda: tf.linalg.diag([1.5]),
        "trace": lambda: tf.linalg.trace([[1.5]]),
        "round": lambda: tf.round(1.5),
        "sign": lambda: tf.sign(-3),
        "sigmoid": lambda: tf.sigmoid(1.5),
        "reduce_max": lambda: tf.reduce_max([1, 3]),
        "reduce_std": lambda: tf.math.reduce_std([1.0, 3.0]),
        "reciprocal": lambda: tf.math.reciprocal(2.0),
        "negative function": lambda: tf.negative(2),
        "truncatemod": lambda: tf.truncatemod(7, tf.constant([2], tf.int16)),
        "floormod": lambda: tf.math.floormod(7, 2.5),
        "divide_no_nan": lambda: tf.math.divide_no_nan(1, 2.0),
        "stack": lambda: tf.stack([1, 2]),
        "cumsum": lambda: tf.cumsum([1, 2]),
        "clip": lambda: tf.clip_by_value([1.0, 5.0], 2.0, 3.0),
        "product": lambda: tf.constant(2) * half,
        "negative": lambda: -tf.constant(2),
        "absolute": lambda: abs(tf.constant(-2.5)),
        "text": lambda: tf.constant("a"),
        "truth": lambda: tf.constant(True),
        "large": lambda: tf.constant(2**40),
        "less": lambda: tf.constant(2) < 2.5,
        "convert": lambda: tf.convert_to_tensor(1.5),
    }
    found = {}
    for name, call in calls.items():
        found[name] = error(lambda call=call: [call(), "weak=True" in repr(call())])
    return found


@program
def modes_that_are_none(tf: Any) -> Any:
    found = error(lambda: enabled(tf, dtype_conversion_mode="some"))
    enabled(tf, dtype_conversion_mode="off")
    x = tf.constant([1, 2])
    return [found, error(lambda: x + 1.5), error(lambda: x + tf.constant(1.0)), x[[1, 0]], x.T]
