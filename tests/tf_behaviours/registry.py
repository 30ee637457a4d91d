"""What TensorFlow's own tests say that it does: each behaviour as a program that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recorded_programs import Collection, Program, error

__all__ = ["BEHAVIOURS", "COLLECTION", "Behaviour", "behaviour", "error"]

# Modules of these are of the v1 shape: `tensorflow.compat.v1` and `tideflow.v1`.
COLLECTION = Collection(
    "tf_behaviours",
    v1=("client_", "training_", "framework_", "kernels_"),
    apart=("cluster_", "debug_"),
)


@dataclass(frozen=True)
class Behaviour:
    """What a test file of TensorFlow, under `tensorflow/`, says in one sentence."""

    file: str
    sentence: str


# By the name of the program.
BEHAVIOURS: dict[str, Behaviour] = {}


def behaviour(file: str, sentence: str) -> Callable[[Program], Program]:
    """Keep a program that shows a behaviour of a test file, such as `python/client/x_test.py`."""

    def keep(function: Program) -> Program:
        COLLECTION.add(function)
        BEHAVIOURS[list(COLLECTION.programs)[-1]] = Behaviour(file, sentence)
        return function

    return keep
