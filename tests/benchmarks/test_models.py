"""The models of the benchmarks train alike in every shape of program."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import numpy as np
import pytest
from benchmarks.models.__main__ import HEADS, ROWS, Result, Run
from benchmarks.models.networks import NETWORKS
from benchmarks.models.training import SHAPES
from benchmarks.processes import Process

import tideflow as tf2
import tideflow.v1 as tf1
from tideflow.eager.eager_graph import disable_eager_execution, enable_eager_execution

# Importing the front door has made operations eager.
disable_eager_execution()


@pytest.fixture
def eager() -> Iterator[None]:
    enable_eager_execution()
    yield
    disable_eager_execution()


def losses(model: str, shape: str, steps: int = 3) -> list[float]:
    network = NETWORKS[model]()
    first = next(network.batches())
    batches = itertools.islice(network.batches(), steps)
    if shape == "session":
        with tf1.Graph().as_default():
            step = SHAPES[shape](tf1, network, "", first)
            return [step(one) for one in batches]
    step = SHAPES[shape](tf2, network, "", first)
    return [step(one) for one in batches]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("model", ["small-mlp", "lenet", "lstm", "recommender"])
def test_sessions_functions_and_eager_programs_have_the_same_losses(model: str) -> None:
    found = {shape: losses(model, shape) for shape in ("session", "function", "eager")}
    np.testing.assert_allclose(found["function"], found["session"], rtol=1e-4)
    np.testing.assert_allclose(found["eager"], found["session"], rtol=1e-4)
    assert len(set(found["session"])) == 3, "nothing was trained"


def test_every_row_is_a_known_model_in_a_known_shape() -> None:
    assert {row.model for row in ROWS} == set(NETWORKS)
    assert {row.shape for row in ROWS} == set(SHAPES)
    assert len({row.title for row in ROWS}) == len(ROWS)


def test_a_row_tells_ratios_and_the_greatest_difference_of_losses() -> None:
    base = Run([1.0] + [0.01] * 299, [2.0, 1.0], [0.01], 4.0, 10 << 20)
    ours = Run([0.5] + [0.02] * 299, [2.0, 1.1], [0.02], 2.0, 20 << 20)
    cells = dict(zip(HEADS, Result(ROWS[0], [base], [ours], [ours]).cells(), strict=True))
    assert cells["ratio (target)"] == "2.00 (1)"
    assert cells["cold (target)"] == f"{2.48 / 1.99:.2f} (1.2)"
    assert cells["CPU, cold"] == "0.50"
    assert cells["memory, MiB: both"] == "10, 20"
    assert cells["losses differ by"] == "1e-01"


@pytest.mark.processes
def test_a_process_tells_what_its_steps_took() -> None:
    told = {"shape": "eager", "model": "small-mlp", "steps": 2, "warm_s": 0.0, "hot_s": 0.0}
    client = Process("train", "tideflow", json.dumps(told), module="benchmarks.models.client")
    try:
        client.answer("loaded")
        client.tell("")
        found = Run(**json.loads(client.answer("{")))
    finally:
        client.close()
    assert len(found.steps) == len(found.losses) == 2
    assert found.hot
    assert found.first_100_s == sum(found.steps)
    assert found.memory > 0
