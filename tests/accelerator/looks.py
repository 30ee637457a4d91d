"""What the cases on accelerators share: names, and looks into sessions."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.ops.state import VariableState
from tideflow.wire import messages as pb

CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU0 = "/job:localhost/replica:0/task:0/device:GPU:0"
GPU1 = "/job:localhost/replica:0/task:0/device:GPU:1"
SOFT = pb.ConfigProto(allow_soft_placement=True)
NO_GPU = pb.ConfigProto(device_count={"GPU": 0})
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.3),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.01),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
}


def use_both_kinds(function):
    return pytest.mark.parametrize("use_resource", [True, False])(function)


def place_of(session, fetch, feeds=None):
    """Return on which device the node that makes a tensor ran, by the step's statistics."""
    metadata = pb.RunMetadata()
    options = pb.RunOptions(trace_level=pb.RunOptions.FULL_TRACE)
    session.run(fetch, feeds, options=options, run_metadata=metadata)
    found = {}
    for device_pb in metadata.step_stats.dev_stats:
        for node_pb in device_pb.node_stats:
            found[node_pb.node_name] = device_pb.device
    return found[fetch.op.name]


def states(session, device="GPU:0"):
    """Return the variables of a session's device by name."""
    manager = session.backend.devices.get(f"/device:{device}").resources
    return {variable.name: variable for variable in manager.things(VariableState)}


def device_of(value):
    """Return the jax device that holds an array."""
    (found,) = value.devices()
    return found


def programs(session):
    """Return all programs of a session's graphs."""
    return [
        program
        for runner in session.backend.runners.values()
        for executor in runner.executors
        for program in executor.programs
    ]
