"""What is promised of an operator: non-singular, self-adjoint, positive definite, square.

A hint is True, False, or None where nothing is promised.

Source: tensorflow/python/ops/linalg/linear_operator.py, property_hint_util.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HINTS = ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square")
Hints = dict[str, Any]


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor, of its locals()."""
    return {name: v for name, v in arguments.items() if name not in ("self", "__class__")}


def always(hint: bool | None, truth: bool, message: str) -> bool:
    """Return what is so in any case.  Raises: ValueError for a hint that says otherwise."""
    if hint is (not truth):
        raise ValueError(message)
    return truth


def implied(
    is_non_singular: bool | None,
    is_self_adjoint: bool | None,
    is_positive_definite: bool | None,
    is_square: bool | None,
) -> tuple[bool | None, bool | None]:
    """Return is_non_singular and is_square with what other hints imply.

    Raises: ValueError for hints that contradict one another.
    """
    if is_positive_definite:
        message = "A positive definite matrix is always non-singular."
        is_non_singular = always(is_non_singular, True, message)
    if is_non_singular:
        is_square = always(is_square, True, "A non-singular matrix is always square.")
    if is_self_adjoint:
        is_square = always(is_square, True, "A self-adjoint matrix is always square.")
    return is_non_singular, is_square


def hints_of(operator: Any) -> Hints:
    """Return all that is promised of an operator."""
    return {name: getattr(operator, name) for name in HINTS}


def shared(operator: Any, own: Hints, relation: str) -> Hints:
    """Return the hints of an operator that has them if and only if another one does.

    relation: what the one is to the other, for messages.
    Raises: ValueError where its own hints and those of the other contradict each other.
    """
    made: Hints = {}
    for name, hint in own.items():
        other = getattr(operator, name)
        if None not in (hint, other) and bool(hint) is not bool(other):
            said = name.removeprefix("is_").replace("_", "-")
            raise ValueError(f"An operator is {said} if and only if its {relation} is {said}.")
        made[name] = other if hint is None else hint
    return made


def of_all(operators: Sequence[Any], own: Hints, texts: dict[str, str]) -> Hints:
    """Return hints that are true where they are true of all parts.

    texts: by hint, what an error says of one that is False nevertheless.
    Raises: ValueError for such a hint.
    """
    made = dict(own)
    for name, text in texts.items():
        if all(getattr(operator, name) for operator in operators):
            made[name] = always(made[name], True, text)
    return made


# ---- products


def non_singular_product(left: Any, right: Any) -> bool | None:
    """Return whether a product of two operators is non-singular."""
    if left.is_non_singular is False or right.is_non_singular is False:
        return False
    return True if left.is_non_singular and right.is_non_singular else None


def square_product(left: Any, right: Any) -> bool | None:
    """Return whether a product of two operators is square."""
    one, other = left.is_square, right.is_square
    if one is None or other is None:
        return None
    if one or other:
        return bool(one and other)
    rows, columns = left.range_dimension.value, right.domain_dimension.value
    return None if rows is None or columns is None else bool(rows == columns)


def commuting_product(left: Any, right: Any) -> Hints:
    """Return what is promised of a product, or quotient, of operators that commute."""
    own, other = left.is_self_adjoint, right.is_self_adjoint
    is_self_adjoint = None
    if own and other:
        is_self_adjoint = True
    elif None not in (own, other) and bool(own) is not bool(other):
        is_self_adjoint = False
    are_positive = left.is_positive_definite and right.is_positive_definite
    return {
        "is_non_singular": non_singular_product(left, right),
        "is_self_adjoint": is_self_adjoint,
        "is_positive_definite": True if are_positive and is_self_adjoint else None,
        "is_square": True,
    }


def any_product(left: Any, right: Any) -> Hints:
    """Return what is promised of a product of any two operators."""
    is_square = square_product(left, right)
    rest = False if is_square is False else None
    return {
        "is_non_singular": non_singular_product(left, right) if is_square else rest,
        "is_self_adjoint": rest,
        "is_positive_definite": rest,
        "is_square": is_square,
    }


# ---- pairs of an operator and its adjoint


def is_adjoint_pair(left: Any, right: Any) -> bool:
    """Whether one operator is known to be the adjoint of the other."""
    if left is right:
        return bool(left.is_self_adjoint)
    return left.adjoint() is right or right.adjoint() is left


def is_symmetric(operators: Sequence[Any]) -> bool:
    """Whether a product has the form A @ adjoint(A)."""
    if len(operators) % 2:
        return False
    half = len(operators) // 2
    return all(is_adjoint_pair(operators[i], operators[-1 - i]) for i in range(half))
