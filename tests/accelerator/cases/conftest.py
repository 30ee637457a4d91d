"""Cases on accelerators make graphs of their own.

They are run by test_accelerator.py, in a process where jax's second and third CPU devices are GPU:0
and GPU:1.
"""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def cluster():
    made = LocalCluster({"ps": 1, "worker": 1})
    yield made
    made.stop()
