"""Where replica_device_setter puts operations."""

from __future__ import annotations

import pytest

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph
from tideflow.ops.framework import constant
from tideflow.ops.state.base import Variable
from tideflow.train.device_setter import (
    GreedyLoadBalancingStrategy,
    byte_size_load_fn,
    replica_device_setter,
)

CLUSTER = {"ps": ["a:1", "b:1"], "worker": ["c:1"]}


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("use_resource", [True, False])
def test_variables_go_round_the_servers_and_the_rest_to_the_worker(graph, use_resource):
    with graph.device(replica_device_setter(cluster=CLUSTER)):
        variables = [Variable([1.0], use_resource=use_resource) for _ in range(3)]
        total = apply_op("AddV2", variables[0].value(), constant(1.0))
    assert [v.op.device for v in variables] == [
        "/job:ps/task:0",
        "/job:ps/task:1",
        "/job:ps/task:0",
    ]
    assert total.op.device == "/job:worker"


def test_initializers_and_assignments_stay_with_their_variable(graph):
    with graph.device(replica_device_setter(cluster=CLUSTER)):
        Variable([1.0])
        second = Variable([1.0])
    assert second.initializer.device == "/job:ps/task:1"


def test_what_the_caller_asks_for_is_merged(graph):
    with graph.device(replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:3")):
        with graph.device("/device:GPU:1"):
            x = constant(1.0)
        with graph.device("/job:ps/task:1"):
            v = Variable([1.0])
    assert x.op.device == "/job:worker/task:3/device:GPU:1"
    assert v.op.device == "/job:ps/task:1"


def test_without_merging_a_device_asked_for_stands_alone(graph):
    with graph.device(replica_device_setter(ps_tasks=1, merge_devices=False)):
        with graph.device("/device:CPU:0"):
            x = constant(1.0)
    assert x.op.device == "/device:CPU:0"


def test_without_servers_there_is_no_setter():
    assert replica_device_setter() is None
    assert replica_device_setter(cluster={"worker": ["c:1"]}) is None


def test_a_cluster_may_be_a_spec():
    class Spec:
        def as_dict(self):
            return CLUSTER

    assert replica_device_setter(cluster=Spec()) is not None
    with pytest.raises(TypeError, match="must be a ClusterSpec"):
        replica_device_setter(cluster=3)


def test_a_greedy_strategy_balances_bytes(graph):
    strategy = GreedyLoadBalancingStrategy(2, byte_size_load_fn)
    with graph.device(replica_device_setter(cluster=CLUSTER, ps_strategy=strategy)):
        sizes = (100, 10, 10, 10)
        devices = [Variable(constant(0.0, shape=[n])).op.device for n in sizes]
    assert devices == ["/job:ps/task:0", *["/job:ps/task:1"] * 3]


def test_a_strategy_must_be_callable():
    with pytest.raises(TypeError, match="must be a function"):
        replica_device_setter(ps_tasks=1, ps_strategy=3)


def test_a_size_that_is_not_known_has_no_load(graph):
    handle = apply_op("VarHandleOp", dtype="float32", shape=[None, 2])
    with pytest.raises(ValueError, match="not known"):
        byte_size_load_fn(handle.op)
