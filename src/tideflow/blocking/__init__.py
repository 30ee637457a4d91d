"""What goes on beside those who asked for it: blocking work in pools of threads, and tasks."""

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
from tideflow.blocking.run import has_loop, run_blocking, run_sized
from tideflow.blocking.stop_flag import StopFlag, Stopped
from tideflow.blocking.tasks import spawn
from tideflow.blocking.turns import Turns
from tideflow.wire.work import (
    LONG_BYTES,
    OBJECT_BYTES,
    item_bytes,
    work_bytes,
    work_on_alike,
    writing_work,
)

__all__ = [
    "BLOCKING_POOLS",
    "DATA",
    "FILES",
    "FILE_PARTS",
    "FUNCTIONS",
    "GRAPHS",
    "KERNELS",
    "LONG_BYTES",
    "LOOP_BUDGET_S",
    "MESSAGES",
    "OBJECT_BYTES",
    "Durations",
    "Parts",
    "Pool",
    "StopFlag",
    "Stopped",
    "Turns",
    "has_loop",
    "held_place",
    "in_place",
    "item_bytes",
    "run_blocking",
    "run_sized",
    "spawn",
    "weight_of",
    "work_bytes",
    "work_on_alike",
    "writing_work",
]
