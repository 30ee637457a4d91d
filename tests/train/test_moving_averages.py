"""Averages that follow variables."""

from __future__ import annotations

import numpy as np
import pytest

from tideflow.client.session import Session
from tideflow.graph.graph import Graph
from tideflow.ops.framework import constant
from tideflow.ops.framework.constants import placeholder
from tideflow.ops.state import global_variables_initializer
from tideflow.ops.state.base import Variable
from tideflow.train.optimizers.moving_averages import (
    ExponentialMovingAverage,
    assign_moving_average,
)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


@pytest.fixture
def session(graph):
    with Session() as made:
        yield made


@pytest.mark.parametrize("use_resource", [True, False])
def test_an_average_begins_at_the_variable_and_follows_it(session, use_resource):
    v = Variable([10.0], name="v", use_resource=use_resource)
    ema = ExponentialMovingAverage(0.75)
    update, move = ema.apply([v]), v.assign([20.0])
    session.run(global_variables_initializer())
    session.run(move)
    session.run(update)
    np.testing.assert_allclose(session.run(ema.average(v)), [12.5])
    assert ema.average_name(v) == "v/ExponentialMovingAverage"


def test_early_updates_move_faster(session):
    v = Variable(0.0)
    ema = ExponentialMovingAverage(0.999, num_updates=placeholder_step())
    update, move = ema.apply([v]), v.assign(10.0)
    session.run(global_variables_initializer())
    session.run(move)
    session.run(update)
    np.testing.assert_allclose(session.run(ema.average(v)), 9.0, rtol=1e-6)


def placeholder_step():
    return constant(0)


def test_averages_of_tensors_begin_at_zero_and_can_be_unbiased(session):
    x = placeholder("float32", [])
    plain, unbiased = ExponentialMovingAverage(0.5), ExponentialMovingAverage(0.5, zero_debias=True)
    updates = [plain.apply([x]), unbiased.apply([x])]
    session.run(global_variables_initializer())
    session.run(updates, {x: 4.0})
    found = session.run([plain.average(x), unbiased.average(x)])
    np.testing.assert_allclose(found, [2.0, 4.0])


def test_a_moving_average_without_bias_is_the_value_at_first(session):
    v = Variable(0.0, name="v")
    update = assign_moving_average(v, constant(3.0), 0.9)
    session.run(global_variables_initializer())
    session.run(update.op)
    np.testing.assert_allclose(session.run(v), 3.0, rtol=1e-6)


def test_variables_to_restore_maps_averages_to_variables():
    v, other = Variable(0.0, name="v"), Variable(0.0, name="other", trainable=False)
    ema = ExponentialMovingAverage(0.9)
    ema.apply([v])
    found = ema.variables_to_restore()
    assert found["v/ExponentialMovingAverage"] is v
    assert found["other"] is other


def test_only_floats_average():
    with pytest.raises(TypeError, match="only floats"):
        ExponentialMovingAverage(0.9).apply([Variable(1)])
