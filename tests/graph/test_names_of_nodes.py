"""Calls name their results, and what they put at the root of a graph, as TensorFlow does.

What TensorFlow gives is recorded (`python -m graph.names_of_nodes record`, in tests/).  The calls
of differences.txt differ, for the reason behind them; one that has come to agree must go.
"""

from __future__ import annotations

import json

import pytest

from graph.names_of_nodes import __main__ as names_of_nodes


@pytest.mark.processes
def test_results_and_scopes_have_tensorflows_names() -> None:
    recorded = json.loads(names_of_nodes.RECORDED.read_text())
    ours = names_of_nodes.names_given("tideflow", {s: list(calls) for s, calls in recorded.items()})
    lines = names_of_nodes.DIFFERENCES.read_text().splitlines()
    known = {line.partition("  # ")[0] for line in lines}
    found = names_of_nodes.differing(recorded, ours)
    assert sorted(found - known) == []
    assert sorted(known - found) == []
    assert all(line.partition("  # ")[2] for line in lines)
