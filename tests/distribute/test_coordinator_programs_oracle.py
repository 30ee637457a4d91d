"""Programs with a coordinator give what they do with TensorFlow, on tasks of either kind."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from distribute.coordinator_programs import PROGRAMS
from distribute.programs_in_processes import (
    beside_tensorflow,
    end_programs,
    make_cluster,
    start_program,
    start_servers,
)

pytestmark = beside_tensorflow("coordinator programs")

_FILE = str(Path(__file__).with_name("coordinator_programs.py"))
WAYS = {
    "tensorflow on tideflow servers": ("tensorflow", "tideflow"),
    "tideflow on tensorflow servers": ("tideflow", "tensorflow"),
    "tideflow on tideflow servers": ("tideflow", "tideflow"),
}


@functools.cache
def results(chief: str, servers: str) -> dict[str, Any]:
    """Return what all programs give, run one after the other in one process."""
    cluster = make_cluster(ps=2, worker=2, chief=1)
    started = start_servers(cluster, {"ps": [servers] * 2, "worker": [servers] * 2})
    try:
        pids = json.dumps([started[3].pid, started[1].pid])
        process = start_program(_FILE, chief, json.dumps(cluster), pids)
        output, said = process.communicate(timeout=150)
    finally:
        end_programs(started)
    lines = [line for line in output.splitlines() if line.startswith("found ")]
    assert lines, said[-3000:]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("found "))
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_coordinator_gives_what_tensorflows_gives(name: str, way: str) -> None:
    expected = results("tensorflow", "tensorflow")[name]
    assert expected[0] == "returned", expected
    assert results(*WAYS[way])[name] == expected
