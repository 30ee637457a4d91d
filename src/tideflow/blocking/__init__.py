"""Blocking work beside the event loop: the pools of threads for it, and how it is had done."""

from tideflow.blocking.durations import LOOP_BUDGET_S, Durations, weight_of
from tideflow.blocking.parts import Parts
from tideflow.blocking.pools import (
    BLOCKING_POOLS,
    DATA,
    FILE_PARTS,
    FILES,
    FUNCTIONS,
    GRAPHS,
    KERNELS,
    MESSAGES,
    Pool,
    held_place,
    in_place,
)
from tideflow.blocking.run import run_blocking
from tideflow.blocking.stop_flag import StopFlag, Stopped
from tideflow.blocking.turns import Turns

__all__ = [
    "BLOCKING_POOLS",
    "DATA",
    "FILES",
    "FILE_PARTS",
    "FUNCTIONS",
    "GRAPHS",
    "KERNELS",
    "LOOP_BUDGET_S",
    "MESSAGES",
    "Durations",
    "Parts",
    "Pool",
    "StopFlag",
    "Stopped",
    "Turns",
    "held_place",
    "in_place",
    "run_blocking",
    "weight_of",
]
