"""The versions that graphs are marked with."""

from __future__ import annotations

import tideflow
import tideflow.v1 as tf


def test_graphs_are_of_tensorflows_version() -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(1.0)
    versions = graph.as_graph_def().versions
    assert (versions.producer, versions.min_consumer) == (2474, 0)
    assert tf.version.GRAPH_DEF_VERSION == tideflow.version.GRAPH_DEF_VERSION == 2474


def test_a_graph_with_functions_needs_a_reader_that_knows_them() -> None:
    with tf.Graph().as_default() as graph:
        tideflow.function(lambda x: x + 1.0)(tf.constant(1.0))
    graph_pb = graph.as_graph_def()
    assert graph_pb.library.function
    assert graph_pb.versions.min_consumer == 12
