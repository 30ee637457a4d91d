"""Calls across replicas for libraries, such as optimizers, that also run without a strategy.

Source: tensorflow/python/distribute/merge_call_interim.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.distribute.replica_context import get_replica_context, has_strategy


def strategy_supports_no_merge_call() -> bool:
    """Whether replicas need not meet to change variables: where there is no strategy."""
    return not has_strategy()


def maybe_merge_call(fn: Callable[..., Any], strategy: Any, *args: Any, **kwargs: Any) -> Any:
    """Call fn(strategy, *args, **kwargs) across replicas; at once where there is no strategy.

    Raises: RuntimeError across replicas, where there is no replica to leave.
    """
    if strategy_supports_no_merge_call():
        return fn(strategy, *args, **kwargs)
    replica = get_replica_context()
    if replica is None:
        raise RuntimeError(
            "maybe_merge_call() needs a replica context; this code runs across replicas already"
        )
    return replica.merge_call(fn, args=args, kwargs=kwargs)
