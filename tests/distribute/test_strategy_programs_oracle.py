"""Programs with a MirroredStrategy return and raise what they do with TensorFlow.

The devices are those of the program, or of workers of either kind.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from distribute.programs_in_processes import (
    beside_tensorflow,
    end_programs,
    make_cluster,
    start_program,
    start_servers,
)
from distribute.strategy_programs import PROGRAMS

pytestmark = beside_tensorflow("strategy programs")

_FILE = str(Path(__file__).with_name("strategy_programs.py"))
# Whose program, and the kinds of the workers on whose devices it runs.
WAYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tideflow": ("tideflow", ()),
    # TensorFlow's own program waits for ever on two devices of one worker.
    "tideflow on one tideflow worker": ("tideflow", ("tideflow",)),
    "tideflow on two tideflow workers": ("tideflow", ("tideflow", "tideflow")),
    "tideflow on two tensorflow workers": ("tideflow", ("tensorflow", "tensorflow")),
    "tideflow on workers of both kinds": ("tideflow", ("tensorflow", "tideflow")),
}


@functools.cache
def results(library: str, workers: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what all programs give, run one after the other in one process."""
    cluster = make_cluster(worker=len(workers)) if workers else {}
    servers = start_servers(cluster, {"worker": workers})
    try:
        arguments = [json.dumps(cluster["worker"])] if workers else []
        process = start_program(_FILE, library, *arguments)
        output, said = process.communicate(timeout=150)
    finally:
        end_programs(servers)
    lines = [line for line in output.splitlines() if line.startswith("found ")]
    assert lines, said[-3000:]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("found "))
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_tensorflow_gives(name: str, way: str) -> None:
    expected, found = results("tensorflow")[name], results(*WAYS[way])[name]
    if expected[0] == "raised":
        # Our texts say more; the class, and that it raises at all, is what programs rely on.
        assert found[:2] == expected[:2]
    else:
        assert found == expected
