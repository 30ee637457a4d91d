"""Train while tasks are killed and stopped and their connections cut; see that it goes on.

    make chaos SEEDS=200
    PYTHONPATH=tests python -m chaos.run --first 7 --seeds 1 --verbose

Each run is a cluster of a ps and two workers, as processes of this machine that reach each other
through relays.  It fails unless all workers end well, the loss is reached, each checkpoint holds as
many counted steps as its global step says, nobody begins again before the last checkpoint, and the
ps forgets the sessions that were lost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tideflow.v1 as tf
from chaos.faults import SILENCE_S, TASKS, Fault, Kind, plan
from chaos.program import BULK, COUNTER, TRUTH
from chaos.proxy import Relay
from tideflow.cli.launcher import Death, Launcher, TaskId, local_cluster
from tideflow.cli.restarts import RestartPolicy
from tideflow.cluster import ClusterSpec
from tideflow.cluster.status import StatusService
from tideflow.transport import make_channel, stub
from tideflow.wire import messages as pb

_SOURCE = Path(__file__).parents[2] / "src"

STEPS = 240
TARGET_LOSS = 1e-3
LIMIT_S = 60.0
# How long sessions that are over may take to be forgotten.
TIDY_S = 15.0
_WORKERS = [task for task in TASKS if task.job == "worker"]


class ChaosError(AssertionError):
    """A run did not keep a promise."""


@dataclass
class Recovery:
    """A fault, and how long it took until all workers had made a step again."""

    fault: Fault
    took_s: float


@dataclass
class Result:
    """How a run went.

    Attributes:
      problem: why it failed; "" if it did not.
    """

    seed: int
    problem: str = ""
    took_s: float = 0.0
    step: int = 0
    loss: float = float("nan")
    recoveries: list[Recovery] = field(default_factory=list)

    def line(self) -> str:
        """Say it in a line."""
        state = f"FAILED: {self.problem}" if self.problem else "ok"
        faults = "; ".join(f"{r.fault}: {r.took_s:.2f} s" for r in self.recoveries)
        return f"seed {self.seed}: {state}, {self.took_s:.1f} s, loss {self.loss:.1e} | {faults}"


class ChaosRun:
    """One run; `await run()` gives the result."""

    def __init__(self, seed: int, directory: Path, verbose: bool = False) -> None:
        self.faults = plan(seed, STEPS)
        self._has_bulk = seed % 3 == 2
        self.result = Result(seed)
        self._checkpoints = directory / "checkpoints"
        self._may_end = directory / "may_end"
        self._verbose = verbose
        self._changed = asyncio.Event()
        self._steps: dict[TaskId, tuple[int, float]] = {}
        # Steps from which sessions began, with the checkpoint that was the last at the time.
        self._least_begin = -1
        self._said: list[str] = []
        cluster, self._relays = _make_cluster()
        self._ps_address = _address(cluster, TaskId("ps", 0))
        chaos = {
            "clusters": {str(task): self._seen_from(task, cluster) for task in TASKS},
            "steps": STEPS,
            "checkpoints": str(self._checkpoints),
            "may_end": str(self._may_end),
            "has_bulk": self._has_bulk,
        }
        self._launcher = Launcher(
            cluster,
            [sys.executable, str(Path(__file__).with_name("program.py"))],
            self._hear,
            {
                "CHAOS": json.dumps(chaos),
                "PYTHONPATH": str(_SOURCE),
                "TIDEFLOW_SILENCE_S": str(SILENCE_S),
                "TIDEFLOW_JIT": "never",
                "OMP_NUM_THREADS": "1",
            },
            RestartPolicy(most=20, first_pause_s=0.05, most_pause_s=0.2),
            self._note_death,
        )

    def _seen_from(self, task: TaskId, cluster: ClusterSpec) -> dict[str, list[str]]:
        """Return the cluster with the relays through which a task reaches the others."""
        return {
            job: [
                f"127.0.0.1:{self._relays[task, other].port}"
                if (other := TaskId(job, index)) != task
                else _address(cluster, task)
                for index in cluster.task_indices(job)
            ]
            for job in cluster.jobs
        }

    def _relays_of(self, task: TaskId) -> list[Relay]:
        return [relay for ends, relay in self._relays.items() if task in ends]

    async def run(self) -> Result:
        """Run to the end."""
        since_s = time.monotonic()
        try:
            async with asyncio.timeout(LIMIT_S):
                await self._train()
            self._check_checkpoints()
        except TimeoutError:
            self.result.problem = f"hangs: not over after {LIMIT_S:g} s"
        except ChaosError as error:
            self.result.problem = str(error)
        finally:
            for relay in self._relays.values():
                relay.close()
        self.result.took_s = time.monotonic() - since_s
        if self.result.problem:
            print("\n".join(self._said), file=sys.stderr)
        return self.result

    async def _train(self) -> None:
        for relay in self._relays.values():
            await relay.start()
        training = asyncio.ensure_future(self._launcher.run())
        spoiling = asyncio.ensure_future(self._spoil())
        try:
            await asyncio.wait([training, spoiling], return_when=asyncio.FIRST_COMPLETED)
            if spoiling.done():
                spoiling.result()
            outcome = await training
        finally:
            for task in (training, spoiling):
                task.cancel()
            await asyncio.gather(training, spoiling, return_exceptions=True)
        if outcome.code:
            raise ChaosError(f"{outcome.failed} ended with {outcome.code}")
        if not spoiling.done() or spoiling.cancelled():
            raise ChaosError("the training was over before all faults had come")
        if not self.result.loss < TARGET_LOSS:
            raise ChaosError(f"the loss is {self.result.loss}")

    # ---- what goes wrong

    async def _spoil(self) -> None:
        for fault in self.faults:
            await self._until(lambda at=fault.at_step: self.result.step >= at)
            checkpoint = tf.train.latest_checkpoint(str(self._checkpoints))
            self._least_begin = _step_of(checkpoint)
            self._say(f"-- {fault}; the last checkpoint is {checkpoint}")
            began_s = time.monotonic()
            for task in fault.tasks:
                self._begin(fault.kind, task)
            if fault.killed_later is not None:
                victim, after_s = fault.killed_later
                await asyncio.sleep(after_s)
                self._signal(victim, signal.SIGKILL)
                began_s = time.monotonic()
            if fault.lasts_s:
                await asyncio.sleep(fault.lasts_s)
                for task in fault.tasks:
                    self._end(fault.kind, task)
            await self._until(lambda since=began_s: self._all_moved(since + 0.05))
            took_s = max(self._steps[task][1] for task in _WORKERS) - began_s
            self.result.recoveries.append(Recovery(fault, took_s))
            self._say(f"-- recovered after {took_s:.2f} s")
        await self._until_tidy()
        self._may_end.touch()

    async def _until_tidy(self) -> None:
        """Wait until the ps has let go of all sessions but those of the two workers."""
        channel = make_channel(self._ps_address)
        page = stub(StatusService, channel)
        until_s = time.monotonic() + TIDY_S
        try:
            while True:
                status = await page.GetServerStatus(pb.ServerStatusRequest())
                if len(status.worker_session) <= len(_WORKERS):
                    return
                if time.monotonic() > until_s:
                    raise ChaosError(f"ps:0 keeps {len(status.worker_session)} sessions")
                await asyncio.sleep(0.1)
        finally:
            await channel.close()

    def _begin(self, kind: Kind, task: TaskId) -> None:
        if kind is Kind.KILL:
            self._signal(task, signal.SIGKILL)
        elif kind in (Kind.STOP, Kind.STOP_LONG):
            self._signal(task, signal.SIGSTOP)
        elif kind is Kind.CUT:
            for relay in self._relays_of(task):
                relay.cut()
        else:
            for relay in self._relays_of(task):
                relay.silence()

    def _end(self, kind: Kind, task: TaskId) -> None:
        if kind in (Kind.STOP, Kind.STOP_LONG):
            self._signal(task, signal.SIGCONT)
        else:
            for relay in self._relays_of(task):
                relay.speak()

    def _signal(self, task: TaskId, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has died and is about to come back
            self._launcher.process(task).send_signal(number)

    def _all_moved(self, since_s: float) -> bool:
        return all(self._steps.get(task, (0, 0.0))[1] > since_s for task in _WORKERS)

    async def _until(self, condition: Any) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    # ---- what is told

    def _hear(self, task: TaskId, line: str, is_error: bool) -> None:
        self._say(f"{task} | {line}")
        if is_error or not line.startswith("{"):
            return
        facts = json.loads(line)
        if "step" in facts:
            self._steps[task] = (facts["step"], facts["t"])
            self.result.step = facts["step"]
            self.result.loss = facts["loss"]
        if "begins_at" in facts and facts["begins_at"] < self._least_begin:
            self.result.problem = (
                f"{task} began at step {facts['begins_at']}, though there was a checkpoint of step "
                f"{self._least_begin}"
            )
        self._changed.set()

    def _note_death(self, death: Death) -> None:
        self._say(f"-- {death.task} died ({death.code}), restart {death.number}")
        if death.code != 128 + signal.SIGKILL and not self.result.problem:
            self.result.problem = f"{death.task} failed by itself with {death.code}"

    def _say(self, line: str) -> None:
        self._said.append(f"{time.monotonic():.3f} {line}")
        if self._verbose:
            print(self._said[-1], flush=True)

    # ---- what is left

    def _check_checkpoints(self) -> None:
        """See that each checkpoint holds as many counted steps as its global step says."""
        if self.result.problem:
            raise ChaosError(self.result.problem)
        state = tf.train.get_checkpoint_state(str(self._checkpoints))
        if state is None:
            raise ChaosError("there is no checkpoint")
        for path in state.all_model_checkpoint_paths:
            reader = tf.train.load_checkpoint(path)
            step, count = (int(reader.get_tensor(name)) for name in ("global_step", COUNTER))
            if step != count:
                raise ChaosError(f"{path} has global step {step}, but counted {count} steps")
            if self._has_bulk and np.ptp(reader.get_tensor(BULK)):
                raise ChaosError(f"{path} has half an update of {BULK}")
        if step < STEPS:
            raise ChaosError(f"the last checkpoint is of step {step}, not {STEPS}")
        error = abs(reader.get_tensor("weights")[:, 0] - TRUTH).max()
        if error > 0.05:
            raise ChaosError(f"the weights are wrong by up to {error}")


def _make_cluster() -> tuple[ClusterSpec, dict[tuple[TaskId, TaskId], Relay]]:
    """Return a cluster of the tasks, and a relay for each way from one to another."""
    ways = list(itertools.permutations(TASKS, 2))
    # All ports in one go, so that none is taken twice.
    found = local_cluster(1, 2 + len(ways)).as_dict()
    workers, spare = found["worker"][:2], found["worker"][2:]
    cluster = ClusterSpec({"ps": found["ps"], "worker": workers})
    relays = {
        (source, target): Relay(_port_of(address), _port_of(_address(cluster, target)))
        for (source, target), address in zip(ways, spare)
    }
    return cluster, relays


def _address(cluster: ClusterSpec, task: TaskId) -> str:
    return cluster.task_address(task.job, task.index)


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def _step_of(checkpoint: str | None) -> int:
    return -1 if checkpoint is None else int(checkpoint.rpartition("-")[2])


def run_seed(seed: int, verbose: bool = False) -> Result:
    """Run one seed in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="tideflow-chaos-") as directory:

        async def run() -> Result:
            return await ChaosRun(seed, Path(directory), verbose).run()

        return asyncio.run(run())


def recovery_table(results: Iterable[Result]) -> str:
    """Return how long recoveries took, by kind of fault."""
    times: dict[str, list[float]] = {}
    for result in results:
        for recovery in result.recoveries:
            times.setdefault("all", []).append(recovery.took_s)
            times.setdefault(recovery.fault.kind.value, []).append(recovery.took_s)
    lines = [f"{'recovery from':<26}{'times':>6}{'median s':>10}{'worst s':>9}"]
    for kind, found in sorted(times.items()):
        median = statistics.median(found)
        lines.append(f"{kind:<26}{len(found):>6}{median:>10.2f}{max(found):>9.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--verbose", action="store_true", help="show what the tasks say")
    parser.add_argument("--json", action="store_true", help="print results as JSON")
    options = parser.parse_args()
    results = []
    for seed in range(options.first, options.first + options.seeds):
        results.append(run_seed(seed, options.verbose))
        print(
            json.dumps(dataclasses.asdict(results[-1]), default=str)
            if options.json
            else results[-1].line(),
            flush=True,
        )
    failed = [result.seed for result in results if result.problem]
    if not options.json:
        print(recovery_table(results))
        print(f"{len(results) - len(failed)} of {len(results)} runs kept all promises")
    if failed:
        sys.exit(f"failed seeds: {', '.join(map(str, failed))}")


if __name__ == "__main__":
    main()
