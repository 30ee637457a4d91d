"""Hold modules to a size at which they are about one subject (`make lint`).

python -m tools.module_sizes [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "tideflow"
MOST_LINES = 600
# Made by protoc.
_GENERATED = "_pb2.py"


def find(root: Path) -> list[str]:
    """Return a line of text for each module below a folder that is too long."""
    found = []
    for file in sorted(root.rglob("*.py")):
        count = len(file.read_bytes().splitlines())
        if count >= MOST_LINES and not file.name.endswith(_GENERATED):
            found.append(
                f"{file.relative_to(root).as_posix()}: {count} lines; a module has fewer than "
                f"{MOST_LINES}. Which second subject moved in?"
            )
    return found


def main(arguments: list[str]) -> int:
    """Print what is found; return how the process ends."""
    found = find(Path(arguments[0]) if arguments else ROOT)
    for one in found:
        print(one)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
