"""Eager programs: without sessions, on the tasks of a cluster that the client has joined.

A program takes `tf`, the API of TensorFlow 2 or of tideflow, and the `Cluster` that it is connected
to, and returns the same whatever it runs on.  Neither library is imported here.
"""

from __future__ import annotations

from eager_programs import (
    collectives,
    data,
    errors,
    families,
    functions,
    losses,
    models,
    operations,
    state,
)
from eager_programs.registry import PROGRAMS, Cluster, Program

__all__ = [
    "PROGRAMS",
    "Cluster",
    "Program",
    "collectives",
    "data",
    "errors",
    "families",
    "functions",
    "losses",
    "models",
    "operations",
    "state",
]
