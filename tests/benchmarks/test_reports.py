"""What the benchmarks make of their numbers: tables, verdicts, time-lines, plots."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import BASE, by_load, chosen
from benchmarks.figures import FIGURES
from benchmarks.profile_step import timeline
from benchmarks.programs import PROGRAMS
from benchmarks.report import Result, as_markdown, show, write_part
from benchmarks.rounds import Measured, Pair
from benchmarks.scaling import SWEEPS
from benchmarks.scaling import as_markdown as sweep_as_markdown
from benchmarks.svg import Series, draw, in_bytes, plain, plot
from benchmarks.wakeups import Switches, between, switches_of
from benchmarks.wakeups import as_markdown as as_waits

OURS = Pair("tideflow", "tideflow")


def test_figures_are_chosen_by_name_or_part_of_it() -> None:
    assert [one.key for one in chosen(["chain"])] == ["chain"]
    assert {one.key for one in chosen(["fan-in"])} == {"fan-in-2", "fan-in-4", "fan-in-8"}
    with pytest.raises(SystemExit, match="no figure is named nonsense"):
        chosen(["nonsense"])


def test_a_step_and_its_first_run_share_a_round() -> None:
    groups = [[figure.key for figure in group] for group in by_load(FIGURES)]
    assert ["chain", "chain-first"] in groups
    assert sorted(key for group in groups for key in group) == sorted(f.key for f in FIGURES)


def test_medians_are_over_rounds_and_percentiles_over_all_samples() -> None:
    measured = Measured([{"step": [1.0, 2.0, 9.0]}, {"step": [4.0]}, {"step": [5.0]}])
    assert measured.median("step") == 4.0
    assert measured.percentile("step", 99) == 9.0


def test_a_figure_that_failed_has_no_verdict() -> None:
    figure = chosen(["local-add"])[0]
    slow, fast = Measured([{"step": [1.0]}]), Measured([{"step": [0.2]}])
    assert Result(figure, slow, fast).verdict == "yes"
    assert Result(figure, fast, slow).verdict == "no"
    assert Result(figure, slow, Measured(error="crash")).verdict == "failed"


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (0.0031, "3.1 ms"), (8.88e-6, "8.88 us")]
)
def test_times_are_shown_in_their_unit(seconds: float, text: str) -> None:
    assert show(seconds) == text


def test_only_the_named_part_of_a_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("by hand\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nby hand, too\n")
    write_part(page, "bench", "new \\1")
    assert page.read_text() == (
        "by hand\n<!-- bench:begin -->\nnew \\1\n<!-- bench:end -->\nby hand, too\n"
    )
    with pytest.raises(ValueError, match="no part between"):
        write_part(page, "profile", "x")


def test_a_plot_has_a_line_for_each_series_and_names_its_axes() -> None:
    series = [Series("a", [(1, 1e-3), (10, 2e-3)]), Series("b", [(1, 5e-3), (10, 0.1)])]
    (axes,) = draw("title", "workers", series).axes
    drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert drawn == {one.name: [list(point) for point in one.points] for one in series}
    assert [text.get_text() for text in axes.get_legend().texts] == ["a", "b"]
    text = plot("title", "workers", series)
    for words in ("title", "workers", "1 ms", "100 ms", "10", "a", "b"):
        assert f">{words}</text>" in text
    assert plot("title", "workers", series) == text


def test_the_page_names_command_ratio_and_what_failed() -> None:
    figure = chosen(["local-add"])[0]
    good = Result(figure, Measured([{"step": [1e-3]}]), Measured([{"step": [2e-4]}]))
    bad = Result(figure, Measured(), Measured(error="tideflow on tideflow: first\nlast words"))
    text = as_markdown([good, bad], BASE, OURS, "python -m benchmarks")
    assert "- command: `python -m benchmarks`" in text
    assert f"| {figure.title} | 1 ms | 200 us | 0.20 | 0.25 | yes |" in text
    assert f"- {figure.title}, tideflow on tideflow: `last words`" in text
    assert "once more" not in text
    again = Measured([{"step": [1e-3]}], repeated=["tensorflow on tensorflow: lost"])
    text = as_markdown([Result(figure, again, again)], BASE, OURS, "python -m benchmarks")
    assert "run once more:\n\n- " + f"{figure.title}, tensorflow on tensorflow: `lost`" in text


def test_a_mixed_pair_is_named_in_the_head() -> None:
    text = as_markdown([], BASE, Pair("tensorflow", "tideflow"), "x")
    assert "| figure | TensorFlow | TensorFlow client, tideflow servers | ratio |" in text


def test_a_timeline_adds_up_over_processes() -> None:
    def step(start: int) -> dict[str, list[Any]]:
        return {
            "client": [
                ["call", start + 1000, start + 9000],
                ["Session.run", start, start + 10_000],
            ],
            "worker 0": [["RunStep", start + 3000, start + 7000]],
        }

    steps = [step(start) for start in (0, 50_000, 100_000)]
    found = {
        name: {"spans": [span for one in steps for span in one[name]]}
        for name in ("client", "worker 0")
    }
    # What happens between steps is part of none.
    found["worker 0"]["spans"].append(["CleanupGraph", 20_000, 21_000])
    total, parts = timeline(found)
    assert total == 10.0
    assert [lasts for _, lasts, _, _ in parts] == [1.0, 2.0, 4.0, 2.0, 1.0]
    assert parts[1] == (1.0, 2.0, "client: call begins", "worker 0: RunStep begins")


def test_every_sweep_runs_known_programs_at_every_size() -> None:
    for sweep in SWEEPS:
        assert {sweep.load(size).program for size in sweep.sizes} <= set(PROGRAMS)


def test_a_sweep_is_a_plot_and_a_table_with_gaps() -> None:
    sweep = SWEEPS[0]
    found = {("tideflow", 1): {"step": [1e-3]}, ("tensorflow", 2): {"step": [2e-3]}}
    text = sweep_as_markdown(sweep, found)
    assert f"images/perf-{sweep.key}.svg" in text
    assert "| 1 | - | 1 ms |" in text
    assert "| 2 | 2 ms | - |" in text


@pytest.mark.parametrize(
    ("value", "count", "size"),
    [(4, "4", "4 B"), (1000, "1k", "1000 B"), (1 << 20, "1.04858M", "1 MiB")],
)
def test_sizes_on_an_axis(value: float, count: str, size: str) -> None:
    assert plain(value) == count
    assert in_bytes(value) == size


def test_waits_of_threads_are_told_by_step() -> None:
    before = {1: Switches(10, 0), 2: Switches(0, 0)}
    after = {1: Switches(210, 5), 2: Switches(3, 0), 3: Switches(100, 0)}
    found = as_waits({"ps 0": between(before, after)}, 100)
    assert found.splitlines()[2:] == ["| ps 0 | 3 | 2 | 3.0 | 0.05 |"]


def test_a_thread_that_waits_is_counted() -> None:
    reader, writer = os.pipe()
    thread = threading.Thread(target=os.read, args=(reader, 1))
    thread.start()
    assert thread.native_id is not None
    while not switches_of(os.getpid())[thread.native_id].waited:
        os.sched_yield()
    os.write(writer, b"x")
    thread.join()
    os.close(reader)
    os.close(writer)
    assert thread.native_id not in switches_of(os.getpid())
