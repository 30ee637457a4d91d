"""Train with strategies while their workers are killed; see that it goes on.

    make chaos SEEDS=200
    PYTHONPATH=tests python -m chaos.strategies --first 7 --seeds 1 --verbose

A coordinator's run is a ps, two workers and a coordinator; a worker is killed and started again.
It fails unless the coordinator takes the worker up again, no step is lost and the loss is reached.
A run in step is two workers that add up their gradients; one kills itself in a step.  It fails
unless the other one is told in time, and both, started again, end with the numbers of a run without
faults.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from chaos.strategies_program import RATE, SAVE_STEPS, SIZE, TRUTH, batch_of
from cluster.servers import ServerProcess, make_environment, make_spec

_PROGRAM = Path(__file__).with_name("strategies_program.py")
_TESTS = Path(__file__).parents[1]

COORDINATED_STEPS = 80
STEPS = 40
TARGET_LOSS = 0.05
TOLD_WITHIN_S = 2.0
LIMIT_S = 90.0

Facts = dict[str, Any]


class Programs:
    """Programs of a run, and what they tell; all are gone at the end.

    Args:
      verbose: print what they tell.
    """

    def __init__(self, verbose: bool = False) -> None:
        self._verbose = verbose
        self._until_s = time.monotonic() + LIMIT_S
        self._told: queue.Queue[tuple[str, Facts]] = queue.Queue()
        self._processes: list[subprocess.Popen[str]] = []
        self._said: dict[str, list[str]] = {}

    def __enter__(self) -> Programs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def start(
        self, cluster: Mapping[str, list[str]], job: str, index: int, chaos: Facts
    ) -> subprocess.Popen[str]:
        """Start the program as a task."""
        environment = make_environment()
        environment["PYTHONPATH"] = os.pathsep.join([environment["PYTHONPATH"], str(_TESTS)])
        place = {"cluster": cluster, "task": {"type": job, "index": index}}
        process = subprocess.Popen(
            [sys.executable, str(_PROGRAM)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**environment, "TF_CONFIG": json.dumps(place), "CHAOS": json.dumps(chaos)},
        )
        self._processes.append(process)
        threading.Thread(target=self._read, args=(f"{job}:{index}", process), daemon=True).start()
        return process

    def _read(self, task: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                if self._verbose:
                    print(f"{task} | {line}", end="", flush=True)
                self._said.setdefault(task, []).append(line)
                if line.startswith("{"):
                    self._told.put((task, json.loads(line)))
        self._told.put((task, {"ended": process.wait()}))

    def hear(self) -> tuple[str, Facts]:
        """Return the next that a task tells; {"ended": exit code} comes last of each."""
        try:
            return self._told.get(timeout=max(0.0, self._until_s - time.monotonic()))
        except queue.Empty:
            raise AssertionError(f"the run hangs; {self.said()}") from None

    def said(self) -> str:
        """Return the last lines of each task."""
        return "\n".join(
            f"{task} said:\n{''.join(lines[-15:])}" for task, lines in self._said.items()
        )


# ---- a coordinator


class CoordinatedRun:
    """The servers of a coordinator, and its program."""

    def __init__(self, programs: Programs, directory: Path, workers: int) -> None:
        self._programs = programs
        self._may_end = directory / "may_end"
        self.spec = make_spec({"chief": 1, "ps": 1, "worker": workers})
        places = [("ps", 0), *(("worker", i) for i in range(workers))]
        with ThreadPoolExecutor() as pool:
            started = pool.map(lambda place: ServerProcess(self.spec, *place), places)
            self._servers = dict(zip(places, started))
        chaos = {"steps": COORDINATED_STEPS, "may_end": str(self._may_end)}
        programs.start(self.spec, "chief", 0, chaos)

    def kill(self, job: str, index: int) -> None:
        """Kill a server at once."""
        self._servers[job, index].kill()

    def start(self, job: str, index: int) -> None:
        """Start a server that was killed."""
        self._servers[job, index] = ServerProcess(self.spec, job, index)

    def let_end(self) -> None:
        """Let the coordinator end once it has made enough steps."""
        self._may_end.touch()

    def wait_for(self, found: Callable[[Facts], bool]) -> Facts:
        """Return the first facts of a kind that the coordinator tells."""
        while True:
            _, facts = self._programs.hear()
            if found(facts):
                return facts
            assert "failed" not in facts, f"{facts}; {self._programs.said()}"
            assert "ended" not in facts, f"ended with {facts['ended']}; {self._programs.said()}"

    def close(self) -> None:
        for server in self._servers.values():
            server.close()


def run_coordinated(seed: int, verbose: bool = False) -> Facts:
    """Kill a worker of a coordinator at a step and start it again; return how the training ended.

    Raises: AssertionError if the worker is not taken up again, or the coordinator fails or hangs.
    """
    chance = random.Random(seed)
    victim, at_step = chance.randrange(2), chance.randrange(1, COORDINATED_STEPS)
    with tempfile.TemporaryDirectory() as directory, Programs(verbose) as programs:
        run = CoordinatedRun(programs, Path(directory), workers=2)
        with contextlib.closing(run):
            streams = {run.wait_for(lambda told: told.get("step", 0) >= 1)["stream"]}
            told = run.wait_for(lambda told: told.get("step", 0) >= at_step)
            streams.add(told["stream"])
            run.kill("worker", victim)
            run.start("worker", victim)
            # The two made the streams 0 and 1; the next one is made by the worker that is back.
            run.wait_for(lambda told: told.get("stream", 0) >= 2)
            run.let_end()
            return run.wait_for(lambda told: "applied" in told)


def run_without_ps(verbose: bool = False) -> Facts:
    """Kill the ps of a coordinator; return the error that it tells, with the time in told_s."""
    with tempfile.TemporaryDirectory() as directory, Programs(verbose) as programs:
        run = CoordinatedRun(programs, Path(directory), workers=1)
        with contextlib.closing(run):
            run.wait_for(lambda told: told.get("step", 0) >= 10)
            run.kill("ps", 0)
            killed_s = time.monotonic()
            told = run.wait_for(lambda told: "failed" in told)
            return {**told, "told_s": told["t"] - killed_s}


# ---- workers in step


def expected_losses() -> list[float]:
    """Return the losses of the steps of a run without faults."""
    weights, losses = np.zeros([SIZE, 1], np.float32), []
    for step in range(STEPS):
        x = batch_of(step)
        error = x @ weights - x @ TRUTH
        losses.append(float(np.mean(error**2)))
        weights -= RATE * 2 * x.T @ error / len(x)
    return losses


def run_in_step(seed: int, verbose: bool = False) -> Facts:
    """Kill a worker in a step, start both again; return how the training ended.

    Attributes of the result: told_s, how long until the other one raised an error; begins_at, where
    both began again; losses, by step; and what the first worker told at its end.
    Raises: AssertionError for anything that went wrong on the way.
    """
    chance = random.Random(seed)
    victim, dies_at = chance.randrange(2), chance.randrange(STEPS - 1)
    dies_after_s = chance.uniform(0.0, 0.003)
    has_bulk = seed % 2 == 1
    cluster = make_spec({"worker": 2})
    losses: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as directory, Programs(verbose) as programs:

        def attempt(chaos_of: Callable[[int], Facts]) -> dict[str, Facts]:
            """Run both; return what each told that was no step."""
            common = {"checkpoints": directory, "steps": STEPS, "has_bulk": has_bulk}
            for i in range(2):
                programs.start(cluster, "worker", i, {**common, **chaos_of(i)})
            found: dict[str, Facts] = {"worker:0": {}, "worker:1": {}}
            while not all("ended" in facts for facts in found.values()):
                task, told = programs.hear()
                if "step" in told:
                    before = losses.setdefault(told["step"], told["loss"])
                    assert abs(told["loss"] - before) < 1e-5, f"step {told['step']} is another"
                else:
                    found[task] |= told | {f"{key}_t": told["t"] for key in told if "t" in told}
            return found

        alive = {"dies_at": -1, "dies_after_s": 0.0}
        dying = {"dies_at": dies_at, "dies_after_s": dies_after_s}
        found = attempt(lambda i: dying if i == victim else alive)
        dead, survivor = found[f"worker:{victim}"], found[f"worker:{1 - victim}"]
        assert dead["ended"] == -signal.SIGKILL, programs.said()
        assert survivor["ended"] == 1, programs.said()
        assert survivor.get("failed") in ("UnavailableError", "AbortedError"), programs.said()
        told_s = survivor["failed_t"] - dead["dies_at_t"] - dies_after_s
        found = attempt(lambda i: alive)
        assert [one["ended"] for one in found.values()] == [0, 0], programs.said()
        begins_at = {one["begins_at"] for one in found.values()}
        # The first worker may have died before it had written the last one.
        last = dies_at // SAVE_STEPS * SAVE_STEPS
        assert begins_at <= {last, max(0, last - SAVE_STEPS), last + SAVE_STEPS}, begins_at
        assert len(begins_at) == 1, begins_at
        summed = 2 * STEPS
        assert found["worker:0"]["bulk"] == found["worker:1"]["bulk"] == [summed, summed]
        return {**found["worker:0"], "told_s": told_s, "losses": losses, "dies_at": dies_at}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many runs of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--verbose", action="store_true", help="show what the tasks say")
    options = parser.parse_args()
    failed = []
    for seed in range(options.first, options.first + options.seeds):
        for kind, check in (("coordinated", check_coordinated), ("in step", check_in_step)):
            began_s = time.monotonic()
            try:
                said = check(seed, options.verbose)
            except AssertionError as error:
                failed.append(f"{kind} {seed}")
                said = f"FAILED: {error}"
            print(f"{kind}, seed {seed}: {said}, {time.monotonic() - began_s:.1f} s", flush=True)
    print(f"{2 * options.seeds - len(failed)} of {2 * options.seeds} runs kept all promises")
    if failed:
        sys.exit(f"failed runs: {', '.join(failed)}")


def check_coordinated(seed: int, verbose: bool = False) -> str:
    """Run a seed and see that it kept its promises; return how it went."""
    end = run_coordinated(seed, verbose)
    assert end["applied"] >= end["scheduled"] >= COORDINATED_STEPS, end
    assert end["loss"] < TARGET_LOSS, end
    return f"ok, {end['applied']} steps for {end['scheduled']}, loss {end['loss']:.1e}"


def check_in_step(seed: int, verbose: bool = False) -> str:
    """Run a seed and see that it kept its promises; return how it went."""
    end = run_in_step(seed, verbose)
    assert end["told_s"] < TOLD_WITHIN_S, end
    assert end["applied"] == STEPS, end
    found = [end["losses"][step] for step in range(STEPS)]
    np.testing.assert_allclose(found, expected_losses(), atol=1e-4)
    assert found[-1] < TARGET_LOSS
    return f"ok, told after {end['told_s']:.2f} s, went on from step {end['begins_at']}"


if __name__ == "__main__":
    main()
