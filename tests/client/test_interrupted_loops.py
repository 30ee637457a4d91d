"""Ctrl-C while a session runs a loop."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

_WHOLE = """
import os, signal, threading
import numpy as np
import tideflow.v1 as tf

v = tf.get_variable("v", initializer=tf.zeros([300, 300]), use_resource=True)

def turn(i):
    with tf.control_dependencies([v.assign_add(tf.ones([300, 300]))]):
        return tf.maximum(i, 1)

loop = tf.while_loop(lambda i: i >= 0, turn, [0])
with tf.Session() as session:
    session.run(v.initializer)
    for delay in range(20):
        timer = threading.Timer(0.02 + 0.001 * delay, os.kill, [os.getpid(), signal.SIGINT])
        timer.start()
        try:
            session.run(loop)
        except KeyboardInterrupt:
            found = session.run(v)
            assert (found == found[0, 0]).all(), found
            print("whole")
        timer.join()
"""

_DEEP = """
import os, signal, threading
import tideflow as tf

def nested(x, level):
    if level:
        return tf.cond(x > -5.0, lambda: nested(x, level - 1), lambda: x)
    return tf.while_loop(lambda i: i >= 0.0, lambda i: i + 1.0, [x])[0]

@tf.function(autograph=False)
def endless(x):
    return nested(x, 45)

endless.get_concrete_function(tf.constant(1.0))
threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    endless(tf.constant(1.0))
except KeyboardInterrupt:
    print("ended")
"""


def told(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100
    )
    return done.stdout.split()


def test_a_turn_that_has_begun_is_done_as_a_whole() -> None:
    assert told(_WHOLE) == ["whole"] * 20


def test_a_loop_within_many_functions_ends() -> None:
    assert told(_DEEP) == ["ended"]
