"""A program that hangs is ended, and says where it hung; those after it run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from whole_programs.bench import LOCAL, PROGRAM_TIMEOUT_S, Bench, Pair

pytestmark = [pytest.mark.processes, pytest.mark.timeout(200)]

HANGS = """
def program(tf, at):
    import threading
    threading.Event().wait()
"""
RUNS = """
def program(tf, at):
    with tf.Session(at.target(), config=at.config()) as sess:
        at.note(sess.run, tf.constant(1))
"""
DIES = """
def program(tf, at):
    import os
    os.abort()
"""


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def test_a_program_that_hangs_tells_where_it_does_and_the_next_one_runs(bench: Bench) -> None:
    pair = Pair("tideflow", "tideflow")
    bench.limit_s = 1.0
    (note,) = bench.run_source("v1", "hangs", HANGS, pair)
    assert note["failed"]["error"] == "NoAnswerError"
    client, _, servers = note["failed"]["text"].partition("--- worker:0")
    assert "line 4 in program" in client
    assert "serve.py" in servers
    bench.limit_s = PROGRAM_TIMEOUT_S
    assert bench.run_source("v1", "next", RUNS, pair) == [1]


def test_a_program_that_ends_its_process_tells_where_and_the_next_one_runs(bench: Bench) -> None:
    pair = Pair("tideflow", LOCAL)
    (note,) = bench.run_source("v1", "dies", DIES, pair)
    assert note["failed"]["error"] == "Unexpected"
    assert "line 4 in program" in note["failed"]["text"]
    assert bench.run_source("v1", "next", RUNS, pair) == [1]
