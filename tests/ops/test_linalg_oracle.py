"""Linear algebra and Fourier transforms beside TensorFlow's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.outcomes import Call, check_ends_alike
from tideflow.graph.building import apply_op

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow

_random = np.random.default_rng(11)
_TYPES = ("float32", "float64", "complex64", "complex128")


def numbers(dtype: str, *shape: int) -> Any:
    x = _random.normal(size=shape)
    return (x + 1j * _random.normal(size=shape) if dtype.startswith("c") else x).astype(dtype)


def good(dtype: str, *shape: int) -> Any:
    """Return matrices far from singular."""
    return numbers(dtype, *shape) + 3 * np.eye(shape[-1], dtype=dtype)


def positive(dtype: str, *shape: int) -> Any:
    x = numbers(dtype, *shape)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])).astype(dtype)


def calls() -> list[Call]:
    found: list[Call] = []
    loose = {"rtol": 2e-3, "atol": 2e-4}
    for dtype in _TYPES:
        square, rhs = good(dtype, 2, 4, 4), numbers(dtype, 2, 4, 3)
        for adjoint in (False, True):
            found += [
                Call("MatrixInverse", [square], {"adjoint": adjoint}, **loose),
                Call("MatrixSolve", [square, rhs], {"adjoint": adjoint}, **loose),
            ]
            for lower in (False, True):
                attrs = {"lower": lower, "adjoint": adjoint}
                found.append(Call("MatrixTriangularSolve", [square, rhs], attrs, **loose))
        found += [
            Call("MatrixTriangularSolve", [square, numbers(dtype, 4, 3)], **loose),
            Call("MatrixDeterminant", [square], **loose),
            Call("LogMatrixDeterminant", [square], **loose),
            Call("Cholesky", [positive(dtype, 3, 4, 4)], **loose),
            Call("Lu", [numbers(dtype, 2, 4, 4)], {"output_idx_type": "int64"}, **loose),
            Call("MatrixSquareRoot", [positive(dtype, 2, 3, 3)], **loose),
            Call("TridiagonalSolve", [numbers(dtype, 2, 3, 5), numbers(dtype, 2, 5, 2)], **loose),
            Call("MatrixInverse", [square[:0]], **loose),
            Call("Qr", [numbers(dtype, 2, 4, 3)], **loose),
            Call("Qr", [numbers(dtype, 3, 4)], {"full_matrices": True}, **loose),
            Call("Qr", [numbers(dtype, 4, 4)], {"full_matrices": True}, **loose),
        ]
        for rows, columns in ((5, 3), (3, 5)):
            matrix, side = numbers(dtype, 2, rows, columns), numbers(dtype, 2, rows, 2)
            for l2, fast in ((0.0, True), (0.5, True), (0.0, False)):
                given = [matrix, side, np.float64(l2)]
                found.append(Call("MatrixSolveLs", given, {"fast": fast}, **loose))
    for dtype in _TYPES[2:]:
        found.append(Call("MatrixLogarithm", [positive(dtype, 2, 3, 3)], **loose))
        for name in ("FFT", "IFFT"):
            found.append(Call(name, [numbers(dtype, 2, 5)], **loose))
            found.append(Call(f"{name}2D", [numbers(dtype, 2, 5, 4)], **loose))
            found.append(Call(f"{name}3D", [numbers(dtype, 2, 5, 4, 3)], **loose))
    for real, complex_ in (("float32", "complex64"), ("float64", "complex128")):
        for sizes in ((6,), (5,), (4,)):
            length = np.int32(sizes)
            x, y = numbers(real, 2, 6), numbers(complex_, 2, 6)
            found.append(Call("RFFT", [x, length], {"Tcomplex": complex_}, **loose))
            found.append(Call("IRFFT", [y, length], {"Treal": real}, **loose))
        two = np.int32([4, 5])
        x, y = numbers(real, 2, 4, 5), numbers(complex_, 2, 4, 5)
        found.append(Call("RFFT2D", [x, two], {"Tcomplex": complex_}, **loose))
        found.append(Call("IRFFT2D", [y, two], {"Treal": real}, **loose))
        x, y = numbers(real, 2, 3, 4, 6), numbers(complex_, 2, 3, 4, 6)
        for sizes in ((3, 4, 6), (2, 5, 7), (4, 4, 4), (1, 1, 1)):
            three = np.int32(sizes)
            found.append(Call("RFFT3D", [x, three], {"Tcomplex": complex_}, **loose))
            found.append(Call("IRFFT3D", [y, three], {"Treal": real}, **loose))
    # What does not fit, and what has no answer.
    plain = numbers("float32", 3, 3)
    found += [
        Call("MatrixInverse", [np.zeros((2, 2), np.float32)]),
        Call("MatrixInverse", [plain[:2]]),
        Call("MatrixInverse", [plain[0]]),
        Call("MatrixSolve", [np.ones((2, 2), np.float32), plain[:2]]),
        Call("MatrixSolve", [plain, plain[:2]]),
        Call("MatrixTriangularSolve", [np.tril(plain, -1), plain]),
        Call("MatrixTriangularSolve", [plain, plain[:2]]),
        Call("Cholesky", [plain[:2]]),
        Call("Lu", [np.zeros((2, 2), np.float32)]),
        Call("TridiagonalSolve", [plain[:2], plain]),
        Call("Qr", [plain[0]]),
        Call("Svd", [plain[0]]),
        Call("FFT", [np.complex64(1)]),
        Call("RFFT", [plain, np.int32([2, 2])], {"Tcomplex": "complex64"}),
        Call("RFFT3D", [numbers("float32", 2, 3, 4), np.int32([3, 4])], {"Tcomplex": "complex64"}),
        Call("IRFFT3D", [numbers("complex64", 2, 3), np.int32([2, 3, 4])], {"Treal": "float32"}),
        Call("RFFT", [plain, np.int32([5])], {"Tcomplex": "complex64"}),
    ]
    return found


@pytest.mark.parametrize("call", calls(), ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tf, call)


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 4), (3, 3)])
@pytest.mark.parametrize("full_matrices", [False, True])
def test_factors_multiply_to_the_matrix(
    dtype: str, shape: tuple[int, ...], full_matrices: bool
) -> None:
    x = numbers(dtype, *shape)
    with ours.Graph().as_default(), ours.Session() as session:
        s, u, v = session.run(ours.linalg.svd(ours.constant(x), full_matrices=full_matrices))
        least = min(shape[-2:])
        rebuilt = (u[..., :least] * s[..., None, :]) @ np.conj(np.swapaxes(v[..., :least], -1, -2))
        np.testing.assert_allclose(rebuilt, x, rtol=1e-3, atol=1e-4)
        theirs = tf.raw_ops.Svd(input=x, full_matrices=full_matrices)
        assert [one.shape for one in (s, u, v)] == [tuple(one.shape) for one in theirs]
        np.testing.assert_allclose(s, theirs.s, rtol=1e-3, atol=1e-4)
        square = x @ np.conj(np.swapaxes(x, -1, -2))
        e, w = session.run(ours.linalg.eigh(ours.constant(square)))
        np.testing.assert_allclose(square @ w, w * e[..., None, :], rtol=1e-3, atol=1e-3)
        wide = "complex128" if dtype in ("float64", "complex128") else "complex64"
        e, w = session.run(apply_op("Eig", ours.constant(square), Tout=wide))
        np.testing.assert_allclose(square @ w, w * e[..., None, :], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", _TYPES)
def test_values_alone_agree(dtype: str) -> None:
    x, square = numbers(dtype, 2, 4, 3), positive(dtype, 2, 4, 4)
    with ours.Graph().as_default(), ours.Session() as session:
        s = session.run(ours.linalg.svd(ours.constant(x), compute_uv=False))
        e = session.run(ours.linalg.eigvalsh(ours.constant(square)))
    np.testing.assert_allclose(s, tf.raw_ops.Svd(input=x, compute_uv=False).s, rtol=1e-3)
    wanted = tf.raw_ops.SelfAdjointEigV2(input=square, compute_v=False).e
    np.testing.assert_allclose(e, wanted, rtol=1e-3)
    assert (s.dtype, e.dtype) == (x.real.dtype, square.dtype)


def _square(v1: Any, x: Any) -> Any:
    return v1.matmul(x, x, transpose_b=True) + v1.eye(4, dtype=x.dtype)


# Each gives what does not depend on the signs that a factorisation is free to choose.
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "inverse": lambda v1, x: v1.linalg.inv(_square(v1, x)),
    "adjoint inverse": lambda v1, x: v1.linalg.inv(_square(v1, x), adjoint=True),
    "determinant": lambda v1, x: v1.linalg.det(_square(v1, x)),
    "slogdet": lambda v1, x: v1.linalg.slogdet(_square(v1, x))[1],
    "solve": lambda v1, x: v1.linalg.solve(_square(v1, x), x),
    "adjoint solve": lambda v1, x: v1.linalg.solve(_square(v1, x), x, adjoint=True),
    "lower": lambda v1, x: v1.linalg.triangular_solve(_square(v1, x), x),
    "upper": lambda v1, x: v1.linalg.triangular_solve(_square(v1, x), x, lower=False, adjoint=True),
    "stretched": lambda v1, x: v1.linalg.triangular_solve(_square(v1, x)[0], x),
    "cholesky": lambda v1, x: v1.linalg.cholesky(_square(v1, x)),
    "qr": lambda v1, x: v1.linalg.qr(_square(v1, x))[1] ** 2,
    "tall qr": lambda v1, x: v1.linalg.qr(x[:, :, :2])[0] ** 2,
    "eigenvalues": lambda v1, x: v1.linalg.eigvalsh(_square(v1, x)),
    "eigenvectors": lambda v1, x: v1.linalg.eigh(_square(v1, x))[1] ** 2,
    "singular values": lambda v1, x: v1.linalg.svd(x, compute_uv=False),
    "tall svd": lambda v1, x: v1.linalg.svd(x[:, :, :2])[1] ** 2,
    "wide svd": lambda v1, x: v1.linalg.svd(x[:, :2])[2] ** 2,
    "root": lambda v1, x: v1.linalg.sqrtm(_square(v1, x)),
    "rfft": lambda v1, x: v1.abs(v1.signal.rfft(x)),
    "rfft2d": lambda v1, x: v1.abs(v1.signal.rfft2d(x)),
    "irfft": lambda v1, x: v1.signal.irfft(v1.complex(x, x * x)),
    "fft": lambda v1, x: v1.abs(v1.signal.fft(v1.complex(x, x * x))),
    "ifft2d": lambda v1, x: v1.abs(v1.signal.ifft2d(v1.complex(x, x * x))),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_gradients_agree(name: str) -> None:
    x = np.random.default_rng(3).normal(size=(2, 4, 4))
    weights = np.random.default_rng(4).normal(size=(16, 64))

    def gradient(v1: Any) -> Any:
        with v1.Graph().as_default(), v1.Session() as session:
            given = v1.constant(x)
            y = FUNCTIONS[name](v1, given)
            flat = v1.reshape(y, [-1])
            scale = v1.constant(weights.ravel())[: v1.size(flat)]
            (found,) = v1.gradients(v1.reduce_sum(flat * scale), [given])
            return session.run(found)

    wanted = gradient(tf.compat.v1)
    np.testing.assert_allclose(gradient(ours), wanted, rtol=1e-6, atol=1e-8 * np.abs(wanted).max())
