"""Make a program that differs as small as it can be while it still differs in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from whole_programs.syntax import (
    Program,
    Statement,
    Type,
    count,
    groups,
    is_well_formed,
    renamed,
    without_names,
)

Statements = tuple[Statement, ...]
Test = Callable[[Program], bool]


def shrink(program: Program, still_differs: Test, most_tries: int = 400) -> Program:
    """Return a small program of which `still_differs` is true, as it is of the given one.

    It drops statements with all that needs them, first many at once, takes blocks away from around
    their bodies, drops parts that statements can do without, and puts earlier values of the same
    type for later ones, until nothing of that helps or most_tries programs were tried.
    """
    tries = 0
    seen: set[Statements] = {program.statements}
    while True:
        for smaller in _smaller(program.statements):
            if smaller in seen or not is_well_formed(smaller):
                continue
            seen.add(smaller)
            if tries == most_tries:
                return program
            tries += 1
            candidate = program.with_statements(smaller)
            if still_differs(candidate):
                program = candidate
                break
        else:
            return program


def _smaller(statements: Statements) -> Iterator[Statements]:
    total = count(statements)
    size = max(1, total // 2)
    while True:
        for start in range(0, total, size):
            yield _without(statements, set(range(start, start + size)))
        if size == 1:
            break
        size //= 2
    yield from _unwrapped(statements)
    yield from _with_fewer_parts(statements)
    yield from _with_earlier_names(statements)


def _without(statements: Statements, positions: set[int]) -> Statements:
    """Drop the statements at positions, counted through bodies, and those that need their names."""
    next_position = 0

    def visit(some: Statements, gone: set[str]) -> Statements:
        nonlocal next_position
        kept = []
        for one in some:
            position, next_position = next_position, next_position + 1
            text = without_names(one.text, gone)
            one = replace(one, text=text)
            drops = position in positions or bool(one.uses & gone)
            inside = set(gone)
            body = visit(one.body, inside)
            if not one.is_scope or drops:
                gone |= inside
            if drops or (one.is_block and not body):
                gone |= {name for name, _ in one.makes} | _made_in(one.body)
                continue
            kept.append(replace(one, body=body))
        return tuple(kept)

    return visit(statements, set())


def _made_in(statements: Statements) -> set[str]:
    found: set[str] = set()
    for one in statements:
        found |= {name for name, _ in one.makes} | _made_in(one.body)
    return found


def _variants(
    statements: Statements, change: Callable[[Statement], Iterator[Statements]]
) -> Iterator[Statements]:
    """Return the statements with one of them, at any depth, changed."""
    for i, one in enumerate(statements):
        for changed in change(one):
            yield (*statements[:i], *changed, *statements[i + 1 :])
        for body in _variants(one.body, change):
            yield (*statements[:i], replace(one, body=body), *statements[i + 1 :])


def _unwrapped(statements: Statements) -> Iterator[Statements]:
    def change(one: Statement) -> Iterator[Statements]:
        if one.body and not one.is_scope and not one.makes:
            yield one.body

    return _variants(statements, change)


def _with_fewer_parts(statements: Statements) -> Iterator[Statements]:
    def change(one: Statement) -> Iterator[Statements]:
        for group in groups(one.text):
            yield (replace(one, text=one.text.replace(group, "", 1)),)

    return _variants(statements, change)


def _with_earlier_names(statements: Statements) -> Iterator[Statements]:
    known: dict[str, Type] = {}
    _collect(statements, known)
    order = list(known)

    def change(one: Statement) -> Iterator[Statements]:
        for name in sorted(one.uses):
            for other in order:
                if other == name:
                    break
                if known.get(name) == known[other]:
                    yield (replace(one, text=renamed(one.text, name, other)),)

    return _variants(statements, change)


def _collect(statements: Statements, known: dict[str, Type]) -> None:
    for one in statements:
        known.update((*one.makes, *one.parameters))
        _collect(one.body, known)
