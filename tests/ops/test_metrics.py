"""Metrics: what updates add up to."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.metric_programs import look
from ops.top_k_metric_programs import look as look_at_top_k
from tideflow.client.session import Session
from tideflow.graph.graph import Graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.export import exports
from tideflow.ops.framework.constants import placeholder
from tideflow.ops.metrics import means as metrics

TF = exports()


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


@pytest.fixture
def session(graph):
    with Session() as made:
        yield made


def start(session):
    session.run(TF["local_variables_initializer"]())


def test_a_mean_runs_over_all_batches(session):
    x = placeholder("float32", [None])
    value, update = metrics.mean(x)
    start(session)
    assert session.run(value) == 0
    assert session.run(update, {x: [1.0, 2.0]}) == pytest.approx(1.5)
    assert session.run(update, {x: [6.0]}) == pytest.approx(3.0)
    assert session.run(value) == pytest.approx(3.0)


def test_weights_count(session):
    x = placeholder("float32", [2, 2])
    value, update = metrics.mean(x, weights=np.array([[1.0], [3.0]], np.float32))
    start(session)
    session.run(update, {x: [[1, 2], [3, 4]]})
    assert session.run(value) == pytest.approx((1 + 2 + 9 + 12) / 8)


def test_accuracy_compares_across_types_and_enters_collections(graph, session):
    guess = placeholder("int64", [None])
    value, update = metrics.accuracy(
        np.array([1, 2, 3], np.int32), guess, metrics_collections="m", updates_collections=["u"]
    )
    start(session)
    session.run(update, {guess: [1, 0, 3]})
    assert session.run(value) == pytest.approx(2 / 3)
    assert graph.get_collection("m") == [value]
    assert graph.get_collection("u") == [update]


def test_metrics_keep_local_variables_of_their_own(graph):
    metrics.mean_squared_error([1.0], [2.0])
    metrics.mean_absolute_error([1.0], [2.0])
    assert len(graph.get_collection(GraphKeys.METRIC_VARIABLES)) == 4
    assert graph.get_collection(GraphKeys.GLOBAL_VARIABLES) == []
    assert graph.get_collection(GraphKeys.TRAINABLE_VARIABLES) == []


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match="same shape"):
        metrics.accuracy([1, 2], [1, 2, 3])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("precision", [0, 0.75, 0.75, 0.625, 0.625]),
        ("recall", [0, 1, 1, 0.8333, 0.8333]),
        ("false_negatives", [0, 0, 0, 1, 1]),
        ("root", [0, 0.3981, 0.3981, 0.5818, 0.5818]),
        ("precision_at_thresholds", [[0.75, 1, 1], [0.625, 0.5, 0.5]]),
        ("by_class", [0, [0.5, 0.6667, 0], 0.3889, [0.25, 0.6667, 0], 0.3056]),
    ],
)
def test_counts_and_errors_run_over_batches(name, expected):
    found = look(tf, name, False)[-1]
    if name == "precision_at_thresholds":
        found = found[1::2]
    assert found == expected


def test_scores_of_a_curve_must_lie_between_0_and_1():
    assert look(tf, "auc_of_no_scores", False) == "InvalidArgumentError"
    assert look(tf, "auc", False)[-1][-1] == 0.4167


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("recall", ["nan", "0.5", "0.5", "0.33333", "0.33333"]),
        ("precision_of_a_class", ["nan", "0", "0", "0", "0"]),
        ("average", ["0", "0.61111", "0.61111", "0.40278", "0.40278"]),
        ("average_of_sparse", ["0", "0.5", "0.5", "0.25", "0.25"]),
    ],
)
def test_metrics_of_the_best_classes_run_over_batches(name, expected):
    assert look_at_top_k(tf, name, False)[3:] == expected


def test_metrics_of_the_best_classes_refuse_what_does_not_fit():
    assert look_at_top_k(tf, "average_of_none", False) == "ValueError"
    assert look_at_top_k(tf, "labels_of_another_rank", False) == "ValueError"
    with pytest.raises(ValueError, match="weights can not be broadcast"):
        TF["metrics.recall_at_top_k"](
            np.array([[1, 2]]), np.array([[1]]), weights=np.ones([1, 1], np.float32)
        )


@pytest.mark.parametrize("name", ["accuracy", "precision", "recall"])
def test_what_a_metric_gives_is_found_by_its_name(session, name):
    labels = tf.constant([True, False, True])
    getattr(tf.metrics, name)(labels, tf.constant([True, False, False]))
    start(session)
    updated = session.run(f"{name}/update_op:0")
    assert session.run(f"{name}/value:0") == updated > 0
