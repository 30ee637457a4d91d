"""What passes and executors may do with an op is declared on the op, and nowhere else."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from pathlib import Path

import tideflow
from graph.op_classes import table
from tideflow.graph.op_def import registered_ops

TABLE = Path(__file__).with_name("op_classes.txt")
PACKAGE = Path(tideflow.__file__).parent
# Those that know no op by name.
BELOW_THE_FRONT_ENDS = ("graph", "compile", "runtime", "cluster", "transport", "wire")
# The names of reductions, which are values of an attr.
NOT_ABOUT_OPS = {"runtime/collective_arithmetic.py"}


def test_every_op_has_the_class_that_the_table_says() -> None:
    found, expected = table().splitlines(), TABLE.read_text().splitlines()
    changed = "\n".join(difflib.unified_diff(expected, found, "table", "declarations", n=0))
    assert not changed, (
        f"{changed}\n\nWhere this is meant: python tests/graph/op_classes.py > {TABLE.name}"
    )


def test_no_pass_or_executor_tells_ops_apart_by_name() -> None:
    names = set(registered_ops())
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for package in BELOW_THE_FRONT_ENDS
        for path in sorted((PACKAGE / package).rglob("*.py"))
        if str(path.relative_to(PACKAGE)) not in NOT_ABOUT_OPS
        for line, name in _compared(ast.parse(path.read_text()))
        if name in names
    ]
    assert not found, "declare it on the op (tideflow.graph.op_traits) and ask its OpDef"


def _compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings that are compared with something or are members of a collection."""
    for node in ast.walk(tree):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, (ast.Set, ast.List, ast.Tuple)):
            parts = [*node.elts]
        elif isinstance(node, ast.Dict):
            parts = [*node.keys]
        for part in parts:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.lineno, part.value
