"""Generated programs do the same on TensorFlow and tideflow: 300 of them, on every pair of client
and cluster (see run.py for more of them)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from whole_programs.bench import Bench, differ, some_pairs
from whole_programs.generate import generate
from whole_programs.syntax import render

SEEDS = 300
CHUNK = 60

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.processes,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("whole-programs"),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="needs a real TensorFlow"
    ),
]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_generated_programs_give_what_they_give_on_tensorflow(bench: Bench, first: int) -> None:
    programs = {seed: generate(seed) for seed in range(first, first + CHUNK)}
    found = {}
    for outcome in bench.run_all(programs.values(), some_pairs):
        program = programs[outcome.seed]
        for pair, texts in outcome.differing().items():
            # What TensorFlow itself does not repeat says nothing.
            if not list(differ(outcome.notes[pair.reference], bench.run(program, pair.reference))):
                found[f"seed {outcome.seed}, {pair}"] = f"{texts[0]}\n{render(program)}"
    assert not found, "\n".join(f"{where}: {told}" for where, told in found.items())
