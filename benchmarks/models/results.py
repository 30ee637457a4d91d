"""What was measured, by row and engine; kept in a file, so that a later call goes on from there."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.models.rows import Row
from benchmarks.models.runs import CACHED, COLD, TENSORFLOW, Engine, Run

# How many losses are compared.
COMPARED = 200
_FIRST = 10


class Results:
    """Runs by row and engine."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._runs: dict[str, dict[str, list[Run]]] = {}
        if path is not None and path.exists():
            for title, engines in json.loads(path.read_text()).items():
                self._runs[title] = {
                    key: [Run(**one) for one in found] for key, found in engines.items()
                }

    def add(self, row: Row, engine: Engine, run: Run) -> None:
        """Keep a run."""
        self._runs.setdefault(row.title, {}).setdefault(engine.key, []).append(run)
        if self._path is not None:
            self._path.write_text(
                json.dumps(
                    {
                        title: {key: [vars(run) for run in runs] for key, runs in engines.items()}
                        for title, engines in self._runs.items()
                    }
                )
            )

    def runs(self, row: Row, engine: Engine) -> list[Run]:
        """Return the runs of an engine, in their order."""
        return self._runs.get(row.title, {}).get(engine.key, [])

    def is_measured(self, row: Row) -> bool:
        """Whether the row has a run on each of the engines that are timed."""
        return all(self.runs(row, engine) for engine in (TENSORFLOW, COLD, CACHED))

    def median(self, row: Row, engine: Engine, take: Callable[[Run], float]) -> float:
        """Return the median over the runs, nan where there is none."""
        found = [take(run) for run in self.runs(row, engine)]
        return statistics.median(found) if found else math.nan

    def difference(self, row: Row, one: Engine, other: Engine) -> float:
        """Return the most by which 200 losses of two engines' first runs differ.

        It is in units of the first loss: losses that go to 0 have no digits to compare.  It is nan
        where a run is missing, and infinite where a loss is no number.
        """
        return self._difference(row, one, other, COMPARED)

    def first_difference(self, row: Row, one: Engine, other: Engine) -> float:
        """Return the same for the first few losses, before differences of the last bit grow."""
        return self._difference(row, one, other, _FIRST)

    def _difference(self, row: Row, one: Engine, other: Engine, most: int) -> float:
        ours, theirs = (
            [run.losses[:most] for run in self.runs(row, engine)[:1]] for engine in (one, other)
        )
        if not ours or not theirs:
            return math.nan
        count = min(len(ours[0]), len(theirs[0]))
        a, b = np.asarray(ours[0][:count]), np.asarray(theirs[0][:count])
        apart = np.abs(a - b) / abs(b[0])
        return float(np.max(np.where(np.isnan(apart), math.inf, apart)))
