"""Hold each thing that tideflow takes from the machine to one module (`make lint`).

What is forbidden elsewhere is in SEAMS: calls, base classes and attributes by their full names, and
methods of event loops by their own.  It is found in the text, by the names under which it is
imported; annotations do not count.

    python -m tools.seams [FOLDER]
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "tideflow"


@dataclass(frozen=True)
class Seam:
    """One thing that one module does for all others.

    Attributes:
      home: the module that may do it.
      names: full names that nobody else may call, subclass or hand on.
      methods: of event loops, whatever the loop is called.
      others: modules that may do it, too, each with the reason.
    """

    home: str
    names: frozenset[str]
    methods: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()


SEAMS = (
    Seam(
        "platform/clock.py",
        frozenset({
            "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
            "time.time", "time.time_ns", "time.sleep", "asyncio.timeout_at",
        }),
        frozenset({"time", "call_at"}),
    ),
    Seam(
        "platform/threads.py",
        frozenset({
            "threading.Thread", "threading.Timer", "_thread.start_new_thread",
            "concurrent.futures.ThreadPoolExecutor", "asyncio.to_thread",
        }),
    ),
    Seam(
        "transport/network.py",
        frozenset({
            "socket.socket", "socket.create_connection", "socket.create_server",
            "socket.getaddrinfo", "socket.socketpair", "asyncio.open_connection",
            "asyncio.open_unix_connection", "asyncio.start_server", "asyncio.start_unix_server",
        }),
        frozenset({
            "create_connection", "create_unix_connection", "create_server", "create_unix_server",
            "create_datagram_endpoint", "getaddrinfo", "sock_connect", "sock_accept",
        }),
    ),
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Finding:
    """A forbidden use: where, of what, and which module does it instead."""

    path: str
    line: int
    used: str
    home: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.used} is for {self.home} alone; call that module"


def find(root: Path) -> list[Finding]:
    """Return what is forbidden in the Python files below a package's folder."""
    found: list[Finding] = []
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root).as_posix()
        tree = ast.parse(file.read_text(), path)
        for line, name, is_method in _uses(tree):
            for seam in SEAMS:
                forbidden = seam.methods if is_method else seam.names
                if name in forbidden and path != seam.home and path not in seam.others:
                    used = f"a loop's {name}()" if is_method else name
                    found.append(Finding(path, line, used, seam.home))
    return sorted(found)


def _uses(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield line, name and whether it is a loop's method, of all uses outside of annotations."""
    names = _imported(tree)
    skipped = {id(node) for node in _annotations(tree)}
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if id(node) in skipped:
            continue
        todo.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Attribute) and _is_loop(node.value):
            yield node.lineno, node.attr, True
        elif isinstance(node, ast.Attribute | ast.Name):
            full = _full_name(node, names)
            if full is not None:
                yield node.lineno, full, False


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return full names by the names that a module gives them."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                names[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _annotations(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "isinstance"):
            yield from node.args


def _full_name(node: ast.expr, names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _full_name(node.value, names)
        return f"{owner}.{node.attr}" if owner else None
    return None


def _is_loop(node: ast.expr) -> bool:
    """Whether an expression is called `loop`, `_loop`, or is a call of get_loop or its like."""
    if isinstance(node, ast.Call):
        node = node.func
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.endswith("loop")


def main(arguments: list[str]) -> int:
    """Print what is found; return how the process ends."""
    found = find(Path(arguments[0]) if arguments else ROOT)
    for one in found:
        print(one)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
