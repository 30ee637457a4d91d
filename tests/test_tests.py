"""The tests keep to their rules: what the linter cannot see of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from real_time import eventually, pause, within

TESTS = Path(__file__).parent

# Which may read the machine's time: the helper, its test, what measures, and programs of their own.
READ_THE_TIME = (
    "loop_monitor.py",
    "real_time.py",
    "platform/test_clock.py",
    "chaos/",
    "interop/scenarios.py",
    "interop/eager_scenarios.py",
    "transport/two_hosts_peer.py",
    "whole_programs/run.py",
)
OF_TIME = {"time", "monotonic", "perf_counter", "process_time", "sleep", "time_ns", "monotonic_ns"}

# Functions that are given the name of an attribute as a text, and where among their arguments.
NAMING = {"getattr": 1, "setattr": 1, "delattr": 1, "hasattr": 1}
# Of named tuples; they are public.
OF_TUPLES = {"_asdict", "_fields", "_make", "_replace"}


def attributes_named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Give the line and last part of each attribute name that is given as a text."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        if called not in NAMING:
            continue
        # monkeypatch.setattr may be given a whole path in place of an object and a name.
        for argument in node.args[: NAMING[called] + 1]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield node.lineno, argument.value.rpartition(".")[2]
                break


def private_names(text: str) -> list[str]:
    """Return the private attributes that a module names in texts, with their lines."""
    return [
        f"{line}: {name}"
        for line, name in attributes_named(ast.parse(text))
        if name.startswith("_") and not name.endswith("__") and name not in OF_TUPLES
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("getattr(x, '_name', None)", 1),
        ("monkeypatch.setattr(module, '_LIMIT', 3)", 1),
        ("monkeypatch.setattr('package.module._LIMIT', 3)", 1),
        ("monkeypatch.setattr(module, 'LIMIT', '_text')", 0),
        ("getattr(x, '__name__')", 0),
        ("x.append('_name')", 0),
    ],
)
def test_private_attributes_that_are_named_in_texts_are_found(text: str, count: int) -> None:
    assert len(private_names(text)) == count


def test_no_test_names_a_private_attribute_in_a_text() -> None:
    # Attributes that are named in code are found by ruff (SLF001).
    found = {
        str(path.relative_to(TESTS)): private_names(path.read_text())
        for path in sorted(TESTS.rglob("*.py"))
    }
    assert {path: names for path, names in found.items() if names} == {}


def uses_of_time(text: str) -> list[str]:
    """Return where a module reads the machine's time, or sleeps, with its lines."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(text))
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "time"
            and node.attr in OF_TIME
        )
        or (isinstance(node, ast.ImportFrom) and node.module == "time")
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("import time\nassert time.monotonic() < 5\n", 1),
        ("from time import sleep\nsleep(1)\n", 1),
        ("import asyncio\nasyncio.sleep(0)\n", 0),
    ],
)
def test_uses_of_the_time_are_found(text: str, count: int) -> None:
    assert len(uses_of_time(text)) == count


def test_no_test_reads_the_time_or_sleeps() -> None:
    found = {
        path: uses_of_time((TESTS / path).read_text())
        for path in sorted(str(one.relative_to(TESTS)) for one in TESTS.rglob("*.py"))
        if not path.startswith(READ_THE_TIME)
    }
    assert {path: uses for path, uses in found.items() if uses} == {}


def test_a_test_that_does_not_say_so_promises_nothing_in_seconds() -> None:
    with pytest.raises(AssertionError, match="marked real_time"):
        pause(0)
    with pytest.raises(AssertionError, match="marked real_time"), within(1):
        pass


def test_the_mark_stands_in_modules_of_tests_where_make_test_looks_for_it() -> None:
    marked = [path for path in TESTS.rglob("*.py") if "mark.real_time" in path.read_text()]
    assert marked
    assert not [path for path in marked if not path.name.startswith("test_")]


@pytest.mark.real_time
def test_a_test_that_says_so_may() -> None:
    with within(60):
        pause(0)
    with pytest.raises(AssertionError, match="were promised"), within(0):
        pause(0.001)


def test_what_does_not_come_fails_the_test() -> None:
    answers = iter([0, 0, 7])
    assert eventually(lambda: next(answers)) == 7
    with pytest.raises(pytest.fail.Exception, match="the end of time did not come"):
        eventually(lambda: False, "the end of time", limit_s=0.0)
