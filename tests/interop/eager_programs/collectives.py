"""Collectives whose members one client asks for: each call of a function is one on every task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eager_programs.registry import PS, W0, W1, Cluster, program, values

_CALLS = 3


def call_together(
    tf: Any, tasks: Sequence[str], shape: list[int], collective: Callable[[Any, int, Any], Any]
) -> list[Any]:
    """Call a function some times that runs a collective on each task's CPU; return what the tasks
    keep after each call.

    collective: given an input, the member's number and its ordering token.
    """
    results, tokens = [], []
    for task in tasks:
        with tf.device(f"{task}/device:CPU:0"):
            results.append(tf.Variable(tf.zeros(shape)))
            tokens.append(tf.Variable(0.0))

    @tf.function
    def f(scale: Any) -> None:
        for number, task in enumerate(tasks):
            with tf.device(f"{task}/device:CPU:0"):
                given = scale * tf.range(1.0, 41.0) + float(number)
                merged = collective(given, number, tokens[number])
                results[number].assign(merged)

    found = []
    for scale in range(1, _CALLS + 1):
        f(tf.constant(float(scale)))
        found += values(results)
    return found


def keys(number: int, size: int) -> dict[str, int]:
    """Return the keys of a collective of a group of its own."""
    return {"group_size": size, "group_key": 30 + number, "instance_key": 50 + number}


def keys_v2(number: int, size: int) -> dict[str, Any]:
    """Return the keys of a collective that takes them as inputs."""
    return {name: np.int32(value) for name, value in keys(number, size).items()}


ADD = {"merge_op": "Add", "final_op": "Id"}


@program()
def two_workers_add(tf: Any, at: Cluster) -> Any:
    def reduce(x: Any, number: int, token: Any) -> Any:
        return tf.raw_ops.CollectiveReduce(input=x, **keys(1, 2), **ADD, subdiv_offsets=[0])

    return call_together(tf, [W0, W1], [40], reduce)


@program()
def three_tasks_add(tf: Any, at: Cluster) -> Any:
    def reduce(x: Any, number: int, token: Any) -> Any:
        return tf.raw_ops.CollectiveReduce(input=x, **keys(2, 3), **ADD, subdiv_offsets=[0])

    return call_together(tf, [W0, W1, PS], [40], reduce)


@program()
def three_tasks_add_in_the_order_of_tokens(tf: Any, at: Cluster) -> Any:
    def reduce(x: Any, number: int, token: Any) -> Any:
        for instance in (0, 100):
            named = keys_v2(3, 3)
            named["instance_key"] += np.int32(instance)
            x = tf.raw_ops.CollectiveReduceV2(
                input=x, **named, **ADD, ordering_token=[token.handle]
            )
        return x

    return call_together(tf, [W0, W1, PS], [40], reduce)


@program()
def two_workers_gather(tf: Any, at: Cluster) -> Any:
    def gather(x: Any, number: int, token: Any) -> Any:
        return tf.raw_ops.CollectiveGather(input=x, shape=[80], **keys(4, 2))

    return call_together(tf, [W0, W1], [80], gather)


@program()
def each_task_broadcasts(tf: Any, at: Cluster) -> Any:
    def from_task(source: int) -> list[Any]:
        def broadcast(x: Any, number: int, token: Any) -> Any:
            named = {"shape": [40], **keys(5 + source, 3)}
            if number == source:
                return tf.raw_ops.CollectiveBcastSend(input=x, **named)
            return tf.raw_ops.CollectiveBcastRecv(T=tf.float32, **named)

        return call_together(tf, [W0, W1, PS], [40], broadcast)

    return [from_task(source) for source in range(3)]
