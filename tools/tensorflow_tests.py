"""Write docs/tensorflow_tests.md: the behaviours that TensorFlow's own tests name, and ours.

python -m tools.tensorflow_tests
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from pathlib import Path

_ROOT = Path(__file__).parents[1]
PAGE = _ROOT / "docs" / "tensorflow_tests.md"

_HEAD = """# TensorFlow's own tests, as a list of behaviours

Each behaviour below is what a test file of TensorFlow (under `tensorflow/` of its repository) says
that TensorFlow does. A program of our own in `tests/tf_behaviours` shows it; what TensorFlow 2.21
gives for the program is recorded there, and compared with what tideflow gives.
`python -m tools.tensorflow_tests` writes this page.

"""


def page() -> str:
    """Return the text of the page."""
    if str(_ROOT / "tests") not in sys.path:
        sys.path.insert(0, str(_ROOT / "tests"))
    registry = importlib.import_module("tf_behaviours.registry")
    behaviours = registry.BEHAVIOURS
    registry.COLLECTION.load()
    reasons: dict[str, dict[str, None]] = defaultdict(dict)
    for at, why in registry.COLLECTION.differences().items():
        reasons[at.partition(" ")[0]][why] = None
    files: dict[str, list[str]] = defaultdict(list)
    for name, one in behaviours.items():
        files[one.file].append(name)
    rows = ["| test file | behaviours | agree | differ |", "| --- | ---: | ---: | ---: |"]
    sections = []
    for file in sorted(files):
        names = files[file]
        differ = sum(name in reasons for name in names)
        rows.append(f"| `{file}` | {len(names)} | {len(names) - differ} | {differ} |")
        lines = [_line(behaviours[name].sentence, reasons.get(name, {})) for name in names]
        sections.append(f"## {file}\n\n" + "\n".join(lines) + "\n")
    differ = sum(name in reasons for name in behaviours)
    rows.append(f"| all | {len(behaviours)} | {len(behaviours) - differ} | {differ} |")
    return _HEAD + "\n".join(rows) + "\n\n" + "\n".join(sections)


def _line(sentence: str, reasons: dict[str, None]) -> str:
    return f"- {sentence}" + (f" **Differs:** {'; '.join(reasons)}." if reasons else "")


if __name__ == "__main__":
    PAGE.write_text(page())
