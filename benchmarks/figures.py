"""The figures of the performance page: which program, on which tasks, and what is aimed at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

MIB = 1 << 20

Part = Literal["step", "first", "start", "import"]


@dataclass(frozen=True)
class Load:
    """What one round runs.

    Attributes:
      program: its name in benchmarks.programs.
      arguments: its sizes.
      jobs: tasks by job that it uses; empty for a local session.  Client i connects to task i of
        the job that is named last.
      steps: how many steps are timed (fewer where they take seconds).
      clients: processes that step at the same time; client i is told `task=i`.
      fresh: whether the servers must not have run anything before.
    """

    program: str
    arguments: dict[str, Any] = field(default_factory=dict)
    jobs: tuple[tuple[str, int], ...] = ()
    steps: int = 300
    clients: int = 1
    fresh: bool = False

    def arguments_of(self, client: int) -> dict[str, Any]:
        """Return the sizes, and which worker a client is."""
        return self.arguments if self.clients == 1 else {**self.arguments, "task": client}


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Attributes:
      key: its name on the command line and in JSON.
      target: the ratio to TensorFlow that is aimed at.
      part: what is taken from a round: hot steps, the first run, the time from starting the
        servers to the end of the first run, or the time to import the package.
      client: the runtime that the client has in both columns; None for that of the servers.
    """

    key: str
    title: str
    load: Load
    target: float
    part: Part = "step"
    client: str | None = None


_SMALL = {"sizes": [64, 128, 10], "batch": 64}
_BIG = {"sizes": [784, 1024, 1024, 10], "batch": 256}
_WORKER = (("worker", 1),)
_PAIR = (("ps", 1), ("worker", 1))
# One cluster serves all three sizes of the fan-in: a step only calls the tasks that it uses.
_MANY = (("worker", 8), ("ps", 1))

_CHAIN = Load("chain", {"ops": 2000}, steps=300)
_SMALL_MLP = Load("mlp", _SMALL, steps=500)
_REMOTE_ADD = Load("remote_add", jobs=_WORKER, steps=500)
_PS_SMALL = Load("ps_mlp", _SMALL, _PAIR, steps=300)
_FETCH = Load("to_client", {"count": 64 * MIB // 4}, _PAIR, steps=20)
_WIDE = Load("wide", {"nodes": 40_000}, _PAIR, steps=50, fresh=True)
_DISTINCT = Load("wide", {"nodes": 40_000, "distinct": True}, _PAIR, steps=20, fresh=True)


def _all_reduce(workers: int, kibibytes: int, steps: int) -> Figure:
    load = Load(
        "all_reduce",
        {"workers": workers, "count": kibibytes * 1024 // 4},
        (("worker", workers),),
        steps,
    )
    size = f"{kibibytes} KiB" if kibibytes < 1024 else f"{kibibytes // 1024} MiB"
    title = f"all-reduce of {size} over {workers} workers"
    return Figure(f"all-reduce-{workers}-{kibibytes}", title, load, 1.0)


def _to_worker(mebibytes: int, steps: int, target: float) -> Figure:
    load = Load("to_worker", {"count": mebibytes * MIB // 4}, _PAIR, steps)
    return Figure(f"to-worker-{mebibytes}", f"{mebibytes} MiB from ps to worker", load, target)


def _fan_in(workers: int) -> Figure:
    load = Load("fan_in", {"workers": workers}, _MANY)
    return Figure(f"fan-in-{workers}", f"fan-in over {workers} workers", load, 0.25)


FIGURES = (
    Figure("local-add", "local scalar add with a feed", Load("local_add", steps=2000), 0.25),
    Figure("chain", "local chain of 2000 small ops, step", _CHAIN, 0.2),
    Figure("chain-first", "local chain of 2000 small ops, first run", _CHAIN, 0.5, "first"),
    Figure("small-mlp", "local train step, MLP 64-128-10, batch 64", _SMALL_MLP, 0.5),
    Figure("small-mlp-first", "the same, first run", _SMALL_MLP, 1.0, "first"),
    Figure(
        "big-mlp", "local train step, MLP 784-1024-1024-10, batch 256",
        Load("mlp", _BIG, steps=60), 0.9,
    ),
    Figure("remote-add", "scalar add on a worker", _REMOTE_ADD, 0.25),
    Figure(
        "remote-add-client", "scalar add on a worker, TensorFlow client on both",
        _REMOTE_ADD, 0.5, client="tensorflow",
    ),
    Figure("floats", "4 floats from ps to worker", Load("to_worker", {"count": 4}, _PAIR), 0.2),
    _to_worker(1, 200, 0.25),
    _to_worker(16, 50, 0.25),
    _to_worker(64, 20, 0.2),
    _to_worker(256, 10, 0.3),
    Figure("to-client", "64 MiB from ps to client", _FETCH, 0.1),
    Figure(
        "to-client-client", "64 MiB from ps to client, TensorFlow client on both",
        _FETCH, 0.75, client="tensorflow",
    ),
    Figure("ps-small-mlp", "1 ps + 1 worker train step, small MLP", _PS_SMALL, 0.2),
    Figure(
        "ps-small-mlp-client", "1 ps + 1 worker train step, small MLP, TensorFlow client on both",
        _PS_SMALL, 0.4, client="tensorflow",
    ),
    Figure(
        "ps-big-mlp", "1 ps + 1 worker train step, big MLP",
        Load("ps_mlp", _BIG, _PAIR, steps=40), 0.5,
    ),
    Figure(
        "async-workers", "1 ps + 2 asynchronous workers, small MLP, time per step of either",
        Load("ps_mlp", _SMALL, (("ps", 1), ("worker", 2)), steps=500, clients=2), 0.33,
    ),
    _fan_in(2),
    _fan_in(4),
    _fan_in(8),
    _all_reduce(2, 4, 300),
    _all_reduce(2, 4096, 60),
    _all_reduce(2, 65536, 8),
    _all_reduce(4, 4, 300),
    _all_reduce(4, 4096, 40),
    _all_reduce(4, 65536, 5),
    Figure("wide-first", "40,000 nodes over two tasks, first run", _WIDE, 0.5, "first"),
    Figure("wide", "40,000 nodes over two tasks, step", _WIDE, 0.2),
    Figure(
        "wide-distinct-first", "40,000 nodes that no optimiser merges, 4,000 tensors between two "
        "tasks, first run", _DISTINCT, 0.5, "first",
    ),
    Figure("wide-distinct", "the same, step", _DISTINCT, 0.5),
    Figure("import", "import of the v1 module", Load("import", clients=0), 0.3, "import"),
    Figure(
        "start", "three servers up and first train step",
        Load("ps_mlp", _SMALL, (("ps", 1), ("worker", 2)), steps=0, fresh=True), 0.5, "start",
    ),
)  # fmt: skip
