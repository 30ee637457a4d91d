"""What passes and executors may do with an op is declared on the op, and nowhere else."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from pathlib import Path

import tideflow
from graph.op_classes import table
from tideflow.graph.op_def import get_op_def, registered_ops

TABLE = Path(__file__).with_name("op_classes.txt")
PACKAGE = Path(tideflow.__file__).parent
# Those that know no op by name.
BELOW_THE_FRONT_ENDS = ("graph", "compile", "runtime", "cluster", "transport", "wire")
# What they compare are parts of names, or values of attrs, such as the names of reductions.
NOT_ABOUT_OPS = {
    "client/test_support.py",
    "ops/nn/fused.py",
    "ops/quantization/fused.py",
    "ops/sparse/calls.py",
    "ops/sparse/segment.py",
    "ops/state/scatter_updates.py",
    "runtime/collective_arithmetic.py",
}


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


def test_only_modules_of_an_op_ask_for_its_name() -> None:
    names = set(registered_ops())
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if str(path.relative_to(PACKAGE)) not in NOT_ABOUT_OPS
        for line, name in _asked_for(ast.parse(path.read_text()))
        if name in names and _module(path) not in _modules_of(name)
    ]
    assert not found, "declare it on the op (tideflow.graph.op_traits) and ask its OpDef"


def _module(path: Path) -> str:
    return ".".join(["tideflow", *path.relative_to(PACKAGE).with_suffix("").parts])


def _modules_of(op_name: str) -> set[str]:
    """Return the modules of an op's kernel and of its shape rule."""
    op_def = get_op_def(op_name)
    return {getattr(one, "__module__", "") for one in (op_def.kernel, op_def.shape_rule)}


def _asked_for(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the strings that something is compared with, alone or as a member of a collection."""
    collections = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        is_member = any(isinstance(one, (ast.In, ast.NotIn)) for one in node.ops)
        for side in (node.left, *node.comparators):
            held = collections.get(side.id, side) if isinstance(side, ast.Name) else side
            for part in _members(held) if is_member else [held]:
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield node.lineno, part.value


def _members(collection: ast.expr) -> Iterator[ast.AST]:
    for part in collection.keys if isinstance(collection, ast.Dict) else [collection]:
        yield from ast.walk(part) if part is not None else ()


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
