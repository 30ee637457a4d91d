"""A program of Keras as the tasks of a cluster trains as on one device."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from as_tensorflow.run_programs import FOLDER, RECORDED
from cluster.servers import make_environment

pytestmark = [
    pytest.mark.processes,
    pytest.mark.timeout(200),
    pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="needs Keras"),
]
PROGRAM = "alone_keras_mirrored_callbacks"
# The options of `tideflow run`, and which tasks tell what they found.
CLUSTERS = {
    "two workers in step": ("--ps 0 --workers 2", ["worker:0", "worker:1"]),
    "a parameter server and a worker": ("--coordinator --ps 1 --workers 1", ["chief:0"]),
}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_fit_and_its_callbacks_give_what_tensorflow_gives_on_one_device(cluster: str) -> None:
    options, tellers = CLUSTERS[cluster]
    program = str(FOLDER / f"{PROGRAM}.py")
    command = [sys.executable, "-m", "tideflow", "run", "--as-tensorflow"]
    done = subprocess.run(
        [*command, *options.split(), program],
        capture_output=True, text=True, timeout=180, check=False, env=make_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        task, _, said = line.partition("| ")
        found.setdefault(task.strip(), []).append(said)
    assert sorted(found) == tellers
    recorded: list[str] = json.loads(RECORDED.read_text())[PROGRAM]
    first = recorded.index("OneDeviceStrategy 1")
    expected = recorded[first + 1 : recorded.index("CollectiveAllReduceStrategy 1")]
    for lines in found.values():
        assert lines[1:] == expected
