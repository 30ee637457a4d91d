"""Checkpoints stream: beside the variables, saving and restoring take little memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from cluster.servers import make_environment

_BEGIN = """
import json, sys
from pathlib import Path

MIB = 1 << 20
directory, call, kind = sys.argv[1:]
COUNT, EACH = 16, 16 * MIB

def status(which):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(which + ":"):
            return int(line.split()[1]) * 1024

def measure(run):
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    run()
    print(json.dumps({"peak": status("VmHWM") - before, "held": COUNT * EACH}))
"""

_SESSION = """
import tideflow.v1 as tf

ones = tf.ones_initializer()
for i in range(COUNT):
    tf.get_variable(f"v{i}", [EACH // 4], initializer=ones, use_resource=kind == "resource")
saver = tf.train.Saver()
with tf.Session() as session:
    if call == "save":
        session.run(tf.global_variables_initializer())
        measure(lambda: saver.save(session, directory + "/m"))
    else:
        if call == "replace":
            saver.restore(session, directory + "/m")
        measure(lambda: saver.restore(session, directory + "/m"))
"""

_EAGER = """
import tideflow as tf

made = [tf.Variable(tf.ones([EACH // 4])) for i in range(COUNT)]
checkpoint = tf.train.Checkpoint(made=made)
if call == "save":
    measure(lambda: checkpoint.write(directory + "/m"))
else:
    checkpoint.read(directory + "/m")
    measure(lambda: checkpoint.read(directory + "/m"))
"""


def measured(directory, call, kind):
    program = _BEGIN + (_EAGER if kind == "eager" else _SESSION)
    found = subprocess.run(
        [sys.executable, "-c", program, str(directory), call, kind],
        env=make_environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.parametrize("kind", ["resource", "reference", "eager"])
def test_saving_and_restoring_take_little_memory_beside_the_variables(tmp_path, kind):
    saved = measured(tmp_path, "save", kind)
    # Not kept with the last runs of the tests: they are large.
    try:
        replaced = measured(tmp_path, "replace", kind)
        # The variables of eager programs have values from the start.
        restored = None if kind == "eager" else measured(tmp_path, "restore", kind)
    finally:
        shutil.rmtree(tmp_path)
    assert saved["peak"] < 0.1 * saved["held"], saved
    assert replaced["peak"] < 0.1 * replaced["held"], replaced
    if restored is not None:
        beside = restored["peak"] - restored["held"]
        assert beside < 0.1 * restored["held"], restored
