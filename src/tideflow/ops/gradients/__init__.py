"""Gradients of graphs: the walk from results to sources; branches, loops and functions.

The gradient of an ordinary op stands beside its kernel."""

from __future__ import annotations

from tideflow.ops.gradients.api import UnconnectedGradients, gradients
from tideflow.ops.gradients.control_flow import ControlFlowGradients
from tideflow.ops.gradients.custom import custom_gradient, only_reads_noted
from tideflow.ops.gradients.symbolic import GRADIENT
from tideflow.ops.gradients.walk import (
    Walk,
    WalkOptions,
    aggregate,
    gradient_function,
    is_trainable,
    ones_like_output,
    zeros_like_output,
)

__all__ = [
    "GRADIENT",
    "ControlFlowGradients",
    "UnconnectedGradients",
    "Walk",
    "WalkOptions",
    "aggregate",
    "custom_gradient",
    "gradient_function",
    "gradients",
    "is_trainable",
    "ones_like_output",
    "only_reads_noted",
    "zeros_like_output",
]
