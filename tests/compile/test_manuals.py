"""Each pass does what its manual says: graphs as text in, graphs as text out (see manuals.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

import tideflow.compile
from compile.graph_text import parse, to_text
from compile.manuals import FOLDER, Case, cases_of, with_results
from compile.passes import PASSES

CASES = [
    pytest.param(name, case, id=f"{name}: {case.title}")
    for name in PASSES
    for case in cases_of(FOLDER / f"{name}.txt")
]
# Modules that hold what several passes use, or whose passes have manuals of other names.
_OTHER_NAMES = {
    "loop_frames": "move_control_flow",
    "branch_conditions": "structured_flow",
    "forwarding": "plan",
    "late_nodes": "plan",
    "made_functions": "structured_flow",
    "structured_branches": "structured_flow",
    "structured_loops": "structured_flow",
}


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_pass_does_what_its_manual_says(name: str, case: Case) -> None:
    assert PASSES[name](case).strip() == case.expected


def test_every_pass_has_a_manual() -> None:
    (folder,) = tideflow.compile.__path__
    modules = {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}
    assert {_OTHER_NAMES.get(module, module) for module in modules} <= set(PASSES)
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(PASSES)
    assert all(any(cases_of(FOLDER / f"{name}.txt")) for name in PASSES)


@pytest.mark.parametrize("name", PASSES)
def test_a_manual_says_what_for_and_can_be_written_anew(name: str) -> None:
    path = FOLDER / f"{name}.txt"
    assert path.read_text().partition("\n# ")[0].strip()
    assert with_results(path, [case.expected for case in cases_of(path)]) == path.read_text()


def test_a_graph_is_the_same_after_it_was_text() -> None:
    text = (
        "x = Placeholder() dtype=float32 shape=[2]\n"
        "two = Const() value=2.0 @ps:1\n"
        "y = Mul(x, two) ^x @ps/GPU:0\n"
        "all = AddN([y, y, two])\n"
        "q = FIFOQueueV2() component_types=[float32]\n"
        "put = QueueEnqueueV2(q, [all])\n"
    )
    assert to_text(parse(text).values()) == text
