"""Metrics beside TensorFlow: names, types, shapes and what they give over batches."""

from __future__ import annotations

import pytest

import tideflow.v1 as ours
from ops import top_k_metric_programs
from ops.metric_programs import METRICS, look


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("tensorflow").compat.v1


@pytest.fixture(autouse=True)
def references(theirs):
    """Let both make reference variables, as programs of graphs do."""
    was_on = theirs.resource_variables_enabled()
    for tf in (theirs, ours):
        tf.disable_resource_variables()
    yield
    ours.enable_resource_variables()
    if was_on:
        theirs.enable_resource_variables()


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_gives_what_tensorflow_gives(name, theirs):
    for is_weighted in (False, True):
        assert look(ours, name, is_weighted) == look(theirs, name, is_weighted)


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", top_k_metric_programs.METRICS)
def test_a_metric_of_the_best_classes_gives_what_tensorflow_gives(name, theirs):
    look_at = top_k_metric_programs.look
    for is_weighted in (False, True):
        assert look_at(ours, name, is_weighted) == look_at(theirs, name, is_weighted)
    if "recall_of" in name:
        assert look_at(ours, name, True, False) == look_at(theirs, name, True, False)
