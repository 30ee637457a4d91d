"""Linear operators in functions: with shapes that are not known, as arguments, as results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tideflow as tf

L: Any = tf.linalg
_MATRIX = np.array([[3, 1, 2], [-1, 4, 1], [2, 0.5, 5]], np.float32)
_X = np.arange(6, dtype=np.float32).reshape(3, 2)

OPERATORS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "diag": (L.LinearOperatorDiag, [1.0, 2.0, 3.0]),
    "batch of diagonals": (L.LinearOperatorDiag, [[1.0, 2.0, 3.0], [2.0, 1.0, 1.0]]),
    "full": (L.LinearOperatorFullMatrix, _MATRIX),
    "triangular": (L.LinearOperatorLowerTriangular, _MATRIX),
    "identity": (lambda t: L.LinearOperatorIdentity(tf.shape(t)[0]), [1.0, 2.0, 3.0]),
    "batch of identities": (
        lambda t: L.LinearOperatorIdentity(tf.shape(t)[1], batch_shape=tf.shape(t)[:1]),
        [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],
    ),
    "scaled": (lambda t: L.LinearOperatorScaledIdentity(tf.shape(t)[0], t[1]), [1.0, 2.0, 3.0]),
    "circulant": (
        lambda t: L.LinearOperatorCirculant(t, input_output_dtype=tf.float32),
        [4.0, 1.0, 1.0],
    ),
    "toeplitz": (lambda t: L.LinearOperatorToeplitz(t, t), [4.0, 1.0, 2.0]),
    "tridiagonal": (lambda t: L.LinearOperatorTridiag(t, "matrix"), _MATRIX),
    "householder": (L.LinearOperatorHouseholder, [1.0, 2.0, 2.0]),
    "permutation": (lambda t: L.LinearOperatorPermutation(tf.cast(t, tf.int32)), [1.0, 2.0, 0.0]),
    "composition": (
        lambda t: L.LinearOperatorFullMatrix(t) @ L.LinearOperatorFullMatrix(t),
        _MATRIX,
    ),
    "kronecker": (
        lambda t: L.LinearOperatorKronecker(
            [L.LinearOperatorFullMatrix(t), L.LinearOperatorDiag(t[:1, 0])]
        ),
        _MATRIX,
    ),
    "blocks": (
        lambda t: L.LinearOperatorBlockDiag(
            [L.LinearOperatorFullMatrix(t[:2, :2]), L.LinearOperatorDiag(t[:1, 0])]
        ),
        _MATRIX,
    ),
    "triangle of blocks": (
        lambda t: L.LinearOperatorBlockLowerTriangular(
            [
                [L.LinearOperatorFullMatrix(t[:2, :2])],
                [L.LinearOperatorFullMatrix(t[:1, :2]), L.LinearOperatorDiag(t[:1, 0])],
            ]
        ),
        _MATRIX,
    ),
    "update": (
        lambda t: L.LinearOperatorLowRankUpdate(
            L.LinearOperatorDiag(t[0], is_non_singular=True), t[:, :1]
        ),
        _MATRIX,
    ),
    "inverse of adjoint": (lambda t: L.LinearOperatorFullMatrix(t).H.inverse(), _MATRIX),
}


def _everything(operator: Any) -> list[Any]:
    return [
        operator.shape_tensor(),
        operator.batch_shape_tensor(),
        operator.domain_dimension_tensor(),
        operator.to_dense(),
        operator.matmul(_X),
        operator.matmul(_X, adjoint=True),
        operator.solve(_X),
        operator.solve(_X, adjoint=True),
        operator.matvec(_X[:, 0]),
        operator.solvevec(_X[:, 0]),
        operator.diag_part(),
        operator.trace(),
        operator.log_abs_determinant(),
        operator.cond(),
        operator.add_to_tensor(tf.zeros(operator.shape_tensor())),
    ]


@pytest.mark.parametrize("name", OPERATORS)
def test_shapes_may_be_unknown_when_a_function_is_traced(name: str) -> None:
    make, value = OPERATORS[name]
    given = tf.constant(value)

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def traced(tensor: Any) -> Any:
        known = tf.ensure_shape(tensor, [None] * given.shape.rank)
        return _everything(make(known))

    for found, expected in zip(traced(given), _everything(make(given))):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_function_takes_and_gives_operators(name: str) -> None:
    make, value = OPERATORS[name]
    operator = make(tf.constant(value))

    @tf.function
    def traced(given: Any) -> Any:
        return given, given.matmul(_X)

    same, product = traced(operator)
    assert type(same) is type(operator)
    assert same.shape == operator.shape
    np.testing.assert_array_equal(same.to_dense(), operator.to_dense())
    np.testing.assert_allclose(product, operator.matmul(_X), rtol=1e-5)
    spec = tf.type_spec_from_value(operator)
    assert spec == tf.type_spec_from_value(same)


def test_operators_of_other_promises_have_traces_of_their_own() -> None:
    seen = []

    @tf.function
    def traced(operator: Any) -> Any:
        seen.append(operator.is_positive_definite)
        return operator.determinant()

    for positive in (True, None, True):
        traced(L.LinearOperatorDiag([1.0, 2.0], is_positive_definite=positive))
    assert seen == [True, None]


def test_a_variable_of_an_operator_stays_one_in_a_function() -> None:
    diagonal = tf.Variable([1.0, 2.0])
    operator = L.LinearOperatorDiag(diagonal)

    @tf.function
    def doubled(given: Any) -> Any:
        given.diag.assign(given.diag * 2.0)
        return given.trace()

    assert [float(doubled(operator)), float(doubled(operator))] == [6.0, 12.0]
    assert [float(v) for v in diagonal] == [4.0, 8.0]
    assert operator.trainable_variables == (diagonal,)


def test_a_spec_says_of_what_operators_a_function_is() -> None:
    diag = tf.type_spec_from_value(L.LinearOperatorDiag([1.0, 2.0]))
    other = tf.type_spec_from_value(L.LinearOperatorDiag([1.0, 2.0, 3.0]))
    common = diag.most_specific_common_supertype([other])
    assert common.is_compatible_with(L.LinearOperatorDiag([1.0]))
    assert not common.is_compatible_with(L.LinearOperatorFullMatrix([[1.0]]))
    traced = tf.function(lambda operator: operator.trace(), input_signature=[common])
    assert float(traced(L.LinearOperatorDiag([1.0, 4.0, 2.0, 1.0]))) == 8.0


def test_gradients_pass_through_operators() -> None:
    matrix = tf.Variable(_MATRIX @ _MATRIX.T)
    with tf.GradientTape() as tape:
        operator = L.LinearOperatorFullMatrix(
            matrix, is_self_adjoint=True, is_positive_definite=True
        )
        loss = operator.log_abs_determinant()
    slope = tape.gradient(loss, matrix)
    symmetric = (slope + tf.transpose(slope)) / 2.0
    np.testing.assert_allclose(symmetric, tf.linalg.inv(matrix), rtol=1e-3, atol=1e-4)


def test_an_operator_is_a_source_of_gradients() -> None:
    operator, other = L.LinearOperatorDiag([1.0, 2.0]), L.LinearOperatorDiag([3.0])
    with tf.GradientTape() as tape:
        tape.watch([operator, other])
        loss = tf.reduce_sum(operator.matvec([1.0, 3.0]))
    slope, none = tape.gradient(loss, [operator, other])
    assert type(slope) is L.LinearOperatorDiag
    np.testing.assert_array_equal(slope.diag, [1.0, 3.0])
    assert none is None


def test_a_ragged_tensor_is_a_source_of_gradients() -> None:
    ragged = tf.ragged.constant([[1.0, 2.0], [3.0]])
    with tf.GradientTape() as tape:
        tape.watch(ragged)
        loss = tf.reduce_sum(ragged.flat_values**2)
    assert tape.gradient(loss, ragged).to_list() == [[2.0, 4.0], [6.0]]


def test_a_sparse_tensor_is_no_source_of_gradients() -> None:
    sparse = tf.sparse.from_dense([[1.0, 0.0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(sparse.values)
    with pytest.raises(ValueError, match="SparseTensor is not supported as a gradient source"):
        tape.gradient(loss, sparse)


def test_a_program_may_have_operators_of_its_own() -> None:
    class Doubling(L.LinearOperator):  # type: ignore[misc]
        def _shape(self) -> Any:
            return tf.TensorShape([3, 3])

        def _shape_tensor(self) -> Any:
            return tf.constant([3, 3])

        def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
            return 2.0 * (tf.linalg.adjoint(x) if adjoint_arg else x)

    operator = Doubling(tf.float32, is_self_adjoint=True, is_positive_definite=True)
    np.testing.assert_array_equal(operator.to_dense(), 2 * np.eye(3))
    np.testing.assert_allclose(operator.solve(_X), _X / 2)
    assert float(operator.determinant()) == pytest.approx(8.0)
    assert type(operator @ operator).__name__ == "LinearOperatorComposition"
    assert type(operator.cholesky()).__name__ == "LinearOperatorLowerTriangular"
    assert float(tf.function(lambda given: given.trace())(operator)) == 6.0


def test_conjugate_gradients_run_in_functions() -> None:
    matrix = _MATRIX @ _MATRIX.T

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
    def solved(rhs: Any) -> Any:
        operator = L.LinearOperatorFullMatrix(
            matrix, is_self_adjoint=True, is_positive_definite=True
        )
        return L.experimental.conjugate_gradient(operator, rhs)

    rhs = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = solved(rhs)
    np.testing.assert_allclose(found.x, np.linalg.solve(matrix, rhs.T).T, rtol=1e-3, atol=1e-4)
