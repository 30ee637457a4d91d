"""Programs that run on any cluster with any client, and return the same whatever they run on.

A program takes `tf`, the v1 API of TensorFlow or of tideflow, and a `Cluster` of tasks worker 0,
worker 1 and ps 0, whose master it opens sessions at.  Neither library is imported here.
"""

from __future__ import annotations

from programs import (
    control,
    data,
    errors,
    families,
    feeds,
    functions,
    lifecycle,
    models,
    options,
    peers,
    recurrence,
    references,
    sessions,
    state,
    tensors,
    training,
    words,
)
from programs.registry import PROGRAMS, Cluster, Program

__all__ = [
    "PROGRAMS",
    "Cluster",
    "Program",
    "control",
    "data",
    "errors",
    "families",
    "feeds",
    "functions",
    "lifecycle",
    "models",
    "options",
    "peers",
    "recurrence",
    "references",
    "sessions",
    "state",
    "tensors",
    "training",
    "words",
]
