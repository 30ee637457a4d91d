"""Runs programs with each client on each kind of cluster, and compares what they note."""

from __future__ import annotations

import base64
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from whole_programs.syntax import Program, render

_HERE = Path(__file__).parent
# The folder has modules named as packages of tests, so it is on the path for this import alone.
sys.path.insert(0, str(_HERE.parent / "interop"))
try:
    from scenarios import (
        CLUSTERS,
        NoAnswerError,
        Process,
        RunningCluster,
        Unexpected,
        differences,
    )
finally:
    sys.path.remove(str(_HERE.parent / "interop"))

# A program takes milliseconds; one that takes this long hangs.
PROGRAM_TIMEOUT_S = 60.0
_WITH_STACKS = (NoAnswerError.__name__, Unexpected.__name__)
# Whose optimizers programs use.
_WITH_KERAS = {"TF_USE_LEGACY_KERAS": "0"}
LIBRARIES = ("tensorflow", "tideflow")
LOCAL = "no cluster"


@dataclass(frozen=True)
class Pair:
    """A client and where its programs run.

    Attributes:
      optimises: whether TensorFlow rewrites graphs before it runs them, as it does by default.
    """

    client: str
    cluster: str
    optimises: bool = True

    def __str__(self) -> str:
        where = "without a cluster" if self.cluster == LOCAL else f"on {self.cluster}"
        how = "" if self.optimises else ", without rewriting"
        return f"{self.client} client {where}{how}"

    @property
    def reference(self) -> Pair:
        """The pair of TensorFlow alone that this one is compared with."""
        return Pair("tensorflow", LOCAL if self.cluster == LOCAL else "tensorflow")

    @property
    def plain_reference(self) -> Pair:
        """The same without what TensorFlow's optimisers do to graphs."""
        return replace(self.reference, optimises=False)


ALL_PAIRS = tuple(
    Pair(client, cluster) for cluster in (LOCAL, *CLUSTERS) for client in reversed(LIBRARIES)
)
PAIRS = tuple(pair for pair in ALL_PAIRS if pair != pair.reference)
REFERENCES = tuple(pair for pair in ALL_PAIRS if pair == pair.reference)
ALONE = Pair("tensorflow", LOCAL)


# How a program says where it runs; one that says nothing of it does not use a cluster.
_PLACES = ("at.target(", "at.device(", "at.ps_tasks(", "at.mirrored_strategy(")


def every_pair(program: Program) -> tuple[Pair, ...]:
    """Return all pairs, or those without a cluster for a program that uses none."""
    source = render(program)
    uses_cluster = any(place in source for place in _PLACES)
    return tuple(pair for pair in PAIRS if uses_cluster or pair.cluster == LOCAL)


def some_pairs(program: Program) -> tuple[Pair, ...]:
    """Return the pair without a cluster, and one of the others, each seed another."""
    local, *others = sorted(every_pair(program), key=lambda pair: pair.cluster != LOCAL)
    if not others:
        return (local,)
    return local, others[(program.seed + program.seed // 10) % len(others)]


@dataclass
class Outcome:
    """How a program went.

    Attributes:
      notes: by pair, what it noted.
    """

    seed: int
    notes: dict[Pair, list[Any]] = field(default_factory=dict)

    def expected(self, pair: Pair) -> list[Any]:
        """Return what the program noted on TensorFlow alone: on the pair's kind of cluster, or
        without a cluster where it did not run there."""
        return self.notes.get(pair.reference, self.notes[ALONE])

    def differing(self) -> dict[Pair, list[str]]:
        """Return what differs from TensorFlow alone, by pair."""
        found = {
            pair: list(differ(self.expected(pair), notes))
            for pair, notes in self.notes.items()
            if pair != pair.reference
        }
        return {pair: some for pair, some in found.items() if some}

    def unsettled(self) -> set[Pair]:
        """Return the pairs of TensorFlow alone that have to say whether something differs."""
        return {pair.reference for pair in self.differing()} - self.notes.keys()


def differ(expected: list[Any], found: list[Any]) -> Iterator[str]:
    """Tell where the notes of two runs differ."""
    for i, (a, b) in enumerate(zip(expected, found)):
        for text in differences(_compared(a), _compared(b), f"note {i}"):
            told = {"expected": _text(a), "found": _text(b)}
            yield text + "".join(f"\n      {who}: {one}" for who, one in told.items() if one)
    if len(expected) != len(found):
        yield f"{len(expected)} notes expected, {len(found)} found"


def _compared(note: Any) -> Any:
    """Return a note without the texts of errors."""
    if isinstance(note, dict):
        return {
            key: _compared(one) for key, one in note.items() if key != "text" or "error" not in note
        }
    return note


def _text(note: Any) -> str:
    if isinstance(note, dict):
        if "error" in note:
            whole = note["error"] in _WITH_STACKS
            return str(note["text"]) if whole else str(note["text"])[:300].replace("\n", " ")
        return next(filter(None, map(_text, note.values())), "")
    return ""


@dataclass(frozen=True)
class _Client:
    """What tells processes of clients apart."""

    shape: str
    library: str
    joins: bool
    optimises: bool


def _client_of(shape: str, pair: Pair) -> _Client:
    # An eager client that has joined a cluster does not leave it again.
    return _Client(shape, pair.client, shape == "v2" and pair.cluster != LOCAL, pair.optimises)


class Servers:
    """The servers of a bench, on which the programs of one shape run.

    Attributes:
      life: how often all have ended; another after a program means that it may have met the end.
    """

    def __init__(self) -> None:
        self.life = 0
        self._lock = threading.RLock()
        self._tensorflow = Process("serve.py", "tensorflow")
        self._clusters: dict[str, RunningCluster] = {}

    def cluster(self, name: str) -> RunningCluster:
        """Return a cluster, which is started if it is not there."""
        with self._lock:
            if name not in self._clusters:
                self._clusters[name] = RunningCluster(CLUSTERS[name].runtimes, self._tensorflow)
            return self._clusters[name]

    def end(self) -> dict[str, str]:
        """End all processes; return what they say of what they were doing."""
        with self._lock:
            self.life += 1
            words = {"TensorFlow's tasks": self._tensorflow.end()}
            for name, cluster in self._clusters.items():
                words |= {f"{task} of {name}": one for task, one in cluster.end().items()}
            self._clusters.clear()
            return {who: one for who, one in words.items() if one}


class Bench:
    """All clusters and clients, each started when it is first needed.

    A program that hangs may leave servers that nobody can use, so they are ended with it, and what
    ran on them meanwhile is run again.

    Attributes:
      limit_s: how long a program may take.
    """

    def __init__(self, limit_s: float = PROGRAM_TIMEOUT_S) -> None:
        self.limit_s = limit_s
        self._clients: dict[_Client, Process] = {}
        # Graphs and eager operations have servers of their own.
        self._servers = {shape: Servers() for shape in ("v1", "v2")}

    def run_source(self, shape: str, name: str, source: str, pair: Pair) -> list[Any]:
        """Return what a program notes; a hang or the end of its process is a note."""
        servers = self._servers[shape]
        while True:
            life = servers.life
            try:
                answer = self._answer(shape, name, source, pair)
            except Unexpected as error:
                words = {"client": str(error)}
                if pair.cluster != LOCAL and servers.life != life:
                    continue
                if pair.cluster != LOCAL and isinstance(error, NoAnswerError):
                    words |= servers.end()
                told = "".join(f"\n--- {who}\n{one}" for who, one in words.items())
                return [{"failed": {"error": type(error).__name__, "text": told}}]
            if pair.cluster == LOCAL or servers.life == life:
                notes: list[Any] = pickle.loads(base64.b64decode(answer))
                return notes

    def _answer(self, shape: str, name: str, source: str, pair: Pair) -> bytes:
        key = _client_of(shape, pair)
        targets = spec = None
        try:
            client = self._client(key)
            if pair.cluster != LOCAL:
                cluster = self._servers[shape].cluster(pair.cluster)
                targets = cluster.targets
                spec = cluster.spec if shape == "v2" else None
            return client.ask([name, source, targets, spec], self.limit_s)
        except Unexpected:
            self._clients.pop(key, None)
            raise

    def _client(self, key: _Client) -> Process:
        if key not in self._clients:
            more = () if key.optimises else ("without-rewriting",)
            script = str(_HERE / "executor.py")
            arguments = (script, key.shape, key.library, *more)
            self._clients[key] = Process(*arguments, environment=_WITH_KERAS)
            self._clients[key].ask(None)
        return self._clients[key]

    def run(self, program: Program, pair: Pair) -> list[Any]:
        """Return what a program notes."""
        return self.run_source(program.shape, f"s{program.seed}", render(program), pair)

    def run_all(
        self,
        programs: Iterable[Program],
        pairs_of: Callable[[Program], Iterable[Pair]] = every_pair,
        lanes: int = 3,
    ) -> list[Outcome]:
        """Return how programs went with their pairs, and with what these are compared with.

        What TensorFlow notes on a cluster is nearly always what it notes without one, and takes it
        as long as all the rest; so it is asked only where a pair on a cluster notes something else.
        """
        programs = list(programs)
        outcomes = {one.seed: Outcome(one.seed) for one in programs}
        for wanted in (
            lambda one: {*pairs_of(one), ALONE},
            lambda one: outcomes[one.seed].unsettled(),
        ):
            self._run_wanted([(one, wanted(one)) for one in programs], outcomes, lanes)
        return list(outcomes.values())

    def _run_wanted(
        self,
        wanted: list[tuple[Program, set[Pair]]],
        outcomes: dict[int, Outcome],
        lanes: int,
    ) -> None:
        """Run each program on the pairs that are wanted of it, as many clients at a time as there
        are lanes."""

        def run_lane(some: list[tuple[Pair, Program]]) -> None:
            for pair, one in some:
                outcomes[one.seed].notes[pair] = self.run(one, pair)

        of_clients: dict[_Client, list[tuple[Pair, Program]]] = {}
        # Pair by pair: an eager client joins a cluster, and is in it then.
        for pair in ALL_PAIRS:
            for one, pairs in wanted:
                if pair in pairs:
                    of_clients.setdefault(_client_of(one.shape, pair), []).append((pair, one))
        # What takes longest comes first: TensorFlow's client, and with functions, which it traces.
        order = sorted(of_clients, key=lambda one: (one.library == "tideflow", one.shape == "v1"))
        with ThreadPoolExecutor(lanes) as pool:
            for end in [pool.submit(run_lane, of_clients[client]) for client in order]:
                end.result()

    def close(self) -> None:
        """End all processes."""
        for servers in self._servers.values():
            servers.end()
        for client in self._clients.values():
            client.close()
