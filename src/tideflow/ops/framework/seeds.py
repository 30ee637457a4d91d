"""Seeds: how the graph's seed and an op's own make the pair that an op carries.

Source: tensorflow/python/framework/random_seed.py.
"""

from __future__ import annotations

import weakref

from tideflow.graph.behavior import behavior
from tideflow.graph.graph import Graph, get_default_graph
from tideflow.ops.export import export

DEFAULT_GRAPH_SEED = 87654321
_MODULUS = 2**31 - 1

# How many ops of each graph took their number from it.
_counts: weakref.WeakKeyDictionary[Graph, int] = weakref.WeakKeyDictionary()


def _next_number(graph: Graph) -> int:
    if graph.is_eager:
        return graph.next_op_seed()
    number = _counts.get(graph, 0)
    _counts[graph] = number + 1
    return number


@export("get_seed", "random.get_seed")
def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """Return the two seeds of a new random op; (None, None) for a nondeterministic one.

    Under a graph seed, ops without a seed of their own are numbered from 0, so that each draws its
    own sequence and the same program draws the same ones.
    Raises: RuntimeError without any seed where tf.config.experimental.enable_op_determinism is on.
    """
    graph = get_default_graph()
    seeds: tuple[int, int]
    if graph.seed is not None:
        seeds = (graph.seed, _next_number(graph) if op_seed is None else op_seed)
    elif op_seed is not None:
        seeds = (DEFAULT_GRAPH_SEED, op_seed)
    elif behavior.is_deterministic:
        raise RuntimeError(
            "random operations need a seed since determinism is enabled: tf.random.set_seed"
        )
    else:
        return None, None
    first, second = (seed % _MODULUS for seed in seeds)
    # The pair of zeros means "nondeterministic" to the op.
    return (0, _MODULUS) if (first, second) == (0, 0) else (first, second)


@export("set_random_seed", "random.set_random_seed", "random.set_seed")
def set_random_seed(seed: int) -> None:
    """Set the default graph's seed, from which random ops made later derive theirs."""
    get_default_graph().seed = seed
