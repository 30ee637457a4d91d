"""The models of the benchmarks train alike in every shape of program, and their tables say how."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.models import bare, tables
from benchmarks.models.__main__ import main
from benchmarks.models.compiling import CompilingProcess
from benchmarks.models.networks import NETWORKS
from benchmarks.models.results import Results
from benchmarks.models.rows import ROWS, Row, chosen
from benchmarks.models.runs import (
    CACHED,
    COLD,
    JAX,
    SMALL_TENSORFLOW,
    SMALL_TIDEFLOW,
    TENSORFLOW,
    Effort,
    Run,
    train,
)
from benchmarks.models.training import SHAPES
from benchmarks.report import PAGE

import tideflow as tf2
import tideflow.v1 as tf1
from tideflow.eager.eager_graph import disable_eager_execution, enable_eager_execution

# Importing the front door has made operations eager.
disable_eager_execution()

_CPU = "The first 100 steps, processor time of client and servers"
_PERCENTILE = "Of the first 300 steps, the {}th percentile"
_MEMORY = "The most memory"
ROW = Row("cnn", "session", 1.0)


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


@pytest.mark.parametrize(("model", "times"), [("loop", 0.999**1000), ("chain", 2.0)])
def test_what_is_not_trained_is_computed_in_a_session(model: str, times: float) -> None:
    batches = itertools.islice(NETWORKS[model]().batches(), 3)
    wanted = [times * float(np.mean(one["floats"])) for one in batches]
    np.testing.assert_allclose(losses(model, "session"), wanted, rtol=1e-4)


def test_every_row_is_a_known_model_in_a_known_shape() -> None:
    assert {row.model for row in ROWS} == set(NETWORKS)
    assert {row.shape for row in ROWS} == set(SHAPES)
    assert len({row.title for row in ROWS}) == len(ROWS)


def test_rows_are_chosen_by_a_part_of_their_name() -> None:
    assert [row.title for row in chosen(["lenet ps", "chain"])] == ["lenet ps", "chain session"]
    assert chosen([]) == list(ROWS)
    with pytest.raises(SystemExit, match="no row is named nonsense"):
        chosen(["nonsense"])


def run_of(step_s: float, first_s: float, loss: float = 1.0, mib: int = 10) -> Run:
    """Return a run of 300 steps; each takes twice its time of processors."""
    steps = [first_s, *[step_s] * 299]
    most = (100 + mib) << 20
    return Run(steps, [2 * s for s in steps], [2.0, *[loss] * 299], [step_s], most, 100 << 20)


def measured(**cold: float) -> Results:
    """Return the results of a row, with a cold run that begins as fast as it goes on."""
    results = Results()
    results.add(ROW, TENSORFLOW, run_of(0.01, 1.0))
    results.add(ROW, COLD, replace(run_of(0.02, 0.02, mib=20), **cold))
    results.add(ROW, CACHED, run_of(0.004, 0.004))
    return results


def lines(results: Results, title: str, *rows: Row) -> list[str]:
    """Return the table with a title, as lines, without the rule below its head."""
    (found,) = [one for one in tables.sections(results, rows, 300) if title == one.title]
    head, _, *rest = found.as_markdown().splitlines()[2:]
    return [head, *rest]


def test_a_table_tells_times_ratio_target_and_whether_it_is_met() -> None:
    assert lines(measured(), "A hot step", ROW) == [
        "|  | TensorFlow | tideflow | ratio | target | met |",
        "| cnn session | 10 ms | 20 ms | 2.00 | 1 | no |",
    ]


def test_the_first_100_steps_are_compared_cold_and_from_a_cache() -> None:
    assert lines(measured(), "The first 100 steps", ROW)[1] == (
        "| cnn session | 1.99 s | 2 s | 1.01 | 1.2 | yes | 400 ms | 0.20 | 0.8 | yes |"
    )
    assert lines(measured(), _CPU, ROW)[1] == (
        "| cnn session | 3.98 s | 4 s | 1.01 | 800 ms | 0.20 |"
    )


def test_percentiles_and_memory_have_tables() -> None:
    assert (
        lines(measured(), _PERCENTILE.format(50), ROW)[1]
        == "| cnn session | 10 ms | 20 ms | 2.00 | 4 ms | 0.40 |"
    )
    slow = measured(steps=[0.02] * 290 + [0.5] * 10)
    assert (
        lines(slow, _PERCENTILE.format(99), ROW)[1]
        == "| cnn session | 10 ms | 500 ms | 50.00 | 4 ms | 0.40 |"
    )
    assert lines(measured(), _MEMORY, ROW)[1] == (
        "| cnn session | 110 | 120 | 1.09 | 1 | no | 10 | 20 | 2.00 |"
    )


def test_the_process_that_compiles_counts_from_when_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "begins.lock").write_text("")
    (tmp_path / "ended.lock").write_text("0")
    assert CompilingProcess(str(tmp_path)).memory == CompilingProcess(None).memory == 0
    (tmp_path / "serves.lock").write_text(f"{os.getpid()}\n")
    found = CompilingProcess(str(tmp_path))
    assert found.memory > 1 << 20
    assert found.cpu_s() == 0.0


def test_what_is_not_measured_or_not_aimed_at_is_a_dash() -> None:
    missing = Row("lenet", "ps", 0.7)
    assert lines(measured(), "A hot step", ROW, missing)[2] == "| lenet ps | - | - | - | 0.7 | - |"
    eager = Row("cnn", "session", 0.3, None, None)
    assert lines(measured(), "The first 100 steps", eager)[1] == (
        "| cnn session | 1.99 s | 2 s | 1.01 | - | - | 400 ms | 0.20 | - | - |"
    )
    # A run that was too slow for 100 steps has no time of them.
    short = measured(steps=[0.02] * 50)
    assert (
        "| cnn session | 1.99 s | - | - | 1.2 | - |" in lines(short, "The first 100 steps", ROW)[1]
    )


@pytest.mark.parametrize(
    ("own_rate", "small_rate", "verdict"),
    [
        (1.0, 1.0, "yes"),
        (1.1, 1.0, "at 0.01 of the rate"),
        (1.0, 1.1, "no"),
        (math.nan, 1.0, "no"),
    ],
)
def test_losses_are_compared_at_the_model_s_rate_and_at_a_small_one(
    own_rate: float, small_rate: float, verdict: str
) -> None:
    results = measured(losses=[2.0, *[own_rate] * 299])
    assert tables.losses(results, [ROW], 300).rows[0][-1] == "-"
    results.add(ROW, SMALL_TENSORFLOW, run_of(0.01, 0.01))
    results.add(ROW, SMALL_TIDEFLOW, run_of(0.01, 0.01, loss=small_rate))
    found = tables.losses(results, [ROW], 300)
    assert found.title == "Losses of 200 steps, the greatest difference"
    assert found.rows[0][-1] == verdict


def test_results_are_kept_for_a_later_call(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    run = run_of(0.01, 0.02)
    Results(path).add(ROW, COLD, run)
    again = Results(path)
    assert again.runs(ROW, COLD) == [run]
    assert not again.is_measured(ROW)


def test_the_plot_shows_three_models_one_shape_of_each() -> None:
    results = Results()
    rows = [*chosen(["cnn", "transformer session", "lstm"]), *chosen(["lenet", "chain"])]
    for row in rows:
        for engine in (TENSORFLOW, COLD, CACHED):
            results.add(row, engine, run_of(0.01, 1.0))
    text = tables.plot_steps(results, rows)
    for title in ("cnn session", "transformer session", "lstm session"):
        assert f">{title}</text>" in text
    assert "function" not in text
    assert "lenet" not in text
    assert tables.plot_steps(Results(), rows) == ""


@pytest.mark.processes
@pytest.mark.parametrize("shape", ["eager", "in-worker"])
def test_a_process_tells_what_its_steps_took(shape: str, tmp_path: Path) -> None:
    effort = Effort(steps=2, warm_s=0.0, hot_s=0.0)
    found = train(COLD, Row("small-mlp", shape, 1.0), effort, str(tmp_path / "cache"))
    assert len(found.steps) == len(found.losses) == len(found.cpu) == 2
    assert found.first_s(2) == sum(found.steps)
    assert found.first_cpu_s(2) > 0
    assert math.isfinite(found.hot_s)
    assert found.memory > found.held > 0


@pytest.mark.tensorflow
@pytest.mark.processes
def test_the_command_compares_a_model_with_tensorflow_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot, kept = tmp_path / "plot.svg", tmp_path / "results.json"
    options = ["--row", "small-mlp eager", "--rounds", "1", "--steps", "4", "--warm", "0"]
    options += ["--hot", "0", "--plot", str(plot), "--results", str(kept)]
    assert main(options) == 0
    assert "3 of 3" in capsys.readouterr().out
    assert ">small-mlp eager</text>" in plot.read_text()
    results = Results(kept)
    (row,) = chosen(["small-mlp eager"])
    assert results.difference(row, COLD, TENSORFLOW) < 1e-4
    # All that was asked for is in the file: a second call only shows it.
    assert main([*options, "--neighbours", "1"]) == 0
    shown = capsys.readouterr().out
    assert "A hot step" in shown
    assert "of 3" not in shown
    assert main([*options, "--losses", "--minutes", "0"]) == 0
    assert "Losses of 4 steps" in capsys.readouterr().out


def test_what_the_page_has_no_part_for_is_refused_before_it_is_measured() -> None:
    with pytest.raises(SystemExit, match="no part models-neighbours-3"):
        main(["--row", "chain", "--neighbours", "3", "--write"])
    page = PAGE.read_text()
    assert all(f"<!-- models{part}:begin -->" in page for part in ("", "-neighbours-2"))


@pytest.mark.parametrize("model", ["small-mlp", "lenet", "lstm", "loop"])
def test_bare_jax_computes_the_same_losses(model: str) -> None:
    step = bare.train_step(NETWORKS[model]())
    found = [step(one) for one in itertools.islice(NETWORKS[model]().batches(), 3)]
    np.testing.assert_allclose(found, losses(model, "session"), rtol=1e-4)


def test_sessions_are_compared_with_bare_jax() -> None:
    results = measured()
    results.add(ROW, JAX, run_of(0.0195, 0.02, loss=1.5))
    found = tables.beside_jax(results, [ROW, Row("cnn", "ps", 0.7)])
    assert found.rows == [["cnn session", "19.5 ms", "20 ms", "1.03", "1.05", "yes", "2e-01"]]
