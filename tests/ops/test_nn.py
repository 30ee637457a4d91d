"""nn kernels without TensorFlow: both tiers agree, shapes are known early, errors are precise."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import tideflow.ops  # noqa: F401 - registers all ops
from ops.harness import Case, run
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph
from tideflow.graph.kernel import bind
from tideflow.ops.framework.constants import placeholder
from tideflow.ops.nn import cross_entropy as nn_losses
from tideflow.ops.nn.avg_pools import avg_pool
from tideflow.ops.nn.bias import bias_add
from tideflow.ops.nn.convolutions import conv2d, conv2d_transpose
from tideflow.ops.nn.pools import max_pool
from tideflow.ops.nn.top_values import top_k
from tideflow.wire.errors import InvalidArgumentError, UnimplementedError

RNG = np.random.default_rng(29)
TIERS = ("numpy", "jax")


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


def both(case):
    left, right = run(case), run(case, "jax")
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-5, atol=1e-5)
    return left


def test_relu_passes_nan_on_and_its_gradient_stops_at_zero():
    (found,) = both(Case("Relu", [np.array([-1, 0, 2, np.nan], np.float32)]))
    np.testing.assert_array_equal(found, [0, 0, 2, np.nan])
    features = np.array([-1.0, 0.0, 2.0], np.float32)
    (slope,) = both(Case("ReluGrad", [np.full(3, 5, np.float32), features]))
    np.testing.assert_array_equal(slope, [0, 0, 5])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_softmax_rows_add_up_to_one(dtype):
    (found,) = both(Case("Softmax", [normal(3, 5, dtype=dtype) * dtype(30)]))
    np.testing.assert_allclose(found.astype(np.float64).sum(-1), 1, rtol=1e-2)


def test_cross_entropies_agree_with_each_other_and_with_the_formula():
    logits, labels = normal(4, 3), np.array([2, 0, 1, 1], np.int32)
    dense, back = both(
        Case("SoftmaxCrossEntropyWithLogits", [logits, np.eye(3, dtype=np.float32)[labels]])
    )
    sparse, sparse_back = both(Case("SparseSoftmaxCrossEntropyWithLogits", [logits, labels]))
    wide = logits.astype(np.float64)
    expected = np.log(np.exp(wide).sum(1)) - wide[np.arange(4), labels]
    np.testing.assert_allclose(dense, expected, rtol=1e-5)
    np.testing.assert_allclose(sparse, expected, rtol=1e-5)
    np.testing.assert_allclose(back, sparse_back, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("label", [-1, 3, 2**31 - 1])
def test_labels_out_of_range_are_refused_or_give_nan(dtype, label):
    logits, labels = normal(2, 3), np.array([1, label], dtype)
    case = Case("SparseSoftmaxCrossEntropyWithLogits", [logits, labels])
    with pytest.raises(InvalidArgumentError, match=rf"\[0, 3\); 1 of 2 are: \[{label}\]"):
        run(case)
    loss, back = run(case, "jax")
    assert np.isfinite(loss[0])
    assert np.isnan(loss[1])
    assert np.isnan(back[1]).all()


def test_inputs_stay_as_they_were():
    logits, one_hot = normal(2, 3), np.eye(3, dtype=np.float32)[:2]
    before = logits.copy(), one_hot.copy()
    run(Case("SoftmaxCrossEntropyWithLogits", [logits, one_hot]))
    run(Case("SparseSoftmaxCrossEntropyWithLogits", [logits, np.array([0, 1])]))
    run(Case("LogSoftmax", [logits]))
    np.testing.assert_array_equal(logits, before[0])
    np.testing.assert_array_equal(one_hot, before[1])


def direct_convolution(x, w, stride, pads, dilation):
    """Convolve by the definition, one output at a time."""
    x = np.pad(x.astype(np.float64), ((0, 0), pads[0], pads[1], (0, 0)))
    reach = [(w.shape[i] - 1) * dilation[i] + 1 for i in (0, 1)]
    height, width = ((x.shape[i + 1] - reach[i]) // stride[i] + 1 for i in (0, 1))
    made = np.zeros((x.shape[0], height, width, w.shape[3]))
    for i, j in np.ndindex(height, width):
        top, left = i * stride[0], j * stride[1]
        part = x[:, top : top + reach[0] : dilation[0], left : left + reach[1] : dilation[1]]
        made[:, i, j] = np.tensordot(part, w.astype(np.float64), 3)
    return made


@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
@pytest.mark.parametrize("pads", [((0, 0), (0, 0)), ((2, 0), (1, 3))])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_convolution_by_its_definition(stride, dilation, pads, layout):
    x, w = normal(2, 7, 6, 3), normal(3, 2, 3, 4)
    expected = direct_convolution(x, w, stride, pads, dilation)
    four = [[0, 0], *map(list, pads), [0, 0]]
    strides, dilations = [1, *stride, 1], [1, *dilation, 1]
    if layout == "NCHW":
        x = x.transpose(0, 3, 1, 2)
        expected = expected.transpose(0, 3, 1, 2)
        four = [four[0], four[3], four[1], four[2]]
        strides, dilations = [1, 1, *stride], [1, 1, *dilation]
    (found,) = both(
        Case(
            "Conv2D",
            [x, w],
            {
                "strides": strides,
                "dilations": dilations,
                "padding": "EXPLICIT",
                "explicit_paddings": [n for pair in four for n in pair],
                "data_format": layout,
            },
        )
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", ["Conv2D", "MaxPool", "AvgPool"])
def test_nothing_in_nothing_out(op):
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    if op == "Conv2D":
        (found,) = both(Case(op, [normal(0, 5, 5, 2), normal(3, 3, 2, 4)], attrs))
        assert found.shape == (0, 5, 5, 4)
    else:
        (found,) = both(Case(op, [normal(0, 5, 5, 2)], {**attrs, "ksize": [1, 2, 2, 1]}))
        assert found.shape == (0, 5, 5, 2)


def test_pooling_of_channels_first_is_the_same_transposed():
    x = normal(2, 6, 5, 3)
    attrs = {"ksize": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "padding": "SAME"}
    first = {"ksize": [1, 1, 2, 3], "strides": [1, 1, 2, 1], "data_format": "NCHW"}
    for op in ("MaxPool", "AvgPool"):
        (last,) = both(Case(op, [x], attrs))
        (other,) = both(Case(op, [x.transpose(0, 3, 1, 2)], {**attrs, **first}))
        np.testing.assert_allclose(other.transpose(0, 2, 3, 1), last, rtol=1e-6)


def test_pooling_by_one_gives_memory_of_its_own():
    x = normal(1, 2, 2, 1)
    attrs = {"ksize": [1] * 4, "strides": [1] * 4, "padding": "VALID"}
    (found,) = run(Case("MaxPool", [x], attrs))
    assert not np.shares_memory(found, x)


def test_the_first_of_equal_elements_takes_the_gradient():
    x = np.ones((1, 2, 2, 1), np.float32)
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    one = np.full((1, 1, 1, 1), 1, np.float32)
    (found,) = both(Case("MaxPoolGrad", [x, one, one * 5], attrs))
    np.testing.assert_array_equal(found.ravel(), [5, 0, 0, 0])


def test_top_k_orders_equal_elements_by_place():
    values, places = both(Case("TopKV2", [np.array([[1, 3, 3, 2]], np.float32), np.int32(3)]))
    assert values.tolist() == [[3, 3, 2]]
    assert places.tolist() == [[1, 2, 3]]


# ---- static shapes


def test_static_shapes_are_as_exact_as_the_inputs():
    x = placeholder("float32", [None, 28, None, 3])
    w = placeholder("float32", [5, 5, 3, 8])
    assert conv2d(x, w, 2, "SAME").shape.as_list() == [None, 14, None, 8]
    assert conv2d(x, w, 1, "VALID").shape.as_list() == [None, 24, None, 8]
    assert max_pool(x, 2, 2, "VALID").shape.as_list() == [None, 14, None, 3]
    assert avg_pool(placeholder("float32"), 2, 2, "VALID").shape.as_list() == [None] * 4
    up = conv2d_transpose(placeholder("float32", [2, 7, 7, 8]), w, [2, 14, 14, 3], 2)
    assert up.shape.as_list() == [2, 14, 14, 3]
    values, _ = top_k(placeholder("float32", [4, None]), 3)
    assert values.shape.as_list() == [4, 3]
    biased = bias_add(placeholder("float32", [None, None]), placeholder("float32", [7]))
    assert biased.shape.as_list() == [None, 7]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda p: bias_add(p(2, 3), p(4)), "not compatible"),
        (lambda p: bias_add(p(3), p(3)), "too few dimensions"),
        (lambda p: conv2d(p(1, 5, 5, 3), p(3, 3, 2, 4), 1, "SAME"), "3 channels"),
        (lambda p: conv2d(p(1, 2, 2, 3), p(5, 5, 3, 4), 1, "VALID"), "does not fit"),
        (lambda p: conv2d(p(1, 5, 5, 3), p(3, 3, 3, 4), 1, [[0, 0]]), "pair"),
        (lambda p: conv2d(p(1, 5, 5, 3), p(3, 3, 3, 4), 1), "padding is missing"),
        (lambda p: top_k(p(2, 3), 4), "fewer than k = 4"),
        (lambda p: nn_losses.softmax(p(2, 3), axis=2), "axis 2"),
        (
            lambda p: nn_losses.softmax_cross_entropy_with_logits(p(2, 3)),
            "both labels and logits",
        ),
        (
            lambda p: nn_losses.sparse_softmax_cross_entropy_with_logits(
                labels=apply_op("Cast", p(2, 1), DstT="int32"), logits=p(2, 3)
            ),
            "one dimension less",
        ),
    ],
)
def test_what_cannot_fit_is_refused_when_built(build, message):
    with pytest.raises(ValueError, match=message):
        build(lambda *dims: placeholder("float32", list(dims)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda p: conv2d(p(1, 5, 5, 3), p(3, 3, 3, 4), [2, 1, 1, 1], "SAME"), "batch and chan"),
        (lambda p: max_pool(p(1, 5, 5, 3), [2, 2, 2, 1], 1, "SAME"), "over batch or channels"),
    ],
)
def test_steps_over_batch_and_channels_are_refused_when_built(build, message):
    with pytest.raises(UnimplementedError, match=message):
        build(lambda *dims: placeholder("float32", list(dims)))


@pytest.mark.parametrize(
    ("op", "values", "attrs"),
    [
        ("BiasAdd", [normal(2, 3), normal(1)], {}),
        ("Softmax", [np.float32(1)], {}),
        ("TopKV2", [normal(2, 3), np.int32(4)], {}),
        ("TopKV2", [normal(2, 3), np.int32(-1)], {}),
        ("InTopKV2", [normal(2, 3), np.array([1], np.int32), np.int32(1)], {}),
        ("SparseSoftmaxCrossEntropyWithLogits", [normal(2, 3), np.array([1])], {}),
        ("SparseSoftmaxCrossEntropyWithLogits", [normal(2, 0), np.array([1, 0])], {}),
        (
            "Conv2DBackpropInput",
            [np.array([1, 5, 5, 3], np.int32), normal(3, 3, 3, 2), normal(1, 4, 5, 2)],
            {"strides": [1, 1, 1, 1], "padding": "SAME"},
        ),
        (
            "AvgPoolGrad",
            [np.array([1, 4, 4, 1], np.int32), normal(1, 3, 3, 1)],
            {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
        ),
    ],
)
@pytest.mark.parametrize("tier", TIERS)
def test_what_cannot_fit_is_refused_when_run(op, values, attrs, tier):
    kinds = [np.asarray(v) for v in values]
    tensors = [placeholder(v.dtype.name) for v in kinds]
    made = apply_op(op, *tensors, **attrs)
    node = (made[0] if isinstance(made, list) else made).op
    with pytest.raises(InvalidArgumentError):
        bind(node, np if tier == "numpy" else jnp)(*kinds)


# ---- fused ops


@pytest.mark.parametrize("activation", ["Relu", "Relu6", "Elu", "Tanh", "Sigmoid", "LeakyRelu"])
def test_a_fused_product_is_its_parts_in_a_row(activation):
    a, b, bias = normal(3, 4), normal(5, 4), normal(5)
    (found,) = both(
        Case(
            "_FusedMatMul",
            [a, b, [bias]],
            {"transpose_b": True, "fused_ops": ["BiasAdd", activation], "leakyrelu_alpha": 0.2},
        )
    )
    (expected,) = run(Case(activation, [a @ b.T + bias]))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_fused_gelu_lies_near_its_approximation():
    inputs = [normal(3, 4), normal(4, 5), [normal(5)]]
    exact, near = (
        both(Case("_FusedMatMul", inputs, {"fused_ops": ["BiasAdd", name]}))[0]
        for name in ("GeluExact", "GeluApproximate")
    )
    np.testing.assert_allclose(exact, near, atol=2e-3)


def test_a_fused_convolution_normalises_by_fixed_moments():
    x, w = normal(2, 5, 5, 3), normal(3, 3, 3, 4)
    scale, offset, mean, variance = normal(4), normal(4), normal(4), np.abs(normal(4))
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    (found,) = both(
        Case(
            "_FusedConv2D",
            [x, w, [scale, offset, mean, variance], []],
            {**attrs, "num_args": 4, "fused_ops": ["FusedBatchNorm", "Relu"], "epsilon": 0.01},
        )
    )
    (plain,) = run(Case("Conv2D", [x, w], attrs))
    expected = (plain - mean) / np.sqrt(variance + 0.01) * scale + offset
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-4, atol=1e-4)


def test_a_fused_batch_norm_adds_its_side_input():
    x, side, channel = normal(2, 3, 3, 4), normal(2, 3, 3, 4), [normal(4) for _ in range(4)]
    attrs = {"is_training": False}
    channel[3] = np.abs(channel[3])
    (found, *_) = both(
        Case("_FusedBatchNormEx", [x, *channel, [side]], {**attrs, "activation_mode": "Relu"})
    )
    (plain, *_) = run(Case("FusedBatchNormV3", [x, *channel], attrs))
    np.testing.assert_allclose(found, np.maximum(plain + side, 0), rtol=1e-5, atol=1e-5)


def test_large_relus_take_the_same_values():
    x = normal(64, 65)
    (found,) = both(Case("Relu", [x]))
    np.testing.assert_array_equal(found, np.where(x > 0, x, 0))


def test_a_composition_applies_its_ops_in_order():
    x = normal(3, 4)
    (found,) = both(Case("_UnaryOpsComposition", [x], {"op_names": ["Abs", "Log1p", "LeakyRelu"]}))
    np.testing.assert_allclose(found, np.log1p(np.abs(x)), rtol=1e-5)


# ---- oneDNN's names


def test_ops_under_their_onednn_names_give_the_same():
    x, w = normal(2, 5, 5, 3), normal(3, 3, 3, 4)
    attrs = {"strides": [1, 2, 2, 1], "padding": "SAME"}
    pooled = {**attrs, "ksize": [1, 2, 2, 1]}
    (y,) = run(Case("MaxPool", [x], pooled))
    (z,) = run(Case("Conv2D", [x, w], attrs))
    sizes = np.array(w.shape, np.int32)
    for plain, native in (
        (Case("MatMul", [x[0, 0], w[0, 0]]), Case("_MklMatMul", [x[0, 0], w[0, 0]])),
        (Case("Softmax", [x[0, 0]]), Case("_MklSoftmax", [x[0, 0]])),
        (Case("Conv2D", [x, w], attrs), Case("_MklNativeConv2D", [x, w], attrs)),
        (Case("MaxPool", [x], pooled), Case("_MklNativeMaxPool", [x], pooled)),
        (
            Case("MaxPoolGrad", [x, y, y], pooled),
            Case("_MklNativeMaxPoolGrad", [x, y, y, np.zeros(0, np.uint8)], pooled),
        ),
        (
            Case("Conv2DBackpropFilter", [x, sizes, z], attrs),
            Case("_MklNativeConv2DBackpropFilterWithBias", [x, sizes, z], attrs),
        ),
    ):
        np.testing.assert_array_equal(run(plain)[0], run(native)[0])


def test_ops_on_volumes_under_their_onednn_names_give_the_same():
    x, w = normal(2, 4, 5, 5, 3), normal(2, 3, 3, 3, 4)
    attrs = {"strides": [1, 1, 2, 2, 1], "padding": "SAME"}
    pooled = {**attrs, "ksize": [1, 2, 2, 2, 1]}
    (y,) = run(Case("MaxPool3D", [x], pooled))
    (z,) = run(Case("Conv3D", [x, w], attrs))
    sizes = np.array(w.shape, np.int32)
    none = np.zeros(0, np.uint8)
    for op, given, extra in (
        ("Conv3D", [x, w], []),
        ("Conv3DBackpropFilterV2", [x, sizes, z], []),
        ("MaxPool3D", [x], []),
        ("MaxPool3DGrad", [x, y, y], [none]),
        ("AvgPool3D", [x], []),
        ("AvgPool3DGrad", [np.array(x.shape, np.int32), y], []),
    ):
        own = pooled if "Pool" in op else attrs
        native = Case(f"_MklNative{op}", [*given, *extra], own)
        np.testing.assert_array_equal(run(Case(op, given, own))[0], run(native)[0])


def test_fused_convolutions_apply_what_follows():
    bias = normal(4)
    volumes, w3 = normal(2, 4, 5, 5, 3), normal(2, 3, 3, 3, 4)
    images, w2 = normal(2, 5, 5, 2), normal(3, 3, 2, 2)
    for op, plain, given, strides in (
        ("_FusedConv3D", "Conv3D", [volumes, w3], [1] * 5),
        ("_MklNativeFusedConv3D", "Conv3D", [volumes, w3], [1] * 5),
        ("_FusedDepthwiseConv2dNative", "DepthwiseConv2dNative", [images, w2], [1] * 4),
        ("_MklNativeFusedDepthwiseConv2dNative", "DepthwiseConv2dNative", [images, w2], [1] * 4),
    ):
        attrs = {"strides": strides, "padding": "SAME"}
        fused = {**attrs, "fused_ops": ["BiasAdd", "Relu"]}
        (found,) = both(Case(op, [*given, [bias]], fused))
        (wanted,) = run(Case(plain, given, attrs))
        np.testing.assert_allclose(found, np.maximum(wanted + bias, 0), rtol=1e-4, atol=1e-5)


def test_bias_gradient_of_a_onednn_convolution():
    x, dy = normal(1, 4, 4, 2), normal(1, 4, 4, 3)
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    sizes = np.array([3, 3, 2, 3], np.int32)
    _, bias = both(Case("_MklNativeConv2DBackpropFilterWithBias", [x, sizes, dy], attrs))
    np.testing.assert_allclose(bias, dy.sum((0, 1, 2)), rtol=1e-5)
