"""What was compared with TensorFlow: a record that the table of ops shows.

With TIDEFLOW_OPS_COMPARED=FILE in the environment, a run of the tests adds to that file which op
agreed with TensorFlow's kernel on which types, and on how many calls that TensorFlow refuses.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path

SETTING = "TIDEFLOW_OPS_COMPARED"

_types: dict[str, set[str]] = {}
_refusals: dict[str, int] = {}


def agreed(op: str, types: Iterable[str]) -> None:
    """Note that an op's outputs agreed; types are those of its inputs."""
    _types.setdefault(op, set()).update(types)


def refused(op: str) -> None:
    """Note that both refused a call, with one error code."""
    _refusals[op] = _refusals.get(op, 0) + 1


def write() -> None:
    """Add what was noted to the file that the environment names, if it names one."""
    name = os.environ.get(SETTING)
    if not name or not (_types or _refusals):
        return
    # Several processes of one run may end at once.
    with Path(name).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        record = json.loads(file.read() or "{}")
        for op in {*_types, *_refusals}:
            one = record.setdefault(op, {"types": [], "refusals": 0})
            one["types"] = sorted({*one["types"], *_types.get(op, ())})
            one["refusals"] += _refusals.get(op, 0)
        file.truncate(0)
        lines = (f'"{op}": {json.dumps(record[op])}' for op in sorted(record))
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
