"""Linear operators do what TensorFlow's do: every operator of linear_operators/operators.txt with
every call of calls.txt, and the calls of others.txt by themselves.

What may differ is in differences.txt, with the reason behind it.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow as ours
from eager import api_compare

theirs = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

_FOLDER = Path(__file__).with_name("linear_operators")


def _lines(name: str) -> list[str]:
    return (_FOLDER / f"{name}.txt").read_text().splitlines()


DIFFERENCES = {line.partition("  # ")[0] for line in _lines("differences")}
_HINTS = ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square")
_FULL = np.array([[3, 1, 2], [-1, 4, 1], [2, 0.5, 5]], np.float32)
_ARRAYS = {
    "np": np,
    "full3": _FULL,
    "positive3": _FULL @ _FULL.T,
    "complex3": (_FULL + 1j * _FULL.T[::-1]).astype(np.complex64),
}


def _names(tf: Any) -> dict[str, Any]:
    tril = tf.linalg.LinearOperatorLowerTriangular(_FULL, is_non_singular=True)
    return {**_ARRAYS, "tf": tf, "L": tf.linalg, "tril": tril}


def _arguments(op: Any) -> dict[str, Any]:
    """Return arrays that fit to an operator."""
    draws = np.random.RandomState(0)
    rows, columns = op.range_dimension.value, op.domain_dimension.value

    def drawn(*shape: int) -> Any:
        made = draws.normal(size=shape)
        return (
            (made + 1j * made[::-1]).astype(op.dtype.name)
            if op.dtype.is_complex
            else (made.astype(op.dtype.name))
        )

    return {
        "x": drawn(columns, 2),
        "xa": drawn(2, columns),
        "y": drawn(rows, 2),
        "ya": drawn(2, rows),
        "many": drawn(2, 2, columns, 1),
        "other": drawn(*op.batch_shape.as_list(), rows, columns),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "to_dense") and hasattr(value, "is_square"):
        hints = [getattr(value, hint) for hint in _HINTS]
        dense = api_compare.plain(value.to_dense())
        return [type(value).__name__, value.shape.as_list(), value.dtype.name, hints, dense]
    return api_compare.plain(value)


def _outcome(expression: str, names: dict[str, Any]) -> Any:
    try:
        return _plain(eval(expression, names))
    except Exception as error:
        return ("error", type(error).__name__)


def _differing(ours_has: dict[str, Any], theirs_has: dict[str, Any], calls: list[str]) -> set[str]:
    found = set()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for call in calls:
            mine, other = _outcome(call, ours_has), _outcome(call, theirs_has)
            if not api_compare.same(mine, other):
                found.add(call)
    return found


@pytest.mark.parametrize("operator", _lines("operators"))
def test_an_operator_does_what_tensorflows_does(operator: str) -> None:
    names = []
    for tf in (ours, theirs):
        known = _names(tf)
        op = eval(operator, known)
        names.append({**known, "op": op, **_arguments(op)})
    found = {f"{operator} | {call}" for call in _differing(names[0], names[1], _lines("calls"))}
    expected = {line for line in DIFFERENCES if line.startswith(f"{operator} | ")}
    assert sorted(found - expected) == []
    assert sorted(expected - found) == []


def _built(tf: Any, operator: str) -> dict[str, Any]:
    """Return scopes and static shapes of what an operator adds to a graph."""
    found: dict[str, Any] = {}
    with tf.Graph().as_default():
        known = _names(tf)
        op = eval(operator, known)
        known |= {"op": op, **_arguments(op)}
        for call in ("op.to_dense()", "op.matmul(x)", "op.trace()", "op.H.matmul(y)"):
            try:
                made = eval(call, known)
                found[call] = made.name.split("/")[:2], made.shape.as_list()
            except Exception as error:
                found[call] = type(error).__name__
    return found


def test_graphs_of_operators_have_the_scopes_and_shapes_of_tensorflows() -> None:
    firsts = {line.partition("(")[0]: line for line in reversed(_lines("operators"))}
    operators = [line for line in firsts.values() if "Variable" not in line]
    pairs = [(operator, *[_built(tf, operator) for tf in (ours, theirs)]) for operator in operators]
    assert [pair for pair in pairs if pair[1] != pair[2]] == []


def test_other_calls_give_what_tensorflow_gives() -> None:
    calls = _lines("others")
    found = _differing(_names(ours), _names(theirs), calls)
    assert sorted(found - DIFFERENCES) == []
    assert sorted(DIFFERENCES & set(calls) - found) == []


def test_each_difference_says_why() -> None:
    assert all(line.partition("  # ")[2] for line in _lines("differences"))
