"""gradients(): what arrives where, summed how, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.evaluate import evaluate
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph
from tideflow.graph.op_def import declare
from tideflow.ops.array import stack
from tideflow.ops.array.joining import split
from tideflow.ops.framework import IndexedSlices, constant, identity
from tideflow.ops.framework.constants import placeholder
from tideflow.ops.gradients import UnconnectedGradients, gradients
from tideflow.ops.gradients.custom import RegisterGradient, custom_gradient
from tideflow.ops.gradients.second import hessians
from tideflow.ops.math.arithmetic import add, multiply
from tideflow.ops.state.base import Variable

declare("TestWithoutGradient(x: float) -> y: float")


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


def test_a_product_gives_the_other_factor():
    x, y = constant([2.0, 3.0]), constant([5.0, 7.0])
    found = evaluate(gradients(multiply(x, y), [x, y]))
    np.testing.assert_array_equal(found, [[5, 7], [2, 3]])


def test_paths_that_meet_are_added():
    x = constant([1.0, 2.0])
    y = add(multiply(x, x), multiply(x, constant(3.0)))
    np.testing.assert_array_equal(evaluate(gradients(y, x))[0], [5, 7])


def test_several_ys_are_summed():
    x = constant(2.0)
    assert evaluate(gradients([multiply(x, x), multiply(x, constant(10.0))], [x])) == [14.0]


def test_grad_ys_scale_the_start():
    x = constant([1.0, 2.0])
    found = evaluate(gradients(multiply(x, x), x, grad_ys=constant([10.0, 100.0])))
    np.testing.assert_array_equal(found[0], [20, 400])


def test_grad_ys_of_another_shape_are_refused():
    x = constant([1.0, 2.0])
    with pytest.raises(ValueError, match=r"grad_ys\[0\] has shape \(3,\)"):
        gradients(multiply(x, x), x, grad_ys=constant([1.0, 2.0, 3.0]))


def test_an_x_that_matters_not_gives_none_or_zeros():
    x, other = constant([1.0, 2.0]), constant([[3.0]])
    y = multiply(x, x)
    assert gradients(y, [other]) == [None]
    (zero,) = gradients(y, [other], unconnected_gradients=UnconnectedGradients.ZERO)
    np.testing.assert_array_equal(evaluate([zero])[0], [[0]])


def test_gradient_of_a_tensor_with_respect_to_itself_is_ones():
    x = constant([4.0, 5.0])
    np.testing.assert_array_equal(evaluate(gradients(x, x))[0], [1, 1])


def test_an_x_between_another_x_and_y_has_its_own_gradient():
    x = constant(3.0)
    middle = multiply(x, x)
    assert evaluate(gradients(multiply(middle, constant(2.0)), [x, middle])) == [12.0, 2.0]


def test_stop_gradients_are_taken_as_constants():
    x = constant(3.0)
    middle = multiply(x, constant(2.0))
    assert evaluate(gradients(multiply(middle, x), x, stop_gradients=[middle])) == [6.0]


def test_integers_let_nothing_through():
    x = constant(3)
    assert gradients(multiply(x, x), x) == [None]


def test_a_complex_y_needs_grad_ys():
    x = constant(1 + 2j)
    with pytest.raises(TypeError, match="needs grad_ys"):
        gradients(multiply(x, x), x)


def test_outputs_that_nothing_uses_count_as_zeros():
    x = constant([1.0, 2.0, 3.0, 4.0])
    first, _ = split(x, 2)
    np.testing.assert_array_equal(evaluate(gradients(multiply(first, first), x))[0], [2, 4, 0, 0])


def test_slices_that_meet_stay_slices():
    x = placeholder("float32", [4, 2])
    rows = [apply_op("GatherV2", x, [0, 2], 0), apply_op("GatherV2", x, [2], 0)]
    (found,) = gradients(rows, x)
    assert isinstance(found, IndexedSlices)
    values, indices = evaluate([found.values, found.indices], {x: np.ones((4, 2), np.float32)})
    np.testing.assert_array_equal(indices, [0, 2, 2])
    np.testing.assert_array_equal(values, np.ones((3, 2)))


def test_gradient_names_say_what_they_belong_to(graph):
    x = constant(3.0)
    gradients(multiply(x, x, name="square"), x)
    names = [op.name for op in graph.get_operations()]
    assert any(name.startswith("gradients/square_grad/") for name in names)


def test_an_op_without_gradient_is_named_with_its_line():
    x = constant([3.0])
    y = apply_op("TestWithoutGradient", x, name="odd")
    with pytest.raises(LookupError, match=r"'odd', made at .*test_gradients\.py"):
        gradients(y, x)


def test_gradient_override_map_replaces_a_gradient(graph):
    @RegisterGradient("TestTenfold")
    def tenfold(op, grad):
        return multiply(grad, constant(10.0))

    x = constant(3.0)
    with graph.gradient_override_map({"Identity": "TestTenfold"}):
        y = identity(x)
    assert evaluate(gradients(add(y, identity(x)), x)) == [11.0]


def test_gate_gradients_lets_none_pass_before_all(graph):
    x, y = constant(3.0), constant(4.0)
    dx, dy = gradients(multiply(x, y), [x, y], gate_gradients=True)
    assert evaluate([dx, dy]) == [4.0, 3.0]
    (gate,) = dx.op.control_inputs
    assert set(gate.control_inputs) == {t.op for t in (dx.op.inputs + dy.op.inputs)}


def test_colocated_gradients_ask_for_the_place_of_their_op(graph):
    x = constant(3.0)
    with graph.device("/job:ps/task:1"):
        y = multiply(x, x)
    (dx,) = gradients(y, x, colocate_gradients_with_ops=True)
    (product, _) = dx.op.inputs
    assert product.op.colocation_groups() == [f"loc:@{y.op.name}".encode()]
    assert "ps" in product.device


def test_sums_are_made_where_their_terms_are(graph):
    x = constant(3.0)
    with graph.device("/job:ps/task:0"):
        a = [multiply(x, constant(float(i))) for i in range(2)]
    with graph.device("/job:ps/task:1"):
        b = [multiply(x, constant(float(i))) for i in range(2)]
    (dx,) = gradients([*a, *b], x, colocate_gradients_with_ops=True)
    assert evaluate([dx]) == [2.0]
    assert len(dx.op.inputs) == 2


def test_a_wrong_number_of_gradients_is_refused(graph):
    @RegisterGradient("TestTwoOfOne")
    def two_of_one(op, grad):
        return grad, grad

    x = constant(3.0)
    with graph.gradient_override_map({"Identity": "TestTwoOfOne"}):
        y = identity(x, name="one")
    with pytest.raises(ValueError, match=r"'one'.* gave 2 gradients for 1 inputs"):
        gradients(y, x)


def test_custom_gradient_takes_the_place_of_the_real_one():
    @custom_gradient
    def clipped(x):
        return multiply(x, x), lambda dy: multiply(dy, constant(-1.0))

    x = constant(3.0)
    y = clipped(x)
    assert evaluate([y, *gradients(y, x)]) == [9.0, -1.0]


def test_custom_gradient_with_several_results():
    @custom_gradient
    def both(x, y):
        return (add(x, y), multiply(x, y)), lambda da, db: (da, db)

    x, y = constant(3.0), constant(4.0)
    a, b = both(x, y)
    assert evaluate(gradients([a, multiply(b, constant(7.0))], [x, y])) == [1.0, 7.0]


def test_a_hessian_holds_second_derivatives():
    x = constant([1.0, 2.0])
    y = multiply(multiply(x, x), x)
    with tf.Session() as session:  # a loop computes it
        np.testing.assert_array_equal(session.run(hessians(y, x))[0], [[6, 0], [0, 12]])


@pytest.mark.parametrize("version", [1, 2])
def test_a_hessian_by_what_is_fed(version):
    turn = tf.enable_control_flow_v2 if version == 2 else tf.disable_control_flow_v2
    try:
        turn()
        x = tf.placeholder(tf.float32, [None])
        (found,) = hessians(multiply(multiply(x, x), x), x)
        with pytest.raises(ValueError, match="no y depends"):
            hessians(add(x, x), x)
    finally:
        tf.disable_control_flow_v2()
    with tf.Session() as session:
        value = session.run(found, {x: [1.0, 2.0, 3.0]})
    np.testing.assert_array_equal(value, np.diag([6, 12, 18]))


def test_time_is_linear_in_a_long_chain():
    x = constant(1.0)
    y = x
    for _ in range(5000):
        y = add(y, x)
    assert evaluate(gradients(y, x)) == [5001.0]


def test_stacked_parts_get_their_rows():
    a, b = constant([1.0, 2.0]), constant([3.0, 4.0])
    y = stack([a, b])
    found = evaluate(gradients(y, [a, b], grad_ys=constant([[1.0, 2.0], [3.0, 4.0]])))
    np.testing.assert_array_equal(found, [[1, 2], [3, 4]])


def test_custom_gradient_gives_variables_theirs():
    v = Variable(2.0)

    @custom_gradient
    def scaled(x):
        def grad(dy, variables=None):
            return multiply(dy, constant(5.0)), [multiply(dy, constant(7.0)) for _ in variables]

        return multiply(x, v), grad

    x = constant(3.0)
    assert evaluate(gradients(scaled(x), [x, v])) == [5.0, 7.0]


def test_custom_gradient_that_reads_variables_must_take_them():
    v = Variable(2.0, name="weight")
    scaled = custom_gradient(lambda x: (multiply(x, v), lambda dy: dy))
    with pytest.raises(TypeError, match=r"reads variables .*weight"):
        scaled(constant(3.0))


@pytest.mark.parametrize("use_resource", [True, False])
def test_gathered_rows_of_a_variable_have_sparse_gradients(use_resource):
    v = Variable(np.ones((3, 2), np.float32), use_resource=use_resource)
    (found,) = gradients(v.sparse_read([0, 2]), v)
    assert isinstance(found, IndexedSlices)
    np.testing.assert_array_equal(evaluate([found.indices])[0], [0, 2])
