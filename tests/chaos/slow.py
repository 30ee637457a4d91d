"""Train while tasks are stopped, and starved of processors; see that nothing is lost.

    make chaos SEEDS=200
    PYTHONPATH=tests python -m chaos.slow --first 7 --seeds 1 --verbose

Each run is a cluster of a ps and two workers, as processes of this machine.  A seed decides who is
stopped (SIGSTOP), or when eight busy processes for each processor are started, and for how long: up
to a minute, which is six times what the host of a peer may be silent.  A run fails unless every
worker trains in its one session to the end, and each step that was made is told of once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import enum
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tideflow.v1 as tf
from chaos.faults import TASKS
from chaos.program import COUNTER
from tideflow.cli.launcher import Launcher, TaskId, local_cluster

_SOURCE = Path(__file__).parents[2] / "src"
_BUSY_FOR_EACH_PROCESSOR = 8
STEPS = 120
_CHIEF = TaskId("worker", 0)


class Kind(enum.Enum):
    """Why tasks are slow."""

    STOPPED = "stopped"
    STARVED = "starved"


@dataclass(frozen=True)
class Scale:
    """How slow tasks get.

    Attributes:
      silence_s: how long the host of a peer may be silent; None for the default.
      least_s, most_s: how long tasks are slow.
      limit_s: when a run hangs.
    """

    silence_s: float | None
    least_s: float
    most_s: float
    limit_s: float


SHORT = Scale(0.4, 0.5, 2.5, 60.0)
LONG = Scale(None, 1.0, 60.0, 600.0)


@dataclass(frozen=True)
class Spell:
    """A while in which tasks are slow.

    Attributes:
      tasks: which; none where all are starved.
      at_step: once the training has made so many steps.
    """

    kind: Kind
    tasks: tuple[TaskId, ...]
    at_step: int
    lasts_s: float

    def __str__(self) -> str:
        names = " and ".join(map(str, self.tasks)) or "all"
        return f"{names} {self.kind.value} for {self.lasts_s:.1f} s at step {self.at_step}"


def plan(seed: int, scale: Scale) -> list[Spell]:
    """Return the spells of a run.  The first seeds begin with each task alone."""
    chance = random.Random(seed)
    count = chance.randint(2, 3)
    found = []
    for number in range(count):
        at_step = chance.randrange(STEPS // count // 4, STEPS // count) + number * STEPS // count
        lasts_s = chance.uniform(scale.least_s, scale.most_s)
        tasks: tuple[TaskId, ...] = tuple(chance.sample(TASKS, chance.randint(1, 3)))
        if not number:
            tasks = (TASKS[seed % len(TASKS)],)
        elif chance.random() < 0.3:
            tasks = ()
        kind = Kind.STOPPED if tasks else Kind.STARVED
        found.append(Spell(kind, tasks, at_step, lasts_s))
    return found


@dataclass
class Result:
    """How a run went.

    Attributes:
      problem: why it failed; "" if it did not.
      told: how many steps the workers told of.
      counted: how many the last checkpoint counts.
      waited: how often the log said that a task is waited for.
    """

    seed: int
    spells: list[Spell]
    problem: str = ""
    told: int = 0
    counted: int = 0
    waited: int = 0
    took_s: float = 0.0
    said: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Say it in a line."""
        state = f"FAILED: {self.problem}" if self.problem else "ok"
        return (
            f"slow, seed {self.seed}: {state}, {self.took_s:.1f} s, {self.counted} steps, "
            f"{self.waited} words of waiting | {'; '.join(map(str, self.spells))}"
        )


class SlowRun:
    """One run; `await run()` gives the result."""

    def __init__(self, seed: int, scale: Scale, directory: Path, verbose: bool) -> None:
        self.result = Result(seed, plan(seed, scale))
        self._scale = scale
        self._verbose = verbose
        self._checkpoints = directory / "checkpoints"
        self._may_end = directory / "may_end"
        self._changed = asyncio.Event()
        self._step = 0
        self._sessions: list[TaskId] = []
        # The chief saves the last checkpoint when it ends; the other worker may make more steps.
        self._told_since_chief = 0
        cluster = local_cluster(1, 2)
        chaos = {
            "clusters": {str(task): cluster.as_dict() for task in TASKS},
            "steps": STEPS,
            "checkpoints": str(self._checkpoints),
            "may_end": str(self._may_end),
            "has_bulk": seed % 3 == 2,
        }
        environment = {
            "CHAOS": json.dumps(chaos),
            "PYTHONPATH": str(_SOURCE),
            "TIDEFLOW_JIT": "never",
            # In every other run all goes by TCP.
            "TIDEFLOW_SHARED_MEMORY": "off" if seed % 2 else "on",
            "OMP_NUM_THREADS": "1",
        }
        if scale.silence_s is not None:
            environment["TIDEFLOW_SILENCE_S"] = str(scale.silence_s)
        program = str(Path(__file__).with_name("program.py"))
        self._launcher = Launcher(cluster, [sys.executable, program], self._hear, environment)

    async def run(self) -> Result:
        """Run to the end."""
        since_s = time.monotonic()
        slowing = asyncio.ensure_future(self._slow_down())
        try:
            async with asyncio.timeout(self._scale.limit_s):
                outcome = await self._launcher.run()
            if outcome.code:
                self.result.problem = f"{outcome.failed} ended with {outcome.code}"
            elif not slowing.done():
                self.result.problem = "the training was over before all spells had come"
            else:
                self._compare()
        except TimeoutError:
            self.result.problem = f"hangs: not over after {self._scale.limit_s:g} s"
        finally:
            slowing.cancel()
            await asyncio.gather(slowing, return_exceptions=True)
        self.result.took_s = time.monotonic() - since_s
        return self.result

    async def _slow_down(self) -> None:
        for spell in self.result.spells:
            await self._until_step(spell.at_step)
            self._say(f"-- {spell}")
            with stopped(self._launcher, spell.tasks) if spell.tasks else starved():
                await asyncio.sleep(spell.lasts_s)
        self._may_end.touch()

    async def _until_step(self, step: int) -> None:
        while self._step < step:
            self._changed.clear()
            await self._changed.wait()

    def _hear(self, task: TaskId, line: str, is_error: bool) -> None:
        self._say(f"{task} | {line}")
        self.result.waited += "waited for" in line
        if is_error or not line.startswith("{"):
            return
        facts = json.loads(line)
        if "begins_at" in facts:
            self._sessions.append(task)
        if "step" in facts:
            self._step = max(self._step, facts["step"])
            self.result.told += 1
            self._told_since_chief = 0 if task == _CHIEF else self._told_since_chief + 1
            self._changed.set()

    def _compare(self) -> None:
        """See that there was one session for each worker, and that no step is missing."""
        path = tf.train.latest_checkpoint(str(self._checkpoints))
        reader = tf.train.load_checkpoint(path)
        step, counted = (int(reader.get_tensor(name)) for name in ("global_step", COUNTER))
        self.result.counted = counted
        if len(self._sessions) != 2:
            self.result.problem = f"there were sessions of {', '.join(map(str, self._sessions))}"
        elif step != counted or not 0 <= self.result.told - counted <= self._told_since_chief:
            self.result.problem = (
                f"{self.result.told} steps were told of, {self._told_since_chief} of them after "
                f"the chief's last; {counted} were counted, and the global step is {step}"
            )

    def _say(self, line: str) -> None:
        self.result.said.append(f"{time.monotonic():.3f} {line}")
        if self._verbose:
            print(self.result.said[-1], flush=True)


@contextlib.contextmanager
def stopped(launcher: Launcher, tasks: tuple[TaskId, ...]) -> Iterator[None]:
    """Have tasks stand still."""
    processes = [launcher.process(task) for task in tasks]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def starved() -> Iterator[None]:
    """Keep all processors of this machine busy."""
    count = _BUSY_FOR_EACH_PROCESSOR * len(os.sched_getaffinity(0))
    command = [sys.executable, "-S", "-c", "while True: pass"]
    busy: list[Any] = []
    try:
        busy += [subprocess.Popen(command) for _ in range(count)]
        yield
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()


def run_seed(seed: int, scale: Scale, verbose: bool = False) -> Result:
    """Run one seed in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="tideflow-slow-") as directory:

        async def run() -> Result:
            return await SlowRun(seed, scale, Path(directory), verbose).run()

        return asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--short", action="store_true", help="spells of seconds, as in the tests")
    parser.add_argument("--verbose", action="store_true", help="show what the tasks say")
    options = parser.parse_args()
    failed = []
    for seed in range(options.first, options.first + options.seeds):
        result = run_seed(seed, SHORT if options.short else LONG, options.verbose)
        print(result.line(), flush=True)
        if result.problem:
            failed.append(str(seed))
    print(f"{options.seeds - len(failed)} of {options.seeds} runs lost nothing")
    if failed:
        sys.exit(f"failed seeds: {', '.join(failed)}")


if __name__ == "__main__":
    main()
