"""What was compared with TensorFlow: a record that the table of ops shows.

With TIDEFLOW_TEST_OPS_COMPARED=FILE in the environment, a run of the tests adds to that file which
op agreed with TensorFlow's kernel on which types, and on how many calls that TensorFlow refuses;
and which ops, on which types, were part of whole programs whose results agreed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tideflow.runtime.graph_runner import GraphRunner

SETTING = "TIDEFLOW_TEST_OPS_COMPARED"

_types: dict[str, set[str]] = {}
_refusals: dict[str, int] = {}
_in_programs: dict[str, set[str]] = {}


class Programs:
    """Notes the ops of all graphs that are made ready to run while it is entered.

    A test that compares op by op says so itself; of any other that passes, `keep` enters them.
    """

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def __enter__(self) -> Programs:
        self._before = _count()
        self._init = make = GraphRunner.__init__

        def noting(runner: GraphRunner, nodes: Any, *args: Any, **options: Any) -> None:
            for node in nodes:
                types = {source.output_types[port].name for source, port in node.edges}
                self._seen.setdefault(node.op, set()).update(types or {""})
            make(runner, nodes, *args, **options)

        GraphRunner.__init__ = noting  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        GraphRunner.__init__ = self._init  # type: ignore[method-assign]

    def keep(self) -> None:
        """Enter what was seen: the results of these programs agreed."""
        if _count() == self._before:
            for op, types in self._seen.items():
                _in_programs.setdefault(op, set()).update(types)


def _count() -> int:
    return sum(map(len, _types.values())) + sum(_refusals.values())


def is_wanted() -> bool:
    """Whether this run keeps a record."""
    return bool(os.environ.get(SETTING))


def agreed(op: str, types: Iterable[str]) -> None:
    """Note that an op's outputs agreed; types are those of its inputs, or outputs without any."""
    _types.setdefault(op, set()).update(types)


def refused(op: str) -> None:
    """Note that both refused a call, with one error code."""
    _refusals[op] = _refusals.get(op, 0) + 1


def write() -> None:
    """Add what was noted to the file that the environment names, if it names one."""
    name = os.environ.get(SETTING)
    if not name or not (_types or _refusals or _in_programs):
        return
    # Several processes of one run may end at once.
    with Path(name).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        record = json.loads(file.read() or "{}")
        for op in {*_types, *_refusals, *_in_programs}:
            one = record.setdefault(op, {"types": [], "refusals": 0, "programs": []})
            one["programs"] = sorted({*one["programs"], *_in_programs.get(op, ())})
            one["types"] = sorted({*one["types"], *_types.get(op, ())})
            one["refusals"] += _refusals.get(op, 0)
        file.truncate(0)
        lines = (f'"{op}": {json.dumps(record[op])}' for op in sorted(record))
        file.write("{\n" + ",\n".join(lines) + "\n}\n")
