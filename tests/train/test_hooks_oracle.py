"""The training lifecycle is TensorFlow's: the same calls, values, errors and names."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from cluster.servers import SOURCE, make_environment
from train.lifecycle_programs import PROGRAMS

TESTS = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.xdist_group("lifecycle"),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="needs a real TensorFlow"
    ),
]


@cache
def records(library):
    done = subprocess.run(
        [sys.executable, "-m", "train.lifecycle_programs"],
        capture_output=True,
        text=True,
        env={
            **make_environment(),
            "PYTHONPATH": f"{SOURCE}{os.pathsep}{TESTS}",
            "LIFECYCLE_LIBRARY": library,
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_leaves_the_record_that_tensorflows_does(name):
    expected = records("tensorflow.compat.v1")[name]
    assert not str(expected).startswith("raised"), expected
    assert records("tideflow.v1")[name] == expected
