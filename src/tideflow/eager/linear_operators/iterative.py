"""tf.linalg.experimental.conjugate_gradient: solutions by iteration.

Source: tensorflow/python/ops/linalg/sparse/conjugate_gradient.py; Golub and Van Loan, "Matrix
Computations", for the method.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tideflow.eager.linear_operators.tensors import concatenated, dynamic_batch
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.array import shape
from tideflow.ops.control_flow import while_loop
from tideflow.ops.export import export
from tideflow.ops.framework import conj
from tideflow.ops.math import norm, reduce_any


class CGState(NamedTuple):
    """Where an iteration stands.

    Fields: i, the number of steps; x, the solution; r, what it leaves; p, the direction of the
    next step; gamma, the product of r and of r after preconditioning.
    """

    i: Any
    x: Any
    r: Any
    p: Any
    gamma: Any


def _dot(x: TensorLike, y: TensorLike) -> Any:
    return apply_op("Sum", conj(x) * y, [-1])


@export("linalg.experimental.conjugate_gradient")
def conjugate_gradient(
    operator: Any,
    rhs: TensorLike,
    preconditioner: Any = None,
    x: TensorLike | None = None,
    tol: float = 1e-05,
    max_iter: int = 20,
    name: str = "conjugate_gradient",
) -> CGState:
    """Solve A x = rhs for a self-adjoint, positive definite operator by conjugate gradients.

    Args:
      operator: a LinearOperator [..., N, N].
      rhs: vectors [..., N].
      preconditioner: a LinearOperator that is close to the inverse.
      x: where to begin; zeros by default.
      tol: the iteration ends when |r| is at most tol times |rhs|.
      max_iter: the greatest number of steps.
    Returns: the last state.
    Raises: ValueError unless the operator is promised to be self-adjoint and positive definite.
    """
    if not (operator.is_self_adjoint and operator.is_positive_definite):
        raise ValueError("Expected a self-adjoint, positive definite operator.")

    def prepared(rest: Any) -> Any:
        return rest if preconditioner is None else preconditioner.matvec(rest)

    with get_default_graph().name_scope(name):
        given = convert_to_tensor(rhs)
        parts = [operator] if preconditioner is None else [operator, preconditioner]
        batch = dynamic_batch(shape(given)[:-1], *(one.batch_shape_tensor() for one in parts))
        whole = apply_op("BroadcastTo", given, concatenated(batch, shape(given)[-1:]))
        least = norm(whole, axis=-1) * tol
        if x is None:
            first, rest = apply_op("ZerosLike", whole), whole
        else:
            first = convert_to_tensor(x, whole.dtype)
            rest = given - operator.matvec(first)
        direction = prepared(rest)
        begun = CGState(convert_to_tensor(0), first, rest, direction, _dot(rest, direction))

        def goes_on(*now: Any) -> Any:
            is_far = reduce_any(apply_op("Greater", norm(now[2], axis=-1), least))
            return apply_op("LogicalAnd", apply_op("Less", now[0], max_iter), is_far)

        def step(*now: Any) -> CGState:
            state = CGState(*now)
            turned = operator.matvec(state.p)
            length = (state.gamma / _dot(state.p, turned))[..., None]
            rest = state.r - length * turned
            steep = prepared(rest)
            gamma = _dot(rest, steep)
            direction = steep + (gamma / state.gamma)[..., None] * state.p
            return CGState(state.i + 1, state.x + length * state.p, rest, direction, gamma)

        return CGState(*while_loop(goes_on, lambda *now: list(step(*now)), list(begun)))
