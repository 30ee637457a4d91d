"""Partitioning and stitching: values in both tiers, shapes, errors, gradients."""

from __future__ import annotations

import numpy as np
import pytest

from ops.harness import Case, run
from tideflow.client.session import Session
from tideflow.graph.graph import Graph
from tideflow.ops.array import reshape
from tideflow.ops.array.partitions import dynamic_partition, dynamic_stitch, parallel_dynamic_stitch
from tideflow.ops.framework import constant
from tideflow.ops.framework.constants import placeholder
from tideflow.ops.gradients.checker import compute_gradient_error
from tideflow.wire import errors

I32 = np.int32


def partition(data, parts, count):
    with Graph().as_default(), Session() as session:
        return session.run(dynamic_partition(constant(data), constant(parts, "int32"), count))


def test_slices_go_to_their_partitions_in_order():
    found = partition([1.0, 2.0, 3.0, 4.0], [1, 0, 1, 0], 3)
    assert [f.tolist() for f in found] == [[2, 4], [1, 3], []]


def test_partitions_may_be_a_matrix():
    data = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    found = partition(data, [[0, 1], [1, 0]], 2)
    assert [f.tolist() for f in found] == [[[0, 1], [6, 7]], [[2, 3], [4, 5]]]


def test_a_partition_out_of_range_is_named():
    found = r"partitions\[1\] = 2 is not in \[0, 2\)"
    with pytest.raises(errors.InvalidArgumentError, match=found):
        partition([1.0, 2.0], [0, 2], 2)


def test_partitions_must_fit_the_data():
    with Graph().as_default(), pytest.raises(ValueError, match="prefix"):
        dynamic_partition(constant([1.0, 2.0]), constant([0, 1, 1]), 2)


@pytest.mark.parametrize("tier", ["numpy", "jax"])
def test_stitched_rows_lie_at_their_indices(tier):
    indices = [np.array([2, 0], I32), np.array([1], I32)]
    data = [np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6]], np.float32)]
    (found,) = run(Case("DynamicStitch", [indices, data]), tier)
    assert found.tolist() == [[3, 4], [5, 6], [1, 2]]


@pytest.mark.parametrize("tier", ["numpy", "jax"])
def test_the_last_row_for_an_index_wins_and_gaps_are_zeros(tier):
    indices = [np.array([0, 3], I32), np.array(0, I32)]
    data = [np.array([1, 2], np.int64), np.array(7, np.int64)]
    (found,) = run(Case("DynamicStitch", [indices, data]), tier)
    assert found.tolist() == [7, 0, 0, 2]


def test_nothing_stitched_is_empty():
    case = Case("DynamicStitch", [[np.zeros(0, I32)], [np.zeros((0, 3), np.float32)]])
    assert run(case)[0].shape == (0, 3)


def test_strings_can_be_stitched():
    case = Case("DynamicStitch", [[np.array([1], I32)], [np.array([b"x"], object)]])
    assert run(case)[0].tolist() == [b"", b"x"]


@pytest.mark.parametrize(
    ("indices", "data", "message"),
    [([-1], [1.0], "at least 0"), ([0, 1], [1.0], "must start with")],
)
def test_bad_indices_are_refused(indices, data, message):
    with Graph().as_default(), Session() as session:
        at, values = placeholder("int32"), placeholder("float32")
        merged = dynamic_stitch([at], [values])
        with pytest.raises(errors.InvalidArgumentError, match=message):
            session.run(merged, {at: indices, values: data})


def test_static_shapes_follow_known_indices():
    with Graph().as_default():
        rows = placeholder("float32", [2, 5])
        assert dynamic_stitch([[0, 6]], [rows]).shape.as_list() == [7, 5]
        unknown = dynamic_stitch([placeholder("int32", [2])], [rows])
        assert unknown.shape.as_list() == [None, 5]
        parts = dynamic_partition(rows, [0, 1], 2)
        assert [p.shape.as_list() for p in parts] == [[None, 5]] * 2


def test_a_partition_put_together_again_has_the_gradient_of_both():
    with Graph().as_default(), Session():
        x = placeholder("float32", [4])
        parts = constant([1, 0, 1, 1])
        first, second = dynamic_partition(x, parts, 2)
        y = parallel_dynamic_stitch([[0], [3, 1, 2]], [first * 2.0, second * second])
        assert compute_gradient_error(x, [4], y, [4]) < 1e-2
        whole = reshape(dynamic_stitch([[1, 1, 0, 2]], [x]), [3])
        by_graph = compute_gradient_error(x, [4], whole, [3])
        # The row that lost has no influence, yet TensorFlow gives it the winner's gradient.
        assert by_graph == pytest.approx(1.0, abs=1e-2)
