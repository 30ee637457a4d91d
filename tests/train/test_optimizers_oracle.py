"""Three steps of each optimizer beside TensorFlow's, dense and sparse."""

from __future__ import annotations

import numpy as np
import pytest

from tideflow.client.session import Session
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph
from tideflow.ops.state import global_variables_initializer
from tideflow.ops.state.base import Variable
from tideflow.train.optimizers import adam
from tideflow.train.optimizers import first_order as optimizers

tf = pytest.importorskip("tensorflow").compat.v1
pytestmark = pytest.mark.tensorflow

CASES = [
    ("GradientDescentOptimizer", (0.1,), {}),
    ("MomentumOptimizer", (0.1, 0.9), {}),
    ("MomentumOptimizer", (0.1, 0.9), {"use_nesterov": True}),
    ("AdagradOptimizer", (0.1,), {}),
    ("AdadeltaOptimizer", (0.5,), {"epsilon": 1e-3}),
    ("AdamOptimizer", (0.1,), {}),
    ("RMSPropOptimizer", (0.1,), {"momentum": 0.5}),
    ("RMSPropOptimizer", (0.1,), {"centered": True}),
    ("FtrlOptimizer", (0.1,), {"l1_regularization_strength": 0.01, "beta": 0.5}),
    ("FtrlOptimizer", (0.1,), {"l2_shrinkage_regularization_strength": 0.1}),
    ("ProximalGradientDescentOptimizer", (0.1, 0.1, 0.2), {}),
    ("ProximalAdagradOptimizer", (0.1, 0.1, 0.05, 0.1), {}),
]
START = np.linspace(-1, 2, 8).reshape(4, 2).astype(np.float32)
ROWS = [0, 2, 2]


def ours(name, args, kwargs, use_resource, sparse):
    with Graph().as_default():
        v = Variable(START, name="v", use_resource=use_resource)
        x = v.sparse_read(ROWS) if sparse else v.value()
        loss = apply_op("Sum", apply_op("Mul", x, x), [0, 1])
        made = getattr(adam, name, None) or getattr(optimizers, name)
        optimizer = made(*args, **kwargs)
        train = optimizer.minimize(loss)
        with Session() as session:
            session.run(global_variables_initializer())
            for _ in range(3):
                session.run(train)
            kept = sorted(optimizer.variables(), key=lambda v: v.op.name)
            values = session.run([v, *kept])
            slots = {s: optimizer.get_slot(v, s).op.name for s in optimizer.get_slot_names()}
            return [k.op.name for k in kept], slots, values


def theirs(name, args, kwargs, use_resource, sparse):
    with tf.Graph().as_default():
        v = tf.Variable(START, name="v", use_resource=use_resource)
        x = tf.gather(v, ROWS) if sparse else v.value()
        optimizer = getattr(tf.train, name)(*args, **kwargs)
        train = optimizer.minimize(tf.reduce_sum(x * x))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            kept = sorted(optimizer.variables(), key=lambda v: v.op.name)
            values = session.run([v, *kept])
            slots = {s: optimizer.get_slot(v, s).op.name for s in optimizer.get_slot_names()}
            return [k.op.name for k in kept], slots, values


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize(("name", "args", "kwargs"), CASES)
def test_three_steps_end_where_tensorflow_ends(name, args, kwargs, use_resource, sparse):
    our_names, our_slots, our_values = ours(name, args, kwargs, use_resource, sparse)
    names, slots, values = theirs(name, args, kwargs, use_resource, sparse)
    assert our_names == names
    assert our_slots == slots
    for found, expected in zip(our_values, values, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
