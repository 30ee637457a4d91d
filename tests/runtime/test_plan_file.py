"""What another process compiles of a region that was written for it gives the same."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from runtime import test_compiled_draws as draws
from runtime import test_compiled_loops as loops
from runtime.test_jit import train
from runtime.test_jit_cache import run_as_a_new_program
from tideflow.runtime import jit_compile
from tideflow.wire import messages as pb


@pytest.fixture(autouse=True)
def requests(tmp_path, set_settings, monkeypatch):
    """Have every region compiled from a request; the requests."""
    set_settings(jit_cache=str(tmp_path / "compiled"))
    seen = []

    def answered(folder, key, request, must_end):
        seen.append(request)
        folder.keep(key, jit_compile.compile_request(request))
        return True

    compile_here = jit_compile.compile_region

    def compile_region(plan, signature, **how):
        if jit_compile.is_for_server(plan, signature):
            jit_compile.have_compiled(plan, signature)
        return compile_here(plan, signature, **how)

    monkeypatch.setattr(jit_compile, "compile_elsewhere", answered)
    monkeypatch.setattr(jit_compile, "compile_region", compile_region)
    jit_compile.forget_compiled()
    yield seen
    assert seen


@pytest.mark.parametrize(
    "check",
    [
        loops.test_a_loop_of_fed_turns_goes_round_as_often_as_it_is_told,
        loops.test_a_branch_in_a_loop,
        loops.test_a_recurrent_network_and_its_gradient,
        loops.test_a_variable_that_a_loop_assigns,
        loops.test_an_index_outside_is_refused_and_changes_nothing,
        draws.test_draws_within_loops,
        draws.test_numbers_without_a_seed_differ_from_step_to_step,
        loops.test_an_assertion_that_fails_says_what_straight_code_says,
        draws.test_a_step_whose_checks_fail_draws_no_more_than_straight_code,
    ],
)
def test_loops_branches_checks_and_draws(check):
    check()


def test_training():
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = pb.OptimizerOptions.ON_2
    assert train("resource", lambda: tf.train.AdamOptimizer(0.01), config)[2] > 0


@pytest.fixture
def always(requests, tmp_path, set_settings):
    set_settings(jit="always", jit_cache=str(tmp_path / "compiled"))


@pytest.mark.usefixtures("always")
def test_what_does_not_compile_is_left_out(requests):
    sizes, _ = run_as_a_new_program()
    assert sizes == [4, 4]
    assert len(requests) == 2  # one of them for what is left without the node


@pytest.mark.usefixtures("always")
def test_constants_that_are_handed_over_are_not_written(requests):
    run_as_a_new_program()
    assert max(map(len, requests)) < 3000 * 4
