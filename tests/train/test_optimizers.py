"""Optimizers: what a step changes, in which order and where."""

from __future__ import annotations

import numpy as np
import pytest

from tideflow.client.session import Session
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.framework import IndexedSlices, constant
from tideflow.ops.framework.constants import placeholder
from tideflow.ops.math.arithmetic import multiply
from tideflow.ops.state import global_variables_initializer
from tideflow.ops.state.base import Variable
from tideflow.train.optimizers import Optimizer
from tideflow.train.optimizers.adam import AdamOptimizer
from tideflow.train.optimizers.first_order import (
    AdagradOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


@pytest.fixture(params=[True, False], ids=["resource", "reference"])
def variable(request):
    return Variable([1.0, 2.0], name="v", use_resource=request.param)


def reduce_sum(x):
    return apply_op("Sum", x, 0)


def square_loss(variable):
    return reduce_sum(multiply(variable.value(), variable.value()))


def after_steps(train_op, fetches, steps=1):
    """Return the values of fetches after some steps from the initial values."""
    with Session() as session:
        session.run(global_variables_initializer())
        for _ in range(steps):
            session.run(train_op)
        return session.run(fetches)


def test_gradient_descent_steps_against_the_gradient(variable):
    train = GradientDescentOptimizer(0.25).minimize(square_loss(variable))
    np.testing.assert_allclose(after_steps(train, variable), [0.5, 1.0])


def test_momentum_remembers_earlier_gradients(variable):
    train = MomentumOptimizer(0.1, 0.5).minimize(reduce_sum(variable.value()))
    np.testing.assert_allclose(after_steps(train, variable, 2), [0.75, 1.75], rtol=1e-6)


def test_adam_moves_by_its_rate_at_first(variable):
    optimizer = AdamOptimizer(0.1)
    train = optimizer.minimize(square_loss(variable))
    power = optimizer._get_beta_accumulators()[0]
    found, beta1_power = after_steps(train, [variable, power])
    np.testing.assert_allclose(found, [0.9, 1.9], rtol=1e-5)
    np.testing.assert_allclose(beta1_power, 0.9**2, rtol=1e-6)


def test_a_learning_rate_may_be_fed_or_called(variable):
    rate = placeholder("float32", [])
    train = GradientDescentOptimizer(lambda: rate).minimize(square_loss(variable))
    with Session() as session:
        session.run(global_variables_initializer())
        session.run(train, {rate: 0.5})
        np.testing.assert_allclose(session.run(variable), [0, 0])


def test_the_global_step_is_last(graph, variable):
    step = Variable(0, name="step", trainable=False)
    train = GradientDescentOptimizer(0.1).minimize(square_loss(variable), global_step=step)
    assert after_steps(train, step, 3) == 3
    # A constant that was made after the update waits for it, and the count for the constant.
    waiting = [train, *(tensor.op for tensor in train.inputs)]
    (before,) = [before for op in waiting for before in op.control_inputs]
    assert before.name == "GradientDescent/update"
    assert train.name == "GradientDescent"
    assert graph.get_collection(GraphKeys.TRAIN_OP) == [train]


def test_slots_are_named_after_variable_and_optimizer(variable):
    optimizer = AdamOptimizer()
    optimizer.minimize(square_loss(variable))
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(variable, "m").op.name == "v/Adam"
    assert optimizer.get_slot(variable, "v").op.name == "v/Adam_1"
    names = [v.op.name for v in optimizer.variables()]
    assert names == ["beta1_power", "beta2_power", "v/Adam", "v/Adam_1"]
    assert not any(v.trainable for v in optimizer.variables())


def test_slots_belong_to_no_scope_of_the_caller(graph, variable):
    optimizer = MomentumOptimizer(0.1, 0.9)
    with graph.name_scope("train"):
        optimizer.minimize(square_loss(variable))
    assert optimizer.get_slot(variable, "momentum").op.name == "v/Momentum"


def test_slots_and_updates_are_placed_with_their_variable(graph):
    with graph.device("/job:ps/task:1"):
        v = Variable([1.0], name="v")
    optimizer = MomentumOptimizer(0.1, 0.9)
    with graph.device("/job:worker/task:0"):
        train = optimizer.minimize(square_loss(v))
    assert optimizer.get_slot(v, "momentum").op.device == v.op.device
    (update,) = [op for op in graph.get_operations() if op.type == "ResourceApplyMomentum"]
    assert b"loc:@v" in update.colocation_groups()
    assert train is not None


def test_repeated_rows_are_summed_before_they_are_applied(graph):
    v = Variable(np.ones((3, 1), np.float32), name="v")
    slices = IndexedSlices(constant([[1.0], [2.0]]), constant([1, 1]), constant([3, 1]))
    train = AdagradOptimizer(1.0, initial_accumulator_value=1.0).apply_gradients([(slices, v)])
    expected = 1 - 3 / np.sqrt(1 + 9)
    np.testing.assert_allclose(after_steps(train, v), [[1], [expected], [1]], rtol=1e-6)


def test_a_constraint_holds_after_each_step(graph):
    v = Variable([1.0, 2.0], constraint=lambda x: apply_op("Maximum", x, constant(0.75)))
    train = GradientDescentOptimizer(0.25).minimize(square_loss(v))
    np.testing.assert_allclose(after_steps(train, v), [0.75, 1.0])


def test_variables_without_gradient_stay(graph):
    used, unused = Variable([1.0]), Variable([5.0])
    optimizer = GradientDescentOptimizer(0.5)
    pairs = optimizer.compute_gradients(square_loss(used))
    assert [v for _, v in pairs] == [used, unused]
    assert pairs[1][0] is None
    train = optimizer.apply_gradients(pairs)
    np.testing.assert_allclose(np.concatenate(after_steps(train, [used, unused])), [0, 5])


@pytest.mark.parametrize("gate", [Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH])
def test_every_gate_gives_the_same_step(graph, gate):
    a, b = Variable([1.0]), Variable([2.0])
    loss = reduce_sum(multiply(a.value(), b.value()))
    train = GradientDescentOptimizer(0.5).minimize(loss, gate_gradients=gate)
    np.testing.assert_allclose(np.concatenate(after_steps(train, [a, b])), [0, 1.5])


def test_nothing_to_optimize_is_an_error(graph):
    with pytest.raises(ValueError, match="No variables to optimize"):
        GradientDescentOptimizer(0.1).minimize(constant(1.0))
    v = Variable([1.0], name="lonely")
    with pytest.raises(ValueError, match="does not depend on lonely"):
        GradientDescentOptimizer(0.1).minimize(constant(1.0))
    with pytest.raises(ValueError, match="No gradients provided"):
        GradientDescentOptimizer(0.1).apply_gradients([(None, v)])
    with pytest.raises(ValueError, match="gate_gradients is 7"):
        GradientDescentOptimizer(0.1).compute_gradients(constant(1.0), gate_gradients=7)


def test_integer_losses_are_refused(graph):
    v = Variable([1.0])
    with pytest.raises(ValueError, match="type int32"):
        GradientDescentOptimizer(0.1).compute_gradients(constant(1), [v])


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdagradOptimizer(0.1, initial_accumulator_value=0.0),
        lambda: FtrlOptimizer(0.1, learning_rate_power=0.5),
        lambda: FtrlOptimizer(0.1, l1_regularization_strength=-1.0),
    ],
)
def test_impossible_hyperparameters_are_refused(make):
    with pytest.raises(ValueError, match="must be"):
        make()


def test_an_optimizer_of_ones_own(variable):
    class SignDescent(Optimizer):
        def __init__(self):
            super().__init__(False, "SignDescent")

        def _apply_dense(self, grad, var):
            return var.assign_sub(apply_op("Sign", grad))

        _resource_apply_dense = _apply_dense

    train = SignDescent().minimize(square_loss(variable))
    np.testing.assert_allclose(after_steps(train, variable), [0, 1])


def test_two_optimizers_keep_apart(variable):
    first, second = RMSPropOptimizer(0.1), RMSPropOptimizer(0.1)
    loss = square_loss(variable)
    first.minimize(loss)
    second.minimize(loss)
    names = [v.op.name for v in second.variables()]
    assert names == ["v/RMSProp_2", "v/RMSProp_3"]
