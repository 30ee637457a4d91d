"""The list of programs, and what they are given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

PROGRAMS: dict[str, Program] = {}

# A step that takes longer has hung.
STEP_TIMEOUT_MS = 20_000


@dataclass(frozen=True)
class Program:
    """A program by name.

    Attributes:
      clients: those whose API it keeps to.
      local: whether it also runs in sessions without a cluster; it then names devices with
        `Cluster.device`.
    """

    name: str
    run: Callable[[Any, Cluster], Any]
    clients: tuple[str, ...]
    local: bool = False


def program(
    clients: Iterable[str] = ("tensorflow", "tideflow"), local: bool = False
) -> Callable[[Callable[[Any, Cluster], Any]], Callable[[Any, Cluster], Any]]:
    """Add a function to the programs."""

    def add(run: Callable[[Any, Cluster], Any]) -> Callable[[Any, Cluster], Any]:
        PROGRAMS[run.__name__] = Program(run.__name__, run, tuple(clients), local)
        return run

    return add


def add_program(
    name: str, run: Callable[[Any, Cluster], Any], clients: Iterable[str] = ("tensorflow",)
) -> None:
    """Add a function to the programs under another name, as one of a family."""
    PROGRAMS[name] = Program(name, run, tuple(clients))


class Cluster:
    """Where a program runs.

    Attributes:
      tf: the client's API.
      name: the program's, for names of state that no other program uses.
      targets: of the tasks, as "worker:0"; none where sessions run without a cluster.
    """

    def __init__(self, tf: Any, name: str, targets: dict[str, str]) -> None:
        self.tf = tf
        self.name = name
        self.targets = targets

    def session(self, task: str = "worker:0", **options: Any) -> Any:
        """Open a session whose steps cannot hang; ConfigProto fields may be given."""
        options.setdefault("operation_timeout_in_ms", STEP_TIMEOUT_MS)
        target = self.targets[task] if self.targets else ""
        return self.tf.Session(target, config=self.tf.ConfigProto(**options))

    def device(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Return tf.device(name), or what leaves devices open where there is no cluster."""
        found: contextlib.AbstractContextManager[Any] = (
            self.tf.device(name) if self.targets else contextlib.nullcontext()
        )
        return found

    def attempt(self, call: Callable[[], Any]) -> Any:
        """Return what a call returns, or the class of its error and the op that it names.

        The program's own name is left out of the op's.
        """
        try:
            return call()
        except self.tf.errors.OpError as error:
            op = error.op.name.replace(self.name, "NAME") if error.op is not None else None
            return {"error": type(error).__name__, "op": op}
