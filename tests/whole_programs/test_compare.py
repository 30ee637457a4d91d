"""What programs note is compared as values, types and classes of errors, without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from whole_programs.at import At, run
from whole_programs.bench import (
    ALONE,
    LOCAL,
    PAIRS,
    REFERENCES,
    Outcome,
    Pair,
    differ,
    every_pair,
    some_pairs,
)
from whole_programs.generate import generate
from whole_programs.syntax import Program, Statement


def notes(program: Callable[[Any, At], Any], directory: Path) -> list[Any]:
    return run(tf, "v1", program, At(tf, "test", str(directory)))


def failing(error: Exception) -> Callable[..., Any]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: np.float32(1), lambda: np.float64(1)),
        (lambda: [1, 2], lambda: (1, 2)),
        (lambda: np.float32([1, 2]), lambda: np.float32([1, 2.01])),
        (lambda: None, lambda: 0),
        (failing(ValueError("a")), failing(TypeError("a"))),
        (failing(ValueError("a")), lambda: 1),
    ],
)
def test_what_differs_is_told(one: Any, other: Any, tmp_path: Path) -> None:
    first, second = (notes(lambda tf, at, f=f: at.note(f), tmp_path) for f in (one, other))
    assert list(differ(first, second))
    assert not list(differ(first, first))


def test_texts_of_errors_are_told_and_not_compared(tmp_path: Path) -> None:
    one, other = (
        notes(lambda tf, at, text=text: at.note(failing(ValueError(text))), tmp_path)
        for text in ("here", "there")
    )
    assert not list(differ(one, other))
    assert "there" in "".join(differ([1], other))


def test_a_program_that_fails_ends_there_and_notes_it(tmp_path: Path) -> None:
    def program(tf: Any, at: At) -> None:
        at.note(tf.constant(1).shape.as_list)
        tf.reshape([1.0, 2.0], [3])
        at.note(lambda: "unseen")

    found = notes(program, tmp_path)
    assert len(found) == 2
    assert found[1]["failed"]["error"] == "ValueError"


def test_each_pair_is_compared_with_tensorflow_alone_and_has_its_share_of_seeds() -> None:
    assert {pair.reference for pair in PAIRS} == set(REFERENCES)
    shares = [pair for seed in range(700) for pair in some_pairs(generate(seed))]
    assert {shares.count(pair) for pair in PAIRS if pair.cluster == LOCAL} == {700}
    assert min(shares.count(pair) for pair in PAIRS) > 60


def program(text: str) -> Program:
    return Program(0, "v2", (Statement(text),))


def test_a_program_that_uses_no_cluster_runs_without_one() -> None:
    assert [pair.cluster for pair in some_pairs(program("at.note(lambda: 1)"))] == [LOCAL]
    placed = program('with tf.device(at.device("/job:ps/task:0")): pass')
    assert len(some_pairs(placed)) == 2
    assert every_pair(placed) == PAIRS


def test_tensorflow_on_a_cluster_is_asked_only_about_what_it_notes_otherwise_without_one() -> None:
    on_cluster = Pair("tideflow", "tideflow")
    outcome = Outcome(0, {ALONE: [1], on_cluster: [1]})
    assert not outcome.unsettled()
    assert not outcome.differing()
    outcome.notes[on_cluster] = [2]
    assert outcome.unsettled() == {on_cluster.reference}
    outcome.notes[on_cluster.reference] = [2]
    assert not outcome.unsettled()
    assert not outcome.differing()
    outcome.notes[on_cluster.reference] = [3]
    assert list(outcome.differing()) == [on_cluster]
