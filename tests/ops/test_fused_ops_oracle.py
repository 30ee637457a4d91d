"""Ops that only TensorFlow's rewriting makes, run by TensorFlow's own kernels for them.

Types that TensorFlow declares and that its kernels then refuse, or that end its process on some
CPUs (float16 with oneDNN), are left out.
"""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op
from tideflow.wire import dtypes

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

FLOATS = ["float32", "bfloat16"]


WITHOUT_A_LABEL = ("_MklSwish", "_MklFusedMish", "_MklFusedBatchMatMulV2")


def for_onednn(given):
    """Ask for the kernels that a plain op's rewriting asks for."""
    for node in given.node:
        if node.op.startswith("_Mkl") and node.op not in WITHOUT_A_LABEL:
            node.attr["_kernel"].s = b"MklNameChangeOp"


def values(dtype, *shape, seed=0, positive=False):
    drawn = np.random.default_rng(seed).normal(size=shape)
    kind = dtypes.as_dtype(dtype).as_numpy_dtype
    return tf.constant((np.abs(drawn) + 0.5 if positive else drawn).astype(kind))


def check(name, args, attrs, count=1):
    """Compare the first outputs of an op; args: gives its inputs, in the graph."""

    def build():
        made = apply_op(name, *args(), name="made", **attrs)
        return [Run(list(made)[:count] if isinstance(made, (list, tuple)) else [made])]

    with tf.Graph().as_default():
        is_short = any(x.dtype in (tf.bfloat16, tf.float16) for x in args() if tf.is_tensor(x))
    # Half of the bits of short types are rounded away, by each in its own order.
    near = 5e-2 if is_short else 1e-4
    check_both_run(build, [name], rtol=near, atol=near, change=for_onednn)


def fused(activation, first="BiasAdd"):
    return [first, *([activation] if activation else [])]


# ---- products and convolutions


ACTIVATIONS = [None, "Relu", "Relu6", "Elu", "LeakyRelu"]
EVERY_ACTIVATION = [*ACTIVATIONS, "Tanh", "Sigmoid", "GeluApproximate", "GeluExact"]
PRODUCTS = [
    *[("_FusedMatMul", dtype, one) for dtype in FLOATS for one in EVERY_ACTIVATION],
    *[("_MklNativeFusedMatMul", dtype, one) for dtype in FLOATS for one in EVERY_ACTIVATION],
    *[("_FusedMatMul", "float16", one) for one in [*ACTIVATIONS, "Tanh", "Sigmoid"]],
]


@pytest.mark.parametrize(("name", "dtype", "activation"), PRODUCTS)
def test_a_product(name, dtype, activation):
    check(
        name,
        lambda: [values(dtype, 3, 4), values(dtype, 5, 4, seed=1), [values(dtype, 5, seed=2)]],
        {"transpose_b": True, "fused_ops": fused(activation), "leakyrelu_alpha": 0.3},
    )


@pytest.mark.parametrize("name", ["_FusedMatMul", "_MklNativeFusedMatMul"])
def test_a_product_of_what_does_not_fit(name):
    def build():
        a = tf.placeholder(tf.float32, None)
        bias = [values("float32", 5)]
        made = apply_op(name, a, values("float32", 4, 5), bias, fused_ops=["BiasAdd"], name="made")
        return [Run([made], {a: np.ones((3, 3))})]

    check_both_run(build, [name], change=for_onednn)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("adj_y", [False, True])
def test_a_product_of_batches_that_is_scaled_and_added_to(dtype, adj_y):
    def args():
        more = [values(dtype, seed=2), values(dtype, 2, 1, 3, 4, seed=3)]
        y = values(dtype, 2, 3, 4, 5) if adj_y else values(dtype, 2, 3, 5, 4)
        return [values(dtype, 2, 3, 3, 5, seed=1), y, more]

    check("_MklFusedBatchMatMulV2", args, {"adj_y": adj_y, "fused_ops": ["Mul", "Add"]})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_convolution_of_what_is_padded(dtype, activation):
    ends = {"strides": [1, 1, 2, 1], "padding": "VALID"}
    padding = np.int32([[0, 0], [1, 2], [2, 0], [0, 0]])

    def inputs():
        return [values(dtype, 2, 5, 5, 3), values(dtype, 3, 3, 3, 4, seed=1)]

    def args():
        return [*inputs(), [values(dtype, 4, seed=2)], tf.constant(padding)]

    attrs = {"fused_ops": fused(activation), "leakyrelu_alpha": 0.3, **ends}
    check("_MklNativePadWithFusedConv2D", args, attrs)
    check("_MklNativePadWithConv2D", lambda: [*inputs(), tf.constant(padding)], ends)
    check("_MklNativeConv2DWithBias", lambda: [*inputs(), values(dtype, 4, seed=2)], ends)


@pytest.mark.parametrize("dtype", FLOATS)
def test_mish(dtype):
    check("_MklFusedMish", lambda: [values(dtype, 4, 5)], {})


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("name", "dtype", "first"),
    [
        *[
            ("_FusedConv2D", dtype, first)
            for dtype in ("float32", "float64")
            for first in ("BiasAdd", "FusedBatchNorm")
        ],
        ("_MklNativeFusedConv2D", "float32", "BiasAdd"),
        ("_MklNativeFusedConv2D", "float32", "FusedBatchNorm"),
        ("_MklNativeFusedConv2D", "bfloat16", "BiasAdd"),
    ],
)
def test_a_convolution(name, dtype, first, activation):
    count = 1 if first == "BiasAdd" else 4

    def args():
        more = [values(dtype, 4, seed=2 + i, positive=i == 3) for i in range(count)]
        return [values(dtype, 2, 5, 5, 3), values(dtype, 3, 3, 3, 4, seed=1), more, []]

    attrs = {"fused_ops": fused(activation, first), "epsilon": 0.01, "leakyrelu_alpha": 0.3}
    check(name, args, {"strides": [1, 1, 2, 1], "padding": "SAME", "num_args": count, **attrs})


@pytest.mark.parametrize("name", ["_FusedConv3D", "_MklNativeFusedConv3D"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_convolution_of_volumes(name, dtype, activation):
    def args():
        bias = [values(dtype, 4, seed=2)]
        return [values(dtype, 2, 4, 5, 5, 3), values(dtype, 3, 3, 3, 3, 4, seed=1), bias]

    attrs = {"fused_ops": fused(activation), "leakyrelu_alpha": 0.3}
    check(name, args, {"strides": [1, 1, 2, 1, 1], "padding": "SAME", **attrs})


@pytest.mark.parametrize(
    "name", ["_FusedDepthwiseConv2dNative", "_MklNativeFusedDepthwiseConv2dNative"]
)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("activation", [None, "Relu", "Relu6", "Elu"])
def test_a_convolution_channel_by_channel(name, dtype, activation):
    def args():
        bias = [values(dtype, 6, seed=2)]
        return [values(dtype, 2, 5, 5, 3), values(dtype, 3, 3, 3, 2, seed=1), bias]

    attrs = {"fused_ops": fused(activation)}
    check(name, args, {"strides": [1, 1, 1, 1], "padding": "SAME", **attrs})


@pytest.mark.parametrize("name", ["_FusedConv2D", "_MklNativeFusedConv2D"])
@pytest.mark.parametrize("fused_ops", [[], ["Nothing"], ["BiasAdd", "Nothing"], ["BiasAdd", "Add"]])
def test_what_cannot_be_fused_to_a_convolution(name, fused_ops):
    def args():
        bias = [values("float32", 4, seed=2)]
        return [values("float32", 2, 5, 5, 3), values("float32", 3, 3, 3, 4, seed=1), bias, []]

    check(
        name,
        args,
        {"strides": [1, 1, 1, 1], "padding": "SAME", "num_args": 1, "fused_ops": fused_ops},
    )


@pytest.mark.parametrize("name", ["_FusedConv3D", "_MklNativeFusedConv3D"])
@pytest.mark.parametrize("fused_ops", [[], ["Nothing"], ["BiasAdd", "Nothing"]])
def test_what_cannot_be_fused_to_a_convolution_of_volumes(name, fused_ops):
    def args():
        bias = [values("float32", 4, seed=2)]
        return [values("float32", 2, 5, 5, 5, 3), values("float32", 3, 3, 3, 3, 4, seed=1), bias]

    check(name, args, {"strides": [1, 1, 1, 1, 1], "padding": "SAME", "fused_ops": fused_ops})


@pytest.mark.parametrize(
    "name", ["_FusedDepthwiseConv2dNative", "_MklNativeFusedDepthwiseConv2dNative"]
)
def test_channels_that_do_not_fit(name):
    def build():
        x = tf.placeholder(tf.float32, None)
        inputs = [x, values("float32", 3, 3, 3, 2), [values("float32", 6)]]
        attrs = {"strides": [1, 1, 1, 1], "padding": "SAME", "fused_ops": ["BiasAdd"]}
        made = apply_op(name, *inputs, name="made", **attrs)
        return [Run([made], {x: np.ones((2, 5, 5, 4))})]

    check_both_run(build, [name], change=for_onednn)


# ---- normalization


def channels(count=4):
    return [values("float32", count, seed=1 + i, positive=i == 3) for i in range(4)]


@pytest.mark.parametrize("name", ["_FusedBatchNormEx", "_MklNativeFusedBatchNormEx"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("is_training", [True, False])
def test_normalizing_before_an_activation(name, dtype, is_training):
    check(
        name,
        lambda: [values(dtype, 2, 3, 3, 4), *channels(), []],
        {"is_training": is_training, "activation_mode": "Relu"},
        count=3,
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("is_training", [True, False])
def test_normalizing(dtype, is_training):
    check(
        "_MklNativeFusedBatchNormV3",
        lambda: [values(dtype, 2, 3, 3, 4), *channels()],
        {"is_training": is_training},
        count=3,
    )


@pytest.mark.parametrize(
    "name",
    ["_FusedBatchNormEx", "_MklNativeFusedBatchNormEx", "_MklNativeFusedBatchNormV3"],
)
@pytest.mark.parametrize(("shape", "count"), [((2, 3, 3, 4), 3), ((3, 4), 4)])
def test_normalizing_by_what_does_not_fit(name, shape, count):
    def build():
        x = tf.placeholder(tf.float32, None)
        given = [tf.placeholder_with_default(one, None) for one in channels(count)]
        inputs = [x, *given, *([[]] if name.endswith("Ex") else [])]
        attrs = {"activation_mode": "Relu"} if name.endswith("Ex") else {}
        made = apply_op(name, *inputs, is_training=False, name="made", **attrs)
        return [Run([made[0]], {x: np.ones(shape)})]

    check_both_run(build, [name], change=for_onednn)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("is_training", [True, False])
def test_gradients_of_normalizing(dtype, is_training):
    def args():
        scale, _, mean, variance = channels()
        grad, x = values(dtype, 2, 3, 3, 4, seed=7), values(dtype, 2, 3, 3, 4)
        return [grad, x, scale, mean, variance, tf.constant([], tf.float32)]

    check("_MklNativeFusedBatchNormGradV3", args, {"is_training": is_training}, count=3)


# ---- elementwise


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("names", [["Abs", "Log1p"], ["Relu", "Sqrt", "Neg", "Exp"]])
def test_a_composition(dtype, names):
    check("_UnaryOpsComposition", lambda: [values(dtype, 3, 4)], {"op_names": names})


@pytest.mark.parametrize("names", [[], ["Nothing"], ["Abs", "Add"]])
def test_a_composition_of_what_is_no_op(names):
    check("_UnaryOpsComposition", lambda: [values("float32", 3, 4)], {"op_names": names})


@pytest.mark.parametrize("dtype", FLOATS)
def test_swish(dtype):
    check("_MklSwish", lambda: [values(dtype, 3, 4)], {})


# ---- pooling


POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1]}
POOL_3D = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1]}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(
    ("name", "attrs", "shape"),
    [
        ("_MklNativeMaxPool", POOL, (2, 5, 5, 3)),
        ("_MklNativeMaxPool3D", POOL_3D, (2, 5, 5, 5, 3)),
        ("_MklNativeAvgPool3D", POOL_3D, (2, 5, 5, 5, 3)),
    ],
)
def test_pooling(name, attrs, shape, dtype, padding):
    check(name, lambda: [values(dtype, *shape)], {**attrs, "padding": padding})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dims", ["", "3D"])
def test_gradients_of_pooling_by_the_largest(dims, dtype, padding):
    attrs, sizes = (POOL_3D, (5, 5, 5)) if dims else (POOL, (5, 5))
    name = f"_MklNativeMaxPool{dims}Grad"

    def build():
        x = values(dtype, 2, *sizes, 3)
        attrs_of_both = {**attrs, "padding": padding, "workspace_enabled": True}
        y, workspace = apply_op(f"_MklNativeMaxPool{dims}", x, name="made", **attrs_of_both)
        grad = values(dtype, *y.shape.as_list(), seed=3)
        more = {"TInput": dtype} if dims else {}
        back = apply_op(name, x, y, grad, workspace, name="back", **attrs_of_both, **more)
        return [Run([back])]

    check_both_run(build, [name], rtol=1e-2, atol=1e-2, change=for_onednn)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_gradients_of_pooling_by_the_mean(dtype, padding):
    out = 3 if padding == "SAME" else 2

    def args():
        return [tf.constant([2, 5, 5, 5, 3]), values(dtype, 2, out, out, out, 3)]

    check("_MklNativeAvgPool3DGrad", args, {**POOL_3D, "padding": padding})


# ---- convolutions of volumes, and the gradients of convolutions


STEPS_3D = {"strides": [1, 1, 2, 1, 1], "padding": "SAME"}


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolutions_of_volumes(dtype):
    check(
        "_MklNativeConv3D",
        lambda: [values(dtype, 2, 4, 6, 5, 3), values(dtype, 3, 3, 3, 3, 4, seed=1)],
        STEPS_3D,
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_convolutions_of_volumes(dtype):
    def x():
        return values(dtype, 2, 4, 6, 5, 3)

    def w():
        return values(dtype, 3, 3, 3, 3, 4, seed=1)

    def dy():
        return values(dtype, 2, 4, 3, 5, 4, seed=2)

    check(
        "_MklNativeConv3DBackpropFilterV2",
        lambda: [x(), tf.constant([3, 3, 3, 3, 4]), dy()],
        STEPS_3D,
    )
    check(
        "_MklNativeConv3DBackpropInputV2",
        lambda: [tf.constant([2, 4, 6, 5, 3]), w(), dy()],
        STEPS_3D,
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_gradients_of_a_filter_and_its_bias(dtype):
    def args():
        sizes = tf.constant([3, 3, 3, 4])
        return [values(dtype, 2, 5, 5, 3), sizes, values(dtype, 2, 3, 3, 4, seed=1)]

    attrs = {"strides": [1, 2, 2, 1], "padding": "SAME"}
    check("_MklNativeConv2DBackpropFilterWithBias", args, attrs, count=2)
