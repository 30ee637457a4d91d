"""What becomes of workers in step when one is lost, goes another way, or comes twice."""

from __future__ import annotations

import subprocess

import pytest

from distribute.programs_in_processes import make_cluster, start_program
from real_time import within

pytestmark = [pytest.mark.processes, pytest.mark.timeout(60)]

_START = """
import sys, time
import tideflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = strategy.cluster_resolver.task_id

def reduce_all(x):
    return tf.distribute.get_replica_context().all_reduce("SUM", x)

add = tf.function(lambda x: strategy.run(reduce_all, (x,)))
assert float(add(tf.constant(1.0))) == 2.0
print("ready", flush=True)
def attempt(work):
    try:
        work()
    except tf.errors.OpError as error:
        print("raised", type(error).__name__, str(error).replace(chr(10), " "), flush=True)
"""
_FOR_EVER = (
    _START
    + """
def work():
    while True:
        add(tf.constant(1.0))
attempt(work)
"""
)
_SHAPES = _START + "attempt(lambda: add(tf.ones([rank + 1])))\n"
_TYPES = _START + "attempt(lambda: add(tf.ones([2], [tf.float32, tf.float64][rank])))\n"
# One member reduces first and gathers then, the other gathers first.
_ORDER = (
    _START
    + """
def gather_all(x):
    return tf.distribute.get_replica_context().all_gather(x, axis=0)
order = [reduce_all, gather_all] if rank == 0 else [gather_all, reduce_all]
attempt(lambda: [strategy.run(one, (tf.ones([2]),)) for one in order])
"""
)


def start_two(text: str) -> tuple[dict[str, list[str]], list[subprocess.Popen[str]]]:
    cluster = make_cluster(worker=2)
    return cluster, [start_program("-c", text, cluster=cluster, task=i) for i in range(2)]


def wait_ready(programs: list[subprocess.Popen[str]]) -> None:
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"


def end(programs: list[subprocess.Popen[str]]) -> None:
    for program in programs:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.real_time
def test_the_others_are_told_of_a_worker_that_is_killed(victim: int) -> None:
    cluster, programs = start_two(_FOR_EVER)
    try:
        wait_ready(programs)
        programs[victim].kill()
        survivor = programs[1 - victim]
        assert survivor.stdout is not None
        with within(4):
            raised, kind, *_ = survivor.stdout.readline().split()
        assert (raised, kind) in {("raised", "UnavailableError"), ("raised", "AbortedError")}
    finally:
        end(programs)
    again = [start_program("-c", _FOR_EVER, cluster=cluster, task=i) for i in range(2)]
    try:
        wait_ready(again)
        assert all(program.poll() is None for program in again)
    finally:
        end(again)


@pytest.mark.parametrize("text", [_SHAPES, _TYPES, _ORDER], ids=["shapes", "types", "order"])
def test_what_differs_between_members_is_told_with_their_names(text: str) -> None:
    _, programs = start_two(text)
    try:
        wait_ready(programs)
        told = []
        for program in programs:
            assert program.stdout is not None
            told.append(program.stdout.readline())
    finally:
        end(programs)
    assert all(one.startswith("raised ") for one in told)
    assert any("InvalidArgumentError" in one or "InternalError" in one for one in told)
    names = [f"/job:worker/replica:0/task:{task}" for task in range(2)]
    assert any(all(name in one for name in names) for one in told), told
    assert any("the same collectives in the same order" in one for one in told), told


def test_a_worker_that_comes_twice_is_refused() -> None:
    cluster, programs = start_two(_FOR_EVER)
    try:
        wait_ready(programs)
        # From another machine it has another address, but the same place.
        [other] = make_cluster(worker=1)["worker"]
        elsewhere = {"worker": [cluster["worker"][0], other]}
        twin = start_program("-c", _FOR_EVER, cluster=elsewhere, task=1)
        programs.append(twin)
        _, said = twin.communicate(timeout=30)
        assert twin.returncode == 1
        assert "AbortedError" in said
        assert "different incarnation" in said
    finally:
        end(programs)
