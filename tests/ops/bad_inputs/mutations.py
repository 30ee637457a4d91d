"""Mutations of the calls that the tests hold: each changes one thing about a call.

A mutated call may be as good as the first, or one that has to be refused: what is right is told by
TensorFlow.  Inputs take other ranks, sizes and values; attrs take other values.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ops.harness import Case
from ops.outcomes import Call, as_array
from tideflow.graph.op_def import AttrDef, get_op_def
from tideflow.wire import dtypes

# TensorFlow's client refuses to build these where it knows nothing of an input.
_FIXED = ("BatchToSpaceND", "SpaceToBatchND")

Change = tuple[str, Call]


def first_calls() -> dict[str, Call]:
    """Return the first call of each op that a test beside TensorFlow is parametrized with."""
    return {op: calls[0] for op, calls in _all_calls().items()}


def calls_of_other_kinds() -> dict[str, Call]:
    """Return the first call of each op whose inputs are of other kinds than those of its first.

    Kinds are whole numbers, floats, complex numbers, truth values and texts.
    """
    found = {}
    for op, (first, *others) in _all_calls().items():
        other = next((call for call in others if kinds_of(call) != kinds_of(first)), None)
        if other is not None:
            found[f"{op} of_other_kinds"] = other
    return found


def kinds_of(call: Call) -> list[str]:
    """Return the kinds of a call's inputs, as NumPy's letters."""
    flat = [x for one in call.inputs for x in (one if isinstance(one, (list, tuple)) else [one])]
    # NumPy calls short floats of other makers void.
    alike = {"u": "i", "V": "f"}
    return [alike.get(kind, kind) for kind in (as_array(x).dtype.kind for x in flat)]


@functools.cache
def _all_calls() -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for path in sorted(Path(__file__).parents[1].glob("test_*_oracle.py")):
        module = importlib.import_module(f"ops.{path.stem}")
        for function in vars(module).values():
            for one in _parameters(function):
                call = _as_call(one)
                if call is not None:
                    found.setdefault(call.op, []).append(call)
    return found


def _parameters(function: Any) -> Iterator[Any]:
    for mark in getattr(function, "pytestmark", []) if callable(function) else []:
        for given in mark.args[1] if mark.name == "parametrize" else ():
            yield from given if isinstance(given, (tuple, list)) else [given]


def _as_call(one: Any) -> Call | None:
    if isinstance(one, Case) and not one.oracle and not one.op.startswith("_"):
        inputs = [
            [as_array(x) for x in value] if isinstance(value, list) else value
            for value in one.inputs
        ]
        # Types of inputs are inferred; one that is given would only be in the way.
        kinds = get_op_def(one.op).attrs
        attrs = {
            name: _plain(value, kinds[name].kind)
            for name, value in one.attrs.items()
            if name != "T"
        }
        fixed = one.op in _FIXED
        return Call(one.op, inputs, attrs, fixed=fixed, rtol=one.rtol, atol=one.atol)
    return one if isinstance(one, Call) else None


def _plain(value: Any, kind: str) -> Any:
    """Return an attr as both frameworks' functions take it."""
    if kind == "bool":
        return bool(value)
    return value.name if isinstance(value, dtypes.DType) else value


def mutations(call: Call, most: int | None = None) -> list[Change]:
    """Return mutations of a call by their names: all, or `most`, spread evenly over all kinds."""
    made = [*_all_inputs(call), *_each_input(call), *_attrs(call)]
    if most is None or len(made) <= most:
        return made
    return [made[i * len(made) // most] for i in range(most)]


# ---- inputs


def _each_input(call: Call) -> Iterator[Change]:
    for i, value in enumerate(call.inputs):
        if isinstance(value, (list, tuple)):
            for j, one in enumerate(value):
                for what, changed in changes(as_array(one)):
                    several = [*map(as_array, value[:j]), changed, *map(as_array, value[j + 1 :])]
                    yield f"{i}.{j} {what}", _with_input(call, i, type(value)(several))
        else:
            for what, changed in changes(as_array(value)):
                yield f"{i} {what}", _with_input(call, i, changed)


def _with_input(call: Call, i: int, value: Any) -> Call:
    return replace(call, inputs=[*call.inputs[:i], value, *call.inputs[i + 1 :]])


def changes(a: np.ndarray[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Give an array another rank, size or value."""
    yield from _values(a)
    yield "in a list", a[None]
    if a.ndim:
        yield "scalar", a.reshape(-1)[0] if a.size else _filled((), a.dtype, 0)
        yield (
            "longer",
            np.concatenate([a, a[:1]]) if len(a) else _filled((2, *a.shape[1:]), a.dtype, 1),
        )
        if a.shape[-1]:
            yield "wider", np.concatenate([a, a[..., :1]], axis=-1)
    for axis, size in enumerate(a.shape):
        at = (slice(None),) * axis
        if size:
            yield f"empty along {axis}", a[(*at, slice(0))]
        if size > 1:
            yield f"one along {axis}", a[(*at, slice(1))]


def _filled(dims: tuple[int, ...], dtype: Any, number: int) -> np.ndarray[Any, Any]:
    """Return an array of one number, or of empty strings."""
    return np.full(dims, b"" if np.dtype(dtype).kind == "O" else number, dtype)


def _values(a: np.ndarray[Any, Any]) -> Iterator[tuple[str, Any]]:
    if a.dtype in (np.int32, np.int64):
        for value in (-1, -5, 0, 1, 7):
            yield f"all {value}", np.full_like(a, value)
    if not a.size:
        return
    if a.dtype.names:
        # Numbers of a quantised type, which has a field for them.
        news: Sequence[Any] = (99, *([-1] if a.dtype[0].kind == "i" else []))
    elif a.dtype.kind in "fcV":
        news = (np.nan, np.inf, -np.inf, 0, -1)
    elif a.dtype == object:
        news = (b"", b"\xff", b"-1", b"0 zz")
    elif a.dtype.kind == "b":
        news = (not a.reshape(-1)[0],)
    else:
        news = (99, *([] if a.dtype.kind == "u" else [-1]))
    for value in news:
        changed = a.copy()
        changed.reshape(-1)[-1] = value
        yield f"last {value!r}", changed


def _all_inputs(call: Call) -> Iterator[Change]:
    """Change all inputs together: they still fit each other where the op goes by their shapes."""
    if any(isinstance(value, (list, tuple)) for value in call.inputs):
        return
    arrays = [as_array(value) for value in call.inputs]
    if len(arrays) > 1:
        yield "all in lists", replace(call, inputs=[a[None] for a in arrays])
    for axis in range(max((a.ndim for a in arrays), default=0)):
        at = (slice(None),) * axis
        for what, size in (("empty", 0), ("one", 1)):
            cut = [a[(*at, slice(size))] if a.ndim > axis else a for a in arrays]
            yield f"all {what} along {axis}", replace(call, inputs=cut)


# ---- attrs


def _attrs(call: Call) -> Iterator[Change]:
    op_def = get_op_def(call.op)
    inferred = {
        name
        for arg in op_def.inputs
        for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)
    }
    for name, attr in op_def.attrs.items():
        if name in inferred or attr.kind in ("type", "list(type)", "shape", "func"):
            continue
        given = call.attrs.get(name, attr.default)
        for value in _others(attr, given):
            yield f"{name} {value}", replace(call, attrs={**call.attrs, name: value})


def _others(attr: AttrDef, given: Any) -> list[Any]:
    if attr.kind == "bool":
        return [not given]
    if attr.kind == "string":
        return [*(x for x in attr.allowed or () if x != given), "no such"]
    if attr.kind == "int":
        return [x for x in (-2, -1, 0, 1, 3) if x != given]
    if attr.kind == "float":
        return [x for x in (-1.0, 0.0, float("nan")) if x != given]
    if attr.kind == "list(int)" and given:
        each = range(len(given))
        put = ([*given[:i], x, *given[i + 1 :]] for i, x in itertools.product(each, (-1, 0, 2)))
        return [[], [*given, 1], given[:-1], *(x for x in put if x != given)]
    return []
