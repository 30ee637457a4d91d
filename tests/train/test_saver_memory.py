"""Checkpoints stream: beside the variables, saving and restoring take little memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from cluster.servers import make_environment

_PROGRAM = """
import json, os, sys
from pathlib import Path
import numpy as np
import tideflow.v1 as tf

MIB = 1 << 20
directory, call, kind = sys.argv[1:]
COUNT, EACH = 16, 16 * MIB
use_resource = kind == "resource"

def status(which):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(which + ":"):
            return int(line.split()[1]) * 1024

ones = tf.ones_initializer()
for i in range(COUNT):
    tf.get_variable(f"v{i}", [EACH // 4], initializer=ones, use_resource=use_resource)
saver = tf.train.Saver()
with tf.Session() as session:
    if call == "save":
        session.run(tf.global_variables_initializer())
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    if call == "save":
        saver.save(session, directory + "/m")
    else:
        saver.restore(session, directory + "/m")
    peak = status("VmHWM") - before
print(json.dumps({"peak": peak, "held": COUNT * EACH}))
"""


def measured(directory, call, kind):
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(directory), call, kind],
        env=make_environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.parametrize("kind", ["resource", "reference"])
def test_saving_and_restoring_take_little_memory_beside_the_variables(tmp_path, kind):
    saved = measured(tmp_path, "save", kind)
    # Not kept with the last runs of the tests: they are large.
    try:
        restored = measured(tmp_path, "restore", kind)
    finally:
        shutil.rmtree(tmp_path)
    assert saved["peak"] < 0.1 * saved["held"], saved
    beside = restored["peak"] - restored["held"]
    assert beside < 0.1 * restored["held"], restored
