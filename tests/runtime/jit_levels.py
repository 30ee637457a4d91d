"""Sessions in which nothing is compiled, and everything."""

from __future__ import annotations

from typing import Any

import tideflow.v1 as tf
from tideflow.wire import messages as pb


def config(level: Any) -> pb.ConfigProto:
    """Return what a session of a level of compilation is asked for with."""
    made = tf.ConfigProto()
    made.graph_options.optimizer_options.global_jit_level = level
    return made


NEVER = config(pb.OptimizerOptions.OFF)
ALWAYS = config(pb.OptimizerOptions.ON_2)
