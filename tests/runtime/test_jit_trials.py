"""Which tier runs a region, decided from times that are told."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from tideflow.blocking import StopFlag, Stopped
from tideflow.runtime.jit_trials import Choice, Trial

SIGNATURE = (("float32", (2,)),)
LONG, SHORT = 0.05, 0.0002


def asked(*early_s):
    """Return a trial whose region took so long with NumPy before the compiler was asked."""
    trial = Trial(SIGNATURE)
    for took in early_s:
        trial.note_numpy(took)
    assert trial.is_due
    assert trial.claim()
    trial.note_asked(can_wait=True)
    return trial


def code(*, is_interim=False):
    return SimpleNamespace(is_interim=is_interim)


def made(*early_s):
    trial = asked(*early_s)
    trial.note_made(code(), is_forced=False)
    trial.note_done()
    return trial


def test_the_compiler_is_asked_after_a_long_run_or_two_short_ones():
    trial = asked(LONG)
    assert trial.may_wait
    assert trial.is_untried
    trial.note_numpy(LONG)
    assert not trial.is_due
    trial = Trial(SIGNATURE)
    trial.note_numpy(SHORT)
    assert not trial.is_due
    trial.note_numpy(SHORT)
    assert trial.is_due


def test_short_runs_are_not_waited_for():
    # A disturbed one does not make them long.
    assert not asked(LONG, SHORT).may_wait


def test_a_step_that_cannot_wait_leaves_it_to_none():
    trial = Trial(SIGNATURE)
    trial.note_numpy(LONG)
    trial.note_asked(can_wait=False)
    assert not trial.may_wait


def test_one_of_many_threads_asks():
    trial = Trial(SIGNATURE)
    trial.note_numpy(LONG)
    start = threading.Barrier(8)
    found = []

    def run():
        start.wait()
        found.append(trial.claim())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [False] * 7 + [True]


def test_shapes_that_are_not_compiled_ask_for_nothing():
    trial = Trial()
    for _ in range(4):
        trial.note_numpy(LONG)
    assert not trial.is_due
    assert not trial.claim()


def test_what_is_clearly_faster_is_chosen_after_three_runs():
    trial = made(LONG, LONG)
    assert not trial.wants_numpy
    assert [trial.note_compiled(LONG / 4) for _ in range(3)] == [None, None, Choice.COMPILED]


def test_a_disturbed_run_of_numpy_makes_nothing_clear():
    trial = made(8 * LONG, LONG)
    assert [trial.note_compiled(0.9 * LONG) for _ in range(3)] == [None] * 3
    assert trial.wants_numpy
    while trial.wants_numpy:
        trial.note_numpy(LONG)
    choices = [trial.note_compiled(0.9 * LONG) for _ in range(6)]
    assert choices == [None] * 5 + [Choice.COMPILED]


def test_numpy_is_chosen_where_it_is_faster():
    trial = made(SHORT, SHORT)
    while trial.wants_numpy:
        trial.note_numpy(SHORT)
    assert [trial.note_compiled(2 * SHORT) for _ in range(9)][-1] is Choice.NUMPY


def test_runs_beside_the_compiler_are_not_compared_with_others():
    trial = made(LONG)
    assert trial.note_compiled(4 * LONG, is_disturbed=True) is None
    assert [trial.note_compiled(2 * LONG, is_disturbed=True) for _ in range(20)] == [None] * 20
    assert not trial.wants_numpy, "steps go on with compiled code meanwhile"
    assert [trial.note_compiled(0.9 * LONG) for _ in range(2)] == [None] * 2
    while trial.wants_numpy:
        trial.note_numpy(LONG)
    assert [trial.note_compiled(0.9 * LONG) for _ in range(6)][-1] is Choice.COMPILED


def test_a_compiler_that_never_rests_keeps_no_trial_from_its_end():
    trial = made(SHORT, SHORT)
    for _ in range(1000):
        if trial.wants_numpy:
            trial.note_numpy(SHORT, is_disturbed=True)
        elif trial.choice is Choice.TRYING:
            trial.note_compiled(2 * SHORT, is_disturbed=True)
    assert trial.choice is Choice.NUMPY


def test_a_wait_ends_with_the_compiler_or_with_what_the_step_may_wait():
    step = StopFlag()
    step.may_wait_s = 60.0
    trial = asked(LONG, LONG)
    trial.note_done()
    trial.wait(step)
    assert 0 < step.may_wait_s <= 60.0
    assert not trial.may_wait
    step.may_wait_s = 0.05
    asked(LONG, LONG).wait(step)
    assert step.may_wait_s <= 0


def test_a_wait_ends_with_its_step_and_is_not_repeated():
    step = StopFlag()
    step.may_wait_s = 60.0
    step.stop()
    trial = asked(60.0, 60.0)
    with pytest.raises(Stopped):
        trial.wait(step)
    assert not trial.may_wait


def test_runs_are_enough_once():
    trial = made(LONG)
    assert [trial.note_run(0.4, 1.0) for _ in range(4)] == [False, False, True, False]
    assert made(LONG).note_run(0.1, 0.0)


def tried(trial, numpy_s, compiled_s):
    """Let a trial choose, by what each tier takes."""
    while trial.choice is Choice.TRYING:
        if trial.wants_numpy:
            trial.note_numpy(numpy_s)
        else:
            trial.note_compiled(compiled_s)
    return trial.choice


@pytest.mark.parametrize(
    ("better_s", "chosen"), [(0.5 * LONG, Choice.COMPILED), (1.1 * LONG, Choice.NUMPY)]
)
def test_code_to_begin_with_stays_until_better_code_was_tried(better_s, chosen):
    trial = asked(LONG)
    trial.note_made(code(is_interim=True), is_forced=False)
    assert tried(trial, LONG, 1.1 * LONG) is Choice.COMPILED
    trial.note_improved(code())
    assert trial.is_untried
    assert tried(trial, LONG, better_s) is chosen
