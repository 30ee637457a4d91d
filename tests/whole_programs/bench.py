"""Runs programs with each client on each kind of cluster, and compares what they note."""

from __future__ import annotations

import base64
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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
LIBRARIES = ("tensorflow", "tideflow")
LOCAL = "no cluster"


@dataclass(frozen=True)
class Pair:
    """A client and where its programs run."""

    client: str
    cluster: str

    def __str__(self) -> str:
        where = "without a cluster" if self.cluster == LOCAL else f"on {self.cluster}"
        return f"{self.client} client {where}"

    @property
    def reference(self) -> Pair:
        """The pair of TensorFlow alone that this one is compared with."""
        return Pair("tensorflow", LOCAL if self.cluster == LOCAL else "tensorflow")


ALL_PAIRS = tuple(
    Pair(client, cluster) for cluster in (LOCAL, *CLUSTERS) for client in reversed(LIBRARIES)
)
PAIRS = tuple(pair for pair in ALL_PAIRS if pair != pair.reference)
REFERENCES = tuple(pair for pair in ALL_PAIRS if pair == pair.reference)


def every_pair(seed: int) -> tuple[Pair, ...]:
    """Return all pairs."""
    return PAIRS


def some_pairs(seed: int) -> tuple[Pair, ...]:
    """Return the pair without a cluster, and one of the others, each seed another."""
    local, *others = sorted(PAIRS, key=lambda pair: pair.cluster != LOCAL)
    return local, others[(seed + seed // 10) % len(others)]


@dataclass
class Outcome:
    """How a program went.

    Attributes:
      notes: by pair, what it noted.
    """

    seed: int
    notes: dict[Pair, list[Any]] = field(default_factory=dict)

    def differing(self) -> dict[Pair, list[str]]:
        """Return what differs from TensorFlow alone, by pair."""
        found = {
            pair: list(differ(self.notes[pair.reference], notes))
            for pair, notes in self.notes.items()
            if pair != pair.reference
        }
        return {pair: some for pair, some in found.items() if some}


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
        self._clients: dict[tuple[str, str, bool], Process] = {}
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
        # An eager client that has joined a cluster does not leave it again.
        key = shape, pair.client, shape == "v2" and pair.cluster != LOCAL
        targets = spec = None
        try:
            client = self._client(*key)
            if pair.cluster != LOCAL:
                cluster = self._servers[shape].cluster(pair.cluster)
                targets = cluster.targets
                spec = cluster.spec if shape == "v2" else None
            return client.ask([name, source, targets, spec], self.limit_s)
        except Unexpected:
            self._clients.pop(key, None)
            raise

    def _client(self, shape: str, library: str, joins: bool) -> Process:
        key = shape, library, joins
        if key not in self._clients:
            self._clients[key] = Process(str(_HERE / "executor.py"), shape, library)
            self._clients[key].ask(None)
        return self._clients[key]

    def run(self, program: Program, pair: Pair) -> list[Any]:
        """Return what a program notes."""
        return self.run_source(program.shape, f"s{program.seed}", render(program), pair)

    def run_all(
        self,
        programs: Iterable[Program],
        pairs_of: Callable[[int], Iterable[Pair]] = every_pair,
        lanes: int = 2,
    ) -> list[Outcome]:
        """Return how programs went with the pairs of their seeds, and what these are compared
        with."""
        programs = list(programs)
        wanted = {
            one.seed: set(pairs_of(one.seed)) | {pair.reference for pair in pairs_of(one.seed)}
            for one in programs
        }
        outcomes = {one.seed: Outcome(one.seed) for one in programs}

        def run_lane(shape: str, library: str) -> None:
            # Pair by pair: an eager client joins a cluster, and is in it then.
            for pair in (pair for pair in ALL_PAIRS if pair.client == library):
                for one in programs:
                    if one.shape == shape and pair in wanted[one.seed]:
                        outcomes[one.seed].notes[pair] = self.run(one, pair)

        with ThreadPoolExecutor(lanes) as pool:
            lane_ends = [
                pool.submit(run_lane, shape, library)
                for library in LIBRARIES
                for shape in ("v1", "v2")
            ]
            for end in lane_ends:
                end.result()
        return list(outcomes.values())

    def close(self) -> None:
        """End all processes."""
        for servers in self._servers.values():
            servers.end()
        for client in self._clients.values():
            client.close()
