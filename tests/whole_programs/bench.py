"""Runs programs with each client on each kind of cluster, and compares what they note."""

from __future__ import annotations

import base64
import pickle
import sys
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
    from scenarios import CLUSTERS, Process, RunningCluster, Unexpected, differences
finally:
    sys.path.remove(str(_HERE.parent / "interop"))

# A program takes milliseconds; one that takes this long hangs.
PROGRAM_TIMEOUT_S = 60.0
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
            return str(note["text"])[:300].replace("\n", " ")
        return next(filter(None, map(_text, note.values())), "")
    return ""


class Bench:
    """All clusters and clients, each started when it is first needed."""

    def __init__(self) -> None:
        self._servers: dict[str, Process] = {}
        self._clients: dict[tuple[str, str, bool], Process] = {}
        self._clusters: dict[tuple[str, str], RunningCluster] = {}

    def _cluster(self, shape: str, name: str) -> RunningCluster:
        """Return a cluster; graphs and eager operations have clusters of their own."""
        key = shape, name
        if key not in self._clusters:
            server = self._servers.setdefault(shape, Process("serve.py", "tensorflow"))
            self._clusters[key] = RunningCluster(CLUSTERS[name].runtimes, server)
        return self._clusters[key]

    def start(self, shapes: Iterable[str], pairs: Iterable[Pair]) -> None:
        """Start what will be needed."""
        for shape in shapes:
            for pair in pairs:
                if pair.cluster != LOCAL:
                    self._cluster(shape, pair.cluster)

    def run_source(self, shape: str, name: str, source: str, pair: Pair) -> list[Any]:
        """Return what a program notes; a hang or the end of its process is a note."""
        # An eager client that has joined a cluster does not leave it again.
        key = shape, pair.client, shape == "v2" and pair.cluster != LOCAL
        client = self._clients.setdefault(
            key, Process(str(_HERE / "executor.py"), shape, pair.client)
        )
        targets = spec = None
        if pair.cluster != LOCAL:
            cluster = self._cluster(shape, pair.cluster)
            targets = cluster.targets
            spec = cluster.spec if shape == "v2" else None
        try:
            line = client.ask([name, source, targets, spec], PROGRAM_TIMEOUT_S)
        except Unexpected as error:
            return [{"failed": {"error": "NoAnswer", "text": str(error)[-200:]}}]
        notes: list[Any] = pickle.loads(base64.b64decode(line))
        return notes

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
        for shape in {one.shape for one in programs}:
            some = [wanted[one.seed] for one in programs if one.shape == shape]
            self.start([shape], set().union(*some))
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
                for shape in ("v1", "v2")
                for library in LIBRARIES
            ]
            for end in lane_ends:
                end.result()
        return list(outcomes.values())

    def close(self) -> None:
        """End all processes."""
        for cluster in self._clusters.values():
            cluster.close()
        for process in (*self._clients.values(), *self._servers.values()):
            process.close()
