"""Hold the share of parameters whose annotation is `Any`, of which the checker proves nothing, to
what it has come down to (`make lint`).

python -m tools.any_parameters [--by-module]
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "tideflow"
# Lower it when the share has come down.
MOST_PERCENT = 11.2
# Made by protoc.
_GENERATED = "_pb2.py"


def annotations(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the annotated parameters of a module's functions: name, and whether it is `Any`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            of = node.args
            # What *args and **kwargs hold, others declare.
            for arg in (*of.posonlyargs, *of.args, *of.kwonlyargs):
                if arg.annotation is not None:
                    found = arg.annotation
                    yield arg.arg, isinstance(found, ast.Name) and found.id == "Any"


def count(root: Path) -> dict[str, tuple[int, int]]:
    """Return by module how many annotated parameters there are, and how many are `Any`."""
    found = {}
    for file in sorted(root.rglob("*.py")):
        if not file.name.endswith(_GENERATED):
            kinds = [is_any for _, is_any in annotations(file.read_text())]
            found[file.relative_to(root).as_posix()] = (len(kinds), sum(kinds))
    return found


def main(arguments: list[str]) -> int:
    """Print the share; return how the process ends."""
    found = count(ROOT)
    if "--by-module" in arguments:
        for name, of in Counter({name: of for name, (_, of) in found.items()}).most_common(25):
            print(f"{of:5} of {found[name][0]:4}  {name}")
    every, of = (sum(pair[i] for pair in found.values()) for i in (0, 1))
    percent = 100 * of / every
    is_fine = percent <= MOST_PERCENT
    if not is_fine or arguments:
        print(f"{of} of {every} annotated parameters are `Any`: {percent:.2f} %, of {MOST_PERCENT}")
    if not is_fine:
        print("Give the new ones a type: graph/types.py has names for what passes around.")
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
