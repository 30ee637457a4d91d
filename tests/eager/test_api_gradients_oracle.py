"""Gradients of calls that are composed of ops, called at once and traced, beside TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow as ours

theirs = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore")]

_random = np.random.default_rng(11)
VECTOR = _random.normal(size=24).astype(np.float32)
MATRIX = (_random.normal(size=(3, 3)) + 4 * np.eye(3)).astype(np.float32)
STACK = np.stack([MATRIX, np.eye(3, dtype=np.float32) + MATRIX.T])
POSITIVE = (MATRIX @ MATRIX.T).astype(np.float32)
IMAGES = _random.normal(size=(2, 6, 6, 2)).astype(np.float32)
FILTERS = _random.normal(size=(2, 2, 2, 3)).astype(np.float32)
TABLE = _random.normal(size=(4, 3)).astype(np.float32)

# An expression in tf, x and np, and x.
CALLS = {
    "tf.linalg.logdet(x)": POSITIVE,
    "tf.linalg.expm(x)": STACK,
    "tf.linalg.pinv(x)": MATRIX[:, :2],
    "tf.linalg.normalize(x, axis=-1)[0]": MATRIX,
    "tf.linalg.cholesky_solve(tf.linalg.cholesky(x), [[1.0], [2.0], [3.0]])": POSITIVE,
    "tf.linalg.adjoint(x)": STACK,
    "tf.linalg.banded_triangular_solve(x, [[1.0], [2.0], [3.0]])": MATRIX[:2] + 3,
    "tf.linalg.tridiagonal_matmul(x, tf.constant([[1.0], [2.0], [3.0]]))": MATRIX,
    "tf.linalg.tridiagonal_solve(x, tf.constant([[1.0], [2.0], [3.0]]))": (
        np.array([[1, 1, 0], [4, 5, 6], [0, 1, 1]], np.float32)
    ),
    "tf.signal.frame(x, 5, 3, pad_end=True)": VECTOR,
    "tf.signal.overlap_and_add(tf.reshape(x, [2, 3, 4]), 2)": VECTOR,
    "tf.abs(tf.signal.stft(x, 6, 4))": VECTOR,
    "tf.signal.inverse_stft(tf.signal.stft(x, 8, 4), 8, 4)": VECTOR,
    "tf.signal.mdct(x, 8)": VECTOR,
    "tf.signal.inverse_mdct(tf.reshape(x, [6, 4]))": VECTOR,
    "tf.signal.dct(x, 2, norm='ortho')": VECTOR,
    "tf.signal.dct(x, 3, norm='ortho')": VECTOR,
    "tf.signal.dct(x, 1)": VECTOR,
    "tf.signal.dct(x, 4)": VECTOR,
    "tf.signal.fftshift(x)": VECTOR,
    "tf.abs(tf.signal.rfft(x, [32]))": VECTOR,
    "tf.nn.convolution(x, np.ones([2, 2, 2, 1], np.float32), strides=2, padding='SAME')": IMAGES,
    "tf.nn.convolution(x[:, 0], np.ones([2, 2, 1], np.float32), dilations=2)": IMAGES,
    "tf.nn.conv_transpose(x, np.ones([2, 2, 3, 2], np.float32), [2, 12, 12, 3], 2)": IMAGES,
    "tf.nn.conv1d_transpose(x[0], np.ones([2, 3, 2], np.float32), [6, 12, 3], 2)": IMAGES,
    "tf.nn.pool(x, [2, 2], 'MAX', dilations=[2, 1])": IMAGES,
    "tf.nn.pool(x, [2, 2], 'AVG', strides=[2, 2])": IMAGES,
    "tf.nn.max_pool(x[0], 2, 2, 'VALID')": IMAGES,
    "tf.nn.weighted_moments(x, [0], [[1.0], [2.0], [3.0]])[1]": MATRIX,
    "tf.nn.moments(x, [0])[1]": MATRIX,
    "tf.nn.sufficient_statistics(x, [0], shift=1.0)[2]": MATRIX,
    "tf.nn.embedding_lookup_sparse(x, tf.sparse.SparseTensor([[0, 0], [0, 1], [1, 0]], [0, 3, 1], "
    "[2, 2]), tf.sparse.SparseTensor([[0, 0], [0, 1], [1, 0]], [1.0, 2.0, 3.0], [2, 2]))": TABLE,
    "tf.nn.safe_embedding_lookup_sparse(x, tf.sparse.SparseTensor([[0, 0], [0, 1]], "
    "tf.constant([0, 3], tf.int64), [2, 2]))": TABLE,
    "tf.nn.ctc_loss([[1, 2, 2], [3, 1, 0]], tf.reshape(x, [4, 2, 3]) @ np.eye(3, 4, "
    "dtype=np.float32), [1, 2], [4, 3])": VECTOR,
    "tf.nn.max_pool_with_argmax(x, 3, 2, 'SAME')[0]": IMAGES,
    "tf.nn.dilation2d(x, np.ones([2, 3, 2], np.float32), [1, 2, 1, 1], 'SAME', 'NHWC', "
    "[1, 1, 2, 1])": IMAGES,
    "tf.nn.erosion2d(np.ones([1, 4, 4, 3], np.float32), x[:, 0], [1, 1, 1, 1], 'VALID', 'NHWC', "
    "[1, 1, 1, 1])": FILTERS,
    "tf.nn.sampled_softmax_loss(x, tf.zeros([4]), tf.constant([[1], [2]], tf.int64), "
    "np.ones([2, 3], np.float32), 2, 4, 1, (tf.constant([1, 3], tf.int64), "
    "tf.constant([[0.5], [0.4]]), tf.constant([0.5, 0.2])))": TABLE,
    "tf.nn.nce_loss(tf.ones([4, 3]), tf.zeros([4]), tf.constant([[1], [2]], tf.int64), x[:2], 2, "
    "4, 1, (tf.constant([1, 3], tf.int64), tf.constant([[0.5], [0.4]]), "
    "tf.constant([0.5, 0.2])))": TABLE,
    "tf.math.special.bessel_j0(x) + tf.math.special.bessel_j1(x)": VECTOR,
    "tf.math.special.bessel_y0(x * x) + tf.math.special.bessel_y1(x * x + 1)": VECTOR,
    "tf.math.special.bessel_k0(x * x) + tf.math.special.bessel_k1(x * x + 1)": VECTOR,
    "tf.math.special.bessel_k0e(x * x) + tf.math.special.bessel_k1e(x * x + 1)": VECTOR,
    "tf.math.special.dawsn(x) + tf.math.special.expint(x * x)": VECTOR,
    "tf.math.special.fresnel_cos(x) + tf.math.special.fresnel_sin(x)": VECTOR,
    "tf.math.special.spence(x * x)": VECTOR,
    "tf.math.erfcinv(tf.sigmoid(x) + 0.5)": VECTOR,
    "tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x), x * 0.5)": MATRIX,
    "tf.py_function(lambda a: a * a.numpy() + a, [x], tf.float32)": VECTOR,
    "tf.batch_to_space(tf.space_to_batch(x * x, [2, 3], [[0, 0], [0, 0]]), [2, 3], "
    "[[0, 0], [1, 1]])": IMAGES,
}


def gradient(tf: Any, call: str, x: Any, is_traced: bool) -> Any:
    """Return the gradient of the sum of an expression's squares."""

    def find(given: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            found = eval(call, {"tf": tf, "np": np, "x": given})
            loss = tf.reduce_sum(found * found)
        return tf.convert_to_tensor(tape.gradient(loss, given))

    return (tf.function(find) if is_traced else find)(tf.constant(x)).numpy()


@pytest.mark.parametrize("is_traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("call", CALLS)
def test_gradient_is_that_of_tensorflow(call: str, is_traced: bool) -> None:
    found = gradient(ours, call, CALLS[call], is_traced)
    wanted = gradient(theirs, call, CALLS[call], False)
    assert np.abs(wanted).sum() > 0
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3 * np.abs(wanted).max())


def test_py_function_in_a_loop_goes_back_through_each_call() -> None:
    @ours.function
    def cubed_and_slope(x: Any) -> tuple[Any, Any]:
        with ours.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in ours.range(2):
                y = ours.py_function(lambda a: a * a, [y], ours.float32)
                y = ours.ensure_shape(y, [])
        return y, tape.gradient(y, x)

    y, slope = cubed_and_slope(ours.constant(3.0))
    assert float(y) == 81
    assert float(slope) == 4 * 27
