"""Write the generated parts of docs/compatibility.md: services, ops, names of the API, programs.

python -m tools.compatibility
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.report import write_part
from tools.op_table import COMPARED
from tools.tensorflow_names import summary

import tideflow.v1  # noqa: F401  brings in all definitions
from tideflow.cluster.eager import EagerWorker
from tideflow.cluster.master import Master
from tideflow.cluster.services import EagerService, MasterService, WorkerService
from tideflow.cluster.worker import Worker
from tideflow.graph.op_def import registered_ops
from tideflow.transport import Service, methods_of

_ROOT = Path(__file__).parents[1]
PAGE = _ROOT / "docs" / "compatibility.md"
TIERS = _ROOT / "tests" / "ops" / "op_tiers.json"
INTEROP = _ROOT / "tests" / "interop"

# By service: what serves it in a server.
_SERVED: dict[type[Service], type[Service]] = {
    MasterService: Master,
    WorkerService: Worker,
    EagerService: EagerWorker,
}

_TIER_TEXTS = {
    "A": "most used: by five or more of 143 training programs, or of a kind that training needs",
    "B": "used by three or more of 224 programs",
    "C": "used at least once",
    "W": "made by TensorFlow's own rewriting of graphs",
}


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def services() -> str:
    """Return a table of the calls that servers answer."""
    rows = []
    for service, served_by in _SERVED.items():
        for spec in methods_of(service).values():
            is_answered = getattr(served_by, spec.name) is not getattr(service, spec.name)
            answered = "yes" if is_answered else "refused as UNIMPLEMENTED"
            rows.append([f"`{spec.path}`", "stream" if spec.streaming else "unary", answered])
    return _table(["call", "kind", "answered"], rows)


def ops() -> str:
    """Return a table of how much of each tier is there, and what is missing of it."""
    tiers: dict[str, list[str]] = json.loads(TIERS.read_text())
    compared = json.loads(COMPARED.read_text())
    known = set(registered_ops())
    rows = []
    for tier, names in tiers.items():
        here = [name for name in names if name in known]
        missing = ", ".join(name for name in names if name not in known) or "none"
        alone = sum(bool(compared.get(name, {}).get("types")) for name in here)
        beside = sum(
            bool(one.get("programs")) and not one["types"]
            for one in (compared.get(name, {}) for name in here)
        )
        there = f"{len(here)} of {len(names)}"
        rows.append([tier, _TIER_TEXTS[tier], there, str(alone), str(beside), missing])
    heads = [
        "tier", "what is in it", "there", "compared one by one", "in whole programs", "missing"
    ]  # fmt: skip
    return _table(heads, rows)


def api() -> str:
    """Return a table of how many public names there are, and which lack, by namespace."""
    return _table(["namespace", "there", "missing"], summary(most=8))


def programs() -> str:
    """Return a table of the programs that are run on each kind of cluster."""
    sys.path.insert(0, str(INTEROP))
    from programs import PROGRAMS  # noqa: PLC0415  (the path to it is set just above)

    families: dict[str, list[str]] = {}
    for one in PROGRAMS.values():
        if one.clients:
            module = getattr(one.run, "func", one.run).__module__.rpartition(".")[2]
            who = "" if len(one.clients) > 1 else f" ({one.clients[0]} client)"
            families.setdefault(module, []).append(f"{_words(one.name)}{who}")
    rows = [[name, str(len(found)), _joined(found)] for name, found in sorted(families.items())]
    return _table(["family", "programs", "which"], rows)


def _words(name: str) -> str:
    return re.sub("_+", " ", name)


def _joined(names: Iterable[str]) -> str:
    return "; ".join(names)


if __name__ == "__main__":
    for part in (services, ops, api, programs):
        write_part(PAGE, part.__name__, part())
