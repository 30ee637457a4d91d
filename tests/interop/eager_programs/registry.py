"""The list of eager programs, and what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

PROGRAMS: dict[str, Program] = {}
W0 = "/job:worker/task:0"
W1 = "/job:worker/task:1"
PS = "/job:ps/task:0"

_ATTEMPTS = 5
# What TensorFlow's client says of an operation before it, and of a tensor that was never made.
_OF_SOMETHING_ELSE = (
    "Encountered when executing an operation using EagerExecutor",
    "Unable to find the relevant tensor remote_handle",
)


@dataclass(frozen=True)
class Program:
    """A program by name; `clients` are those whose API it keeps to.

    One that is alone is given a cluster of its own, of which it may end tasks.
    """

    name: str
    run: Callable[[Any, Cluster], Any]
    clients: tuple[str, ...]
    is_alone: bool = False


def program(
    clients: Iterable[str] = ("tensorflow", "tideflow"), *, is_alone: bool = False
) -> Callable[[Callable[[Any, Cluster], Any]], Callable[[Any, Cluster], Any]]:
    """Add a function to the programs."""

    def add(run: Callable[[Any, Cluster], Any]) -> Callable[[Any, Cluster], Any]:
        PROGRAMS[run.__name__] = Program(run.__name__, run, tuple(clients), is_alone)
        return run

    return add


class Cluster:
    """Where a program runs.

    Attributes:
      tf: the client's API.
      name: the program's, for names of state that no other program uses.
      pids: of tasks that may be ended, as "worker:1".
    """

    def __init__(self, tf: Any, name: str, pids: dict[str, int]) -> None:
        self.tf = tf
        self.name = name
        self.pids = pids
        # The text of the error that the last attempt ended with.
        self._told = ""

    def attempt(self, call: Callable[[], Any], *words: str) -> Any:
        """Return what a call returns, or the class of its error and which words it says.

        A call whose error may be of something else is made again: TensorFlow's client hears of the
        failure on its stream and of the reading by itself, in any order, and may tell the call
        after it of it once more (five in a thousand on TensorFlow's servers, twenty on ours).
        """
        told, self._told = self._told, ""
        for _ in range(_ATTEMPTS):
            try:
                found = call()
                return found.numpy() if hasattr(found, "numpy") else found
            except self.tf.errors.OpError as error:
                outcome = type(error).__name__, str(error)
            if outcome[1] != told and not any(race in outcome[1] for race in _OF_SOMETHING_ELSE):
                break
        kind, text = outcome
        self._told = text
        return {"error": kind, "says": [word for word in words if word in text]}


def values(tensors: Iterable[Any]) -> list[Any]:
    """Return the values of tensors."""
    return [tensor.numpy() for tensor in tensors]
