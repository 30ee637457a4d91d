"""What the generator makes, without TensorFlow."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from whole_programs.effects import Effects, may_race
from whole_programs.generate import MORE_FROM, generate
from whole_programs.syntax import Statement, Type, is_well_formed, render, render_script

SEEDS = [*range(300), *range(MORE_FROM, MORE_FROM + 150)]
ROOT = Path(__file__).parents[2]


def test_each_program_is_python_whose_names_are_defined() -> None:
    for seed in SEEDS:
        program = generate(seed)
        ast.parse(render(program))
        assert is_well_formed(program.statements), seed


def test_a_seed_gives_the_same_program_again_and_others_give_others() -> None:
    assert [generate(seed) for seed in SEEDS] == [generate(seed) for seed in SEEDS]
    assert len({render(generate(seed)) for seed in SEEDS}) > len(SEEDS) - 8


def test_a_rule_that_is_looked_at_is_drawn_more_often() -> None:
    def count(rule: str) -> int:
        return sum("while_loop" in generate(seed, rule).rules for seed in range(60))

    assert count("while_loop") > 2 * count("")


def test_programs_combine_what_tutorials_do() -> None:
    text = "".join(render(generate(seed)) for seed in range(600))
    found = Counter(word for word in WORDS if word in text)
    assert [word for word in WORDS if not found[word]] == []


WORDS = (
    "use_resource=True", "use_resource=False", "tf.placeholder", "Queue(", "Dataset.", "tf.cond(",
    "tf.while_loop(", "use_control_flow(2)", "tf.metrics.", "Optimizer(", "Saver(", "summary.",
    "tf.device(", "replica_device_setter", "MonitoredTrainingSession", "hooks=[tf.train.",
    "InteractiveSession", "make_callable", "partial_run", "RunOptions", "@tf.function",
    "GradientTape", "mirrored_strategy()", "Checkpoint(", "tf.control_dependencies",
    "get_variable", "tf.gradients", "tf.scan", "tf.TensorArray", "tf.custom_gradient",
    "one_shot_iterator", "from_string_handle", "PriorityQueue", "start_queue_runners",
    "StaticHashTable", "SparseTensor", "shape_invariants", "import_meta_graph",
    "FileWriter", "Supervisor", "latest_checkpoint", "tf.Module", "tf.switch_case", "py_function",
    "TFRecordWriter", "CheckpointManager", "experimental_distribute_dataset",
)  # fmt: skip


def test_a_change_races_with_reads_of_its_state_but_with_nothing_that_waits_for_it() -> None:
    change = "u", Effects(writes=frozenset([("v", "w1")]), after=frozenset(["loss"]))
    assert may_race(change, ("t", Effects(reads=frozenset(["v"]))))
    assert may_race(change, ("t", Effects(writes=frozenset([("v", "w2")]))))
    assert may_race(change, ("t", Effects(may_fail=True)))
    assert not may_race(change, ("t", Effects(reads=frozenset(["other"]))))
    assert not may_race(change, ("loss", Effects(reads=frozenset(["v"]))))
    assert not may_race(change, ("t", Effects(writes=frozenset([("v", "w1")]))))


def test_a_name_is_unknown_before_its_statement_and_outside_of_its_function() -> None:
    tensor = Type("tensor")
    made = Statement("a = 1", (("a", tensor),))
    used = Statement("print(⟨a⟩)")
    assert is_well_formed([made, used])
    assert not is_well_formed([used, made])
    assert is_well_formed([Statement("with x:", body=(made,)), used])
    assert not is_well_formed([Statement("def f():", body=(made,), is_scope=True), used])


@pytest.mark.processes
@pytest.mark.parametrize("seed", [1, 8])
def test_a_program_is_a_script_that_runs_by_itself(seed: int, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(render_script(generate(seed), f"Seed {seed}."))
    done = subprocess.run(
        [sys.executable, str(script), "tideflow"],
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "failed" not in done.stdout
