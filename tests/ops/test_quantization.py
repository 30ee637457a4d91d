"""Quantised numbers in sessions, functions and on the way between tasks, without TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf

# What TensorFlow's client calls the type of such numbers.
QUINT8 = np.dtype([("quint8", np.uint8)])
KINDS_OF_LEVELS = {"quint8": np.uint8, "qint32": np.int32}


def test_floats_become_levels_and_floats_again():
    x = tf.placeholder(tf.float32, [None])
    made = tf.quantization.quantize(x, -1.0, 3.0, tf.quint8)
    back = tf.quantization.dequantize(made.output, made.output_min, made.output_max)
    with tf.Session() as session:
        levels, floats = session.run([made.output, back], {x: [-2.0, -1.0, 0.0, 3.0, 9.0]})
    assert made.output.dtype == tf.quint8
    assert levels.tolist() == [0, 0, 64, 255, 255]
    np.testing.assert_allclose(floats, [-1, -1, 64 * 4 / 255 - 1, 3, 3], rtol=1e-4)


@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
@pytest.mark.parametrize("kind", ["qint8", "quint8", "qint16", "quint16", "qint32"])
def test_every_mode_comes_back_within_one_level(kind, mode):
    x = np.linspace(0, 2, 9, dtype=np.float32)
    made = tf.quantization.quantize(x, 0.0, 2.0, tf.as_dtype(kind), mode=mode)
    back = tf.quantization.dequantize(*made, mode=mode)
    with tf.Session() as session:
        found = session.run(back)
    # Of 32 bits the greatest level is one too many for a float: it wraps, as in TensorFlow.
    count = -1 if kind == "qint32" else None
    np.testing.assert_allclose(found[:count], x[:count], atol=2.1 / 127)


@pytest.mark.parametrize("value", [[1, 2], np.uint8([1, 2]), np.array([1, 2], QUINT8)])
def test_plain_numbers_and_numbers_in_a_field_are_fed(value):
    x = tf.placeholder(tf.quint8, [None])
    with tf.Session() as session:
        found = session.run(tf.identity(x), {x: value})
    assert found.dtype == np.uint8
    assert found.tolist() == [1, 2]


def test_numbers_in_a_field_make_a_constant_of_their_type():
    made = tf.constant(np.array([1, 200], QUINT8))
    assert made.dtype == tf.quint8
    assert tf.as_dtype(QUINT8) == tf.quint8
    with tf.Session() as session:
        assert session.run(made).tolist() == [1, 200]


def test_a_constant_of_levels_keeps_its_type_in_a_written_graph():
    with tf.Graph().as_default() as graph:
        tf.constant([1, 200], tf.quint8, name="levels")
    value = graph.as_graph_def().node[0].attr["value"].tensor
    assert value.dtype == tf.quint8.as_datatype_enum
    with tf.Graph().as_default(), tf.Session() as session:
        (made,) = tf.import_graph_def(graph.as_graph_def(), return_elements=["levels:0"])
        assert made.dtype == tf.quint8
        assert session.run(made).tolist() == [1, 200]


def test_a_product_of_levels_is_that_of_their_floats():
    a, b = np.float32([[0.5, -1], [2, 0]]), np.float32([[1, 0.25], [-2, 1]])
    left, right = (tf.quantization.quantize(x, -2.0, 2.0, tf.quint8) for x in (a, b))
    made = tf.raw_ops.QuantizedMatMul(
        a=left.output, b=right.output, min_a=left.output_min, max_a=left.output_max,
        min_b=right.output_min, max_b=right.output_max,
    )  # fmt: skip
    small = tf.raw_ops.QuantizeDownAndShrinkRange(
        input=made[0], input_min=made[1], input_max=made[2], out_type=tf.quint8
    )
    with tf.Session() as session:
        found = session.run(tf.quantization.dequantize(*small))
    np.testing.assert_allclose(found, a @ b, atol=0.1)


def test_levels_are_joined_in_the_range_of_all():
    parts = [tf.quantization.quantize([0.0, end], 0.0, end, tf.quint8) for end in (1.0, 4.0)]
    made = tf.quantization.quantized_concat(0, *map(list, zip(*parts)))
    with tf.Session() as session:
        levels, low, high = session.run(list(made))
    assert levels.tolist() == [0, 64, 0, 255]
    assert (low, high) == (0, 4)


def test_an_image_of_levels_is_convolved_and_pooled():
    image = tf.constant(np.arange(16).reshape(1, 4, 4, 1), tf.quint8)
    filter = tf.constant(np.ones((2, 2, 1, 1), np.uint8), tf.quint8)
    made = tf.nn.quantized_conv2d(
        image, filter, 0.0, 255.0, 0.0, 255.0, strides=[1, 1, 1, 1], padding="VALID"
    )
    windows = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    most = tf.nn.quantized_max_pool(image, 0.0, 255.0, **windows)
    mean = tf.nn.quantized_avg_pool(image, 0.0, 255.0, **windows)
    with tf.Session() as session:
        sums, greatest, means = session.run([made.output, most.output, mean.output])
    assert sums.reshape(-1).tolist() == [10, 14, 18, 26, 30, 34, 42, 46, 50]
    assert greatest.reshape(-1).tolist() == [5, 7, 13, 15]
    assert means.reshape(-1).tolist() == [2, 4, 10, 12]


def test_a_range_the_wrong_way_round_is_refused():
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="larger"):
        session.run(tf.quantization.quantize([1.0], 2.0, -2.0, tf.qint8).output)


def scaled(x, least, most, kind):
    """Return floats as levels of which 0 stands for zero."""
    wide = np.max(np.abs([least, most]))
    return np.rint(x / wide * np.iinfo(kind).max).astype(kind)


@pytest.mark.parametrize("by_channels", [False, True])
def test_a_convolution_with_bias_summand_and_relu_is_that_of_floats(by_channels):
    rng = np.random.default_rng(5)
    x, w = rng.uniform(0, 3, (2, 6, 5, 3)), rng.uniform(-1, 1, (3, 2, 3, 4))
    w[..., 1] *= 0.1 if by_channels else 1
    bias, summand = rng.uniform(-2, 2, 4), rng.uniform(0, 5, (2, 6, 5, 4))
    ends = np.abs(w).max(axis=(0, 1, 2) if by_channels else None).astype(np.float32)
    made = tf.raw_ops.QuantizedConv2DWithBiasSumAndReluAndRequantize(
        input=tf.constant(scaled(x, 0, 3, np.uint8), tf.quint8),
        filter=tf.constant(scaled(w / ends, -1, 1, np.int8), tf.qint8), bias=np.float32(bias),
        min_input=0.0, max_input=3.0, min_filter=-ends, max_filter=ends, min_freezed_output=0.0,
        max_freezed_output=20.0, summand=tf.constant(scaled(summand, 0, 5, np.uint8), tf.quint8),
        min_summand=0.0, max_summand=5.0, strides=[1, 1, 1, 1], padding="SAME",
        out_type=tf.quint8,
    )  # fmt: skip
    wanted = tf.nn.relu(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME") + bias + summand)
    with tf.Session() as session:
        levels, low, high, floats = session.run([*made, wanted])
    assert (low, high) == (0, 20)
    np.testing.assert_allclose(levels * (20 / 255), np.minimum(floats, 20), atol=0.25)


def test_a_convolution_by_depth_gives_a_range_for_each_channel():
    rng = np.random.default_rng(5)
    x, w = rng.uniform(-3, 3, (2, 6, 5, 3)), rng.uniform(-1, 1, (3, 2, 3, 2))
    made = tf.raw_ops.QuantizedDepthwiseConv2DWithBias(
        input=tf.constant(scaled(x, 0, 3, np.int8), tf.qint8),
        filter=tf.constant(scaled(w, -1, 1, np.int8), tf.qint8), bias=np.zeros(6, np.float32),
        min_input=-3.0, max_input=3.0, min_filter=-np.ones(6, np.float32),
        max_filter=np.ones(6, np.float32), strides=[1, 2, 2, 1], padding="SAME",
    )  # fmt: skip
    wanted = tf.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME")
    assert [x.shape.as_list() for x in made] == [[2, 3, 3, 6], [6], [6]]
    with tf.Session() as session:
        levels, low, high, floats = session.run([*made, wanted])
    np.testing.assert_allclose(levels * (high.astype(float) / 2**31), floats, atol=0.1)
    assert (low == -high).all()


def test_a_product_with_bias_becomes_floats_in_one_op():
    rng = np.random.default_rng(5)
    a, b, bias = rng.uniform(0, 2, (3, 8)), rng.uniform(-1, 1, (8, 2)), rng.uniform(-4, 4, 2)
    made = tf.raw_ops.QuantizedMatMulWithBiasAndDequantize(
        a=tf.constant(scaled(a, 0, 2, np.uint8), tf.quint8),
        b=tf.constant(scaled(b, -1, 1, np.int8), tf.qint8), bias=np.float32(bias), min_a=0.0,
        max_a=2.0, min_b=-1.0, max_b=1.0, min_freezed_output=0.0, max_freezed_output=0.0,
        input_quant_mode="SCALED", Toutput=tf.float32,
    )  # fmt: skip
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(made), a @ b + bias, atol=0.1)


def test_a_bias_that_does_not_fit_is_refused():
    made = tf.raw_ops.QuantizedMatMulWithBias(
        a=tf.constant([[1, 2]], tf.quint8), b=tf.constant([[1], [2]], tf.qint8),
        bias=np.float32([1, 2]), min_a=0.0, max_a=1.0, min_b=-1.0, max_b=1.0,
    )  # fmt: skip
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="bias"):
        session.run(made[0])


def test_floats_pass_through_scales_and_zero_points_of_slices():
    x = np.float32([[1, -2], [0.5, 60]])
    ends = {"quantization_min_val": -128, "quantization_max_val": 127, "quantization_axis": 1}
    steps = {"scales": np.float32([0.5, 1]), "zero_points": np.int32([0, -3])}
    levels = tf.raw_ops.UniformQuantize(input=x, Tout=tf.qint8, **steps, **ends)
    back = tf.raw_ops.UniformDequantize(input=levels, Tout=tf.float32, **steps, **ends)
    with tf.Session() as session:
        found, floats = session.run([levels, back])
    assert found.tolist() == [[2, -5], [1, 57]]
    assert floats.tolist() == x.tolist()


def steps(scale, zero=0):
    return np.float32(scale), np.int32(zero)


def limits(**bits):
    found = {}
    for what, count in bits.items():
        found[f"{what}_quantization_min_val"] = -(2 ** (count - 1))
        found[f"{what}_quantization_max_val"] = 2 ** (count - 1) - 1
    return found


def test_numbers_by_scales_are_added_multiplied_and_brought_to_other_scales():
    a, b = np.int8([[2, -4], [6, 8]]), np.int8([[1, 0], [2, -3]])
    (half, zero), (quarter, one), (tenth, two) = steps(0.5), steps(0.25, 1), steps(0.1, 2)
    product = tf.raw_ops.UniformQuantizedDot(
        lhs=tf.constant(a, tf.qint8), rhs=tf.constant(b, tf.qint8), Tout=tf.qint32,
        lhs_scales=half, lhs_zero_points=zero, rhs_scales=quarter, rhs_zero_points=one,
        output_scales=tenth, output_zero_points=two, **limits(lhs=8, rhs=8, output=32),
    )  # fmt: skip
    twice = tf.raw_ops.UniformQuantizedAdd(
        lhs=product, rhs=product, lhs_scales=tenth, lhs_zero_points=two, rhs_scales=tenth,
        rhs_zero_points=two, output_scales=half, output_zero_points=zero,
        **limits(lhs=32, rhs=32, output=32),
    )  # fmt: skip
    small = tf.raw_ops.UniformRequantize(
        input=product, input_scales=tenth, input_zero_points=two, output_scales=half,
        output_zero_points=one, Tout=tf.qint8, **limits(input=32, output=8),
    )  # fmt: skip
    floats = (a * 0.5) @ ((b - 1) * 0.25)
    with tf.Session() as session:
        found = session.run([product, twice, small])
    assert found[0].tolist() == [[-3, 19], [12, -45]]
    np.testing.assert_allclose((found[0] - 2) * 0.1, floats, atol=0.05001)
    np.testing.assert_allclose(found[1] * 0.5, floats * 2, atol=0.5)
    np.testing.assert_allclose((found[2] - 1) * 0.5, floats, atol=0.3)


@pytest.mark.parametrize("groups", [1, 2])
def test_images_by_scales_are_convolved_as_their_floats(groups):
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (2, 4, 5, 6)).astype(np.float32)
    w = rng.integers(-100, 100, (6, 4 // groups, 2, 3)).astype(np.int8)
    made = tf.raw_ops.UniformQuantizedConvolutionHybrid(
        lhs=x, rhs=tf.constant(w, tf.qint8), rhs_scales=np.float32(0.01),
        rhs_zero_points=np.int32(0), Tout=tf.float32, padding="SAME", window_strides=[2, 1],
        feature_group_count=groups, **limits(rhs=8),
    )  # fmt: skip
    wanted = tf.nn.conv2d(
        x.transpose(0, 2, 3, 1), np.float32(w.transpose(2, 3, 1, 0) * 0.01),
        strides=[1, 2, 1, 1], padding="SAME",
    )  # fmt: skip
    with tf.Session() as session:
        found, exact = session.run([made, wanted])
    np.testing.assert_allclose(found, exact.transpose(0, 3, 1, 2), atol=0.1)


def test_a_scale_that_is_not_positive_is_refused():
    (nothing, zero), (one, _) = steps(0), steps(1)
    made = tf.raw_ops.UniformRequantize(
        input=tf.constant([1], tf.qint8), input_scales=nothing, input_zero_points=zero,
        output_scales=one, output_zero_points=zero, Tout=tf.qint8, **limits(input=8, output=8),
    )  # fmt: skip
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="positive"):
        session.run(made)


@pytest.mark.parametrize("kind", ["quint8", "qint32"])
def test_quantised_images_take_another_size(kind):
    pixels = np.arange(6, dtype=KINDS_OF_LEVELS[kind]).reshape(1, 2, 3, 1) * 20
    images = tf.bitcast(tf.constant(pixels), getattr(tf, kind))
    made = tf.raw_ops.QuantizedResizeBilinear(images=images, size=[3, 3], min=-1.0, max=3.0)
    with tf.Session() as session:
        levels, least, most = session.run(made)
    assert levels[0, :, :, 0].tolist() == [[0, 20, 40], [40, 60, 80], [60, 80, 100]]
    assert (least, most) == (-1.0, 3.0)
    for size, end in (([0, 3], 1.0), ([3, 3], [1.0])):
        with tf.Session() as session, pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            session.run(
                tf.raw_ops.QuantizedResizeBilinear(images=images, size=size, min=0.0, max=end)[0]
            )
