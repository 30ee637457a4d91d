"""Collective ops between the devices of one process: every member in one graph."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

TYPES = [np.float32, np.float64, np.int32, np.int64, np.float16]
TWO = tf.ConfigProto(device_count={"CPU": 2})
# Without it TensorFlow does not know of each collective op that it is one.
TOGETHER = tf.RunOptions(experimental=tf.RunOptions.Experimental(collective_graph_key=1))


def check(member, about, same=None):
    """Compare what a group of two gives; member: makes the op of one of them, by its rank.

    same: makes what comes to the same, where TensorFlow's kernel is for other devices alone.
    """

    def build():
        made, instead = [], []
        for rank in range(2):
            with tf.device(f"/CPU:{rank}"):
                made.append(member(rank))
                if same is not None:
                    instead.append(same(rank))
        return [Run(made, instead=instead)] * 2

    check_both_run(build, about, config=TWO, options=TOGETHER)


def given(dtype, rank, *shape):
    count = int(np.prod(shape))
    return tf.constant((np.arange(1, count + 1) * (rank + 1)).reshape(shape).astype(dtype))


KEYS = {"group_size": 2, "group_key": 1, "instance_key": 1}
INPUTS = list(KEYS.values())
MERGES = [("Add", "Id"), ("Add", "Div"), ("Mul", "Id"), ("Min", "Id"), ("Max", "Id")]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("merge_op", "final_op"), MERGES)
def test_reducing(dtype, merge_op, final_op):
    attrs = {"merge_op": merge_op, "final_op": final_op, "subdiv_offsets": [0]}
    check(
        lambda rank: apply_op("CollectiveReduce", given(dtype, rank, 2, 3), **KEYS, **attrs),
        ["CollectiveReduce"],
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("merge_op", "final_op"), MERGES)
def test_reducing_by_keys(dtype, merge_op, final_op):
    attrs = {"merge_op": merge_op, "final_op": final_op}
    check(
        lambda rank: apply_op("CollectiveReduceV2", given(dtype, rank, 2, 3), *INPUTS, [], **attrs),
        ["CollectiveReduceV2"],
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_gathering(dtype):
    check(
        lambda rank: apply_op("CollectiveGather", given(dtype, rank, 2, 3), **KEYS, shape=[4, 3]),
        ["CollectiveGather"],
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_gathering_by_keys(dtype):
    check(
        lambda rank: apply_op("CollectiveGatherV2", given(dtype, rank, 2, 3), *INPUTS, []),
        ["CollectiveGatherV2"],
    )


@pytest.mark.parametrize("dtype", [*TYPES, np.bool_])
def test_sending_to_all(dtype):
    def member(rank):
        if rank:
            return apply_op("CollectiveBcastRecv", T=dtype, shape=[2, 3], **KEYS)
        return apply_op("CollectiveBcastSend", given(dtype, rank, 2, 3), shape=[2, 3], **KEYS)

    check(member, ["CollectiveBcastSend", "CollectiveBcastRecv"])


@pytest.mark.parametrize("dtype", [*TYPES, np.bool_])
def test_sending_to_all_by_keys(dtype):
    def member(rank):
        if rank:
            return apply_op("CollectiveBcastRecvV2", *INPUTS, [2, 3], T=dtype)
        return apply_op("CollectiveBcastSendV2", given(dtype, rank, 2, 3), *INPUTS)

    check(member, ["CollectiveBcastSendV2", "CollectiveBcastRecvV2"])


def reduced(dtype, rank, merge_op, *shape):
    attrs = {"merge_op": merge_op, "final_op": "Id"}
    return apply_op("CollectiveReduceV2", given(dtype, rank, *shape), *INPUTS, [], **attrs)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("merge_op", ["Add", "Mul", "Min", "Max"])
def test_reducing_and_scattering(dtype, merge_op):
    attrs = {"merge_op": merge_op, "final_op": "Id"}
    check(
        lambda rank: apply_op(
            "CollectiveReduceScatterV2", given(dtype, rank, 4, 3), *INPUTS, [], **attrs
        ),
        ["CollectiveReduceScatterV2"],
        lambda rank: reduced(dtype, rank, merge_op, 4, 3)[2 * rank : 2 * rank + 2],
    )


def exchanged(dtype, rank):
    return apply_op("CollectiveAllToAllV2", given(dtype, rank, 2, 3), *INPUTS, [])


@pytest.mark.parametrize("dtype", TYPES)
def test_exchanging(dtype):
    check(lambda rank: exchanged(dtype, rank), ["CollectiveAllToAllV2"])


def communicator(rank):
    return apply_op("CollectiveInitializeCommunicator", 1, rank, 2)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("reduction", ["Add", "Mul", "Min", "Max"])
def test_reducing_by_a_communicator(dtype, reduction):
    check(
        lambda rank: apply_op(
            "CollectiveReduceV3",
            given(dtype, rank, 2, 3),
            communicator(rank),
            [[0, 1]],
            reduction=reduction,
        ),
        ["CollectiveReduceV3", "CollectiveInitializeCommunicator"],
        lambda rank: reduced(dtype, rank, reduction, 2, 3),
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_exchanging_by_a_communicator(dtype):
    check(
        lambda rank: apply_op(
            "CollectiveAllToAllV3", given(dtype, rank, 2, 3), communicator(rank), [[0, 1]]
        ),
        ["CollectiveAllToAllV3", "CollectiveInitializeCommunicator"],
        lambda rank: exchanged(dtype, rank),
    )


REDUCING = {"merge_op": "Add", "final_op": "Id"}
WRONG = {
    "no members": lambda x: apply_op("CollectiveReduceV2", x, 0, 1, 1, [], **REDUCING),
    "keys in a vector": lambda x: apply_op("CollectiveReduceV2", x, [2], 1, 1, [], **REDUCING),
    "gathered with keys in a vector": lambda x: apply_op("CollectiveGatherV2", x, 2, [1], 1, []),
    "exchanged with keys in a vector": lambda x: apply_op("CollectiveAllToAllV2", x, 2, 1, [1], []),
    "exchanged by three": lambda x: apply_op("CollectiveAllToAllV2", tf.ones([3]), *INPUTS, []),
    "sent with keys in a vector": lambda x: apply_op("CollectiveBcastSendV2", x, 2, 1, [1]),
    "gathered to another shape": lambda x: apply_op("CollectiveGather", x, shape=[5, 3], **KEYS),
    "gathered to a wider shape": lambda x: apply_op("CollectiveGather", x, shape=[4, 4], **KEYS),
    "gathered to a vector": lambda x: apply_op("CollectiveGather", x, shape=[12], **KEYS),
    "sent in another shape": lambda x: apply_op("CollectiveBcastSend", x, shape=[3, 3], **KEYS),
}
BY_KEYS = {
    "CollectiveReduceV2": lambda x, keys: apply_op("CollectiveReduceV2", x, *keys, [], **REDUCING),
    "CollectiveGatherV2": lambda x, keys: apply_op("CollectiveGatherV2", x, *keys, []),
    "CollectiveAllToAllV2": lambda x, keys: apply_op("CollectiveAllToAllV2", x, *keys, []),
    "CollectiveBcastSendV2": lambda x, keys: apply_op("CollectiveBcastSendV2", x, *keys),
    "CollectiveBcastRecvV2": lambda x, keys: apply_op(
        "CollectiveBcastRecvV2", *keys, [2, 3], T=np.float32
    ),
}
WRONG_KEYS = [
    *([size, 1, 1] for size in (0, -1, [2], [[2]], [2, 2])),
    *([2, key, 1] for key in ([1], [[1]], [1, 1])),
    *([2, 1, key] for key in ([1], [[1]], [1, 1])),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_done_together(wrong):
    def build():
        made = []
        for rank in range(2):
            with tf.device(f"/CPU:{rank}"):
                x = tf.placeholder_with_default(given(np.float32, rank, 2, 3), None)
                made.append(WRONG[wrong](x))
        ops.append(made[0].op.type)
        return [Run(made)]

    ops = []
    check_both_run(build, ops, config=TWO, options=TOGETHER)


@pytest.mark.parametrize("op", BY_KEYS)
@pytest.mark.parametrize("keys", WRONG_KEYS, ids=str)
def test_keys_that_all_members_give_wrong(op, keys):
    def build():
        made = []
        for rank in range(2):
            with tf.device(f"/CPU:{rank}"):
                # What is fed is not known when the graph is built.
                late = [tf.placeholder_with_default(tf.constant(key), None) for key in keys]
                made.append(BY_KEYS[op](given(np.float32, rank, 2, 3), late))
        return [Run(made)]

    check_both_run(build, [op], config=TWO, options=TOGETHER)


@pytest.mark.parametrize("groups", [[[0, 1], [2, 3]], [[3, 1], [2, 0]], [[0], [1], [2], [3]]])
@pytest.mark.parametrize("device", [0, 1, 2, 3])
def test_the_group_of_a_device(groups, device):
    def build():
        return [Run(list(apply_op("CollectiveAssignGroupV2", groups, device, 10)))]

    check_both_run(build, ["CollectiveAssignGroupV2"])


@pytest.mark.parametrize(
    ("groups", "device"), [([[0, 1]], 2), ([0, 1], 0), ([[0, 1]], [0]), ([[0, 0]], 0)], ids=str
)
def test_a_device_of_no_group(groups, device):
    def build():
        given = [tf.placeholder(tf.int32, None) for _ in range(2)]
        made = apply_op("CollectiveAssignGroupV2", *given, 10)
        return [Run(list(made), dict(zip(given, (groups, device))))]

    check_both_run(build, ["CollectiveAssignGroupV2"])
