"""A network as a function that takes one training step, in each shape that programs have.

`session` is the v1 shape: a graph, placeholders, an optimizer of `tf.train`, `session.run`.  `ps`
and `in-worker` are the same on a cluster; which process is the worker is up to who makes the
target.  `function` is the TF2 shape: a `tf.function` with a tape, its updates by the optimizers'
own ops, so that neither side needs a library of optimizers.  `eager` is the same without
`tf.function`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.models.networks import Batch, Network

# Takes a batch; returns the loss.
TrainStep = Callable[[Batch], float]

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-7
_ACCUMULATED = 0.1


def session(tf: Any, network: Network, target: str, batch: Batch) -> TrainStep:
    """Return the step of a session with a target ("" for a local one)."""
    inputs = {
        name: tf.placeholder(tf.as_dtype(value.dtype), [None, *value.shape[1:]], name=name)
        for name, value in batch.items()
    }
    if "inputs" in inputs:  # a loop over time needs all sizes
        inputs["inputs"].set_shape(batch["inputs"].shape)
    weights = {
        name: tf.get_variable(name, initializer=tf.constant(value), use_resource=True)
        for name, value in network.weights.items()
    }
    loss = network.loss(tf, weights, inputs)
    optimizers = {
        "adam": lambda: tf.train.AdamOptimizer(network.rate, BETA1, BETA2, EPSILON),
        "adagrad": lambda: tf.train.AdagradOptimizer(network.rate, _ACCUMULATED),
        "sgd": lambda: tf.train.GradientDescentOptimizer(network.rate),
    }
    fetches = [loss]
    if network.optimizer:
        fetches.append(optimizers[network.optimizer]().minimize(loss))
    running = tf.Session(target)
    running.run(tf.global_variables_initializer())

    def step(values: Batch) -> float:
        feeds = {inputs[name]: value for name, value in values.items()}
        return float(running.run(fetches, feeds)[0])

    return step


def ps(tf: Any, network: Network, target: str, batch: Batch) -> TrainStep:
    """Return the step of a worker whose variables are on a parameter server."""
    setter = tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")
    with tf.device(setter):
        return session(tf, network, target, batch)


def eager(tf: Any, network: Network, target: str, batch: Batch) -> TrainStep:
    """Return the step of a program that calls each operation at once."""
    step = _tf2_step(tf, network)
    return lambda values: float(step({n: tf.constant(v) for n, v in values.items()}))


def function(tf: Any, network: Network, target: str, batch: Batch) -> TrainStep:
    """Return the step of a `tf.function`."""
    step = tf.function(_tf2_step(tf, network))
    return lambda values: float(step({n: tf.constant(v) for n, v in values.items()}))


def _tf2_step(tf: Any, network: Network) -> Callable[[dict[str, Any]], Any]:
    names = sorted(network.weights)
    weights = {name: tf.Variable(network.weights[name]) for name in names}
    apply = {"adam": _adam, "adagrad": _adagrad, "sgd": _sgd}[network.optimizer](
        tf, network, weights
    )
    compute = network.loss_in_tf2 or network.loss

    def step(values: dict[str, Any]) -> Any:
        with tf.GradientTape() as tape:
            loss = compute(tf, weights, values)
        gradients = tape.gradient(loss, [weights[name] for name in names])
        apply(dict(zip(names, gradients)))
        return loss

    return step


Apply = Callable[[dict[str, Any]], None]


def _adam(tf: Any, network: Network, weights: dict[str, Any]) -> Apply:
    slots = {
        name: [tf.Variable(np.zeros_like(value)) for _ in range(2)]
        for name, value in network.weights.items()
    }
    powers = [tf.Variable(BETA1), tf.Variable(BETA2)]

    def apply(gradients: dict[str, Any]) -> None:
        rate, one, two = powers[0].read_value(), powers[0], powers[1]
        for name, gradient in gradients.items():
            m, v = slots[name]
            tf.raw_ops.ResourceApplyAdam(
                var=weights[name].handle, m=m.handle, v=v.handle, beta1_power=rate,
                beta2_power=two.read_value(), lr=network.rate, beta1=BETA1, beta2=BETA2,
                epsilon=EPSILON, grad=tf.convert_to_tensor(gradient),
            )  # fmt: skip
        one.assign(one * BETA1)
        two.assign(two * BETA2)

    return apply


def _adagrad(tf: Any, network: Network, weights: dict[str, Any]) -> Apply:
    slots = {
        name: tf.Variable(np.full_like(value, _ACCUMULATED))
        for name, value in network.weights.items()
    }

    def apply(gradients: dict[str, Any]) -> None:
        for name, gradient in gradients.items():
            var, accum = weights[name].handle, slots[name].handle
            if name in network.sparse:
                # Rows that come twice are added up first, as optimizers do.
                rows, at = tf.unique(gradient.indices)
                summed = tf.math.unsorted_segment_sum(gradient.values, at, tf.size(rows))
                tf.raw_ops.ResourceSparseApplyAdagrad(
                    var=var, accum=accum, lr=network.rate, grad=summed, indices=rows
                )
            else:
                tf.raw_ops.ResourceApplyAdagrad(
                    var=var, accum=accum, lr=network.rate, grad=gradient
                )

    return apply


def _sgd(tf: Any, network: Network, weights: dict[str, Any]) -> Apply:
    def apply(gradients: dict[str, Any]) -> None:
        for name, gradient in gradients.items():
            weights[name].assign_sub(network.rate * gradient)

    return apply


SHAPES: dict[str, Callable[[Any, Network, str, Batch], TrainStep]] = {
    "session": session,
    "function": function,
    "eager": eager,
    "ps": ps,
    "in-worker": ps,
}
