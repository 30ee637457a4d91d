"""What is recorded of the programs is what TensorFlow gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tutorials import recording

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.processes]


@pytest.mark.timeout(500)
def test_the_records_are_what_tensorflow_gives():
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, recording.__file__, "tensorflow"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    problems = {
        f"{module}.{title}": problem
        for module in recording.MODULES
        for title, wanted in recording.recorded(module).items()
        if (problem := recording.difference(wanted, found[module].get(title)))
    }
    assert not problems
