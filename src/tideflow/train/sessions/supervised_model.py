"""What a Supervisor uses of a graph: given by the program, found in collections, or made.

Source: tensorflow/python/training/supervisor.py for names and defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tideflow import logging
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import group
from tideflow.ops.io import merge_all
from tideflow.ops.state import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
    tables_initializer,
)
from tideflow.train.checkpoints import Saver
from tideflow.wire import dtypes

# Stands for an argument that the program leaves to the graph.
USE_DEFAULT: Any = 0


@dataclass(frozen=True)
class SupervisedModel:
    """The parts of a graph that a Supervisor runs; each may be None for none.

    Attributes:
      ready_op, ready_for_local_init_op, init_op, local_init_op: see SessionManager.
      saver: saves and restores.
      summary_op: gives all summaries merged.
      global_step: the tensor that counts steps.
    """

    ready_op: Any
    ready_for_local_init_op: Any
    init_op: Any
    local_init_op: Any
    saver: Any
    summary_op: Any
    global_step: Any

    @classmethod
    def of(
        cls,
        graph: Graph,
        *,
        ready_op: Operation | Tensor | None,
        ready_for_local_init_op: Operation | Tensor | None,
        init_op: Operation | None,
        local_init_op: Operation | None,
        saver: Any,
        summary_op: Tensor | None,
        global_step: TensorLike | None,
    ) -> SupervisedModel:
        """Return what was given, with the graph's own in place of each USE_DEFAULT."""
        with graph.as_default():
            return cls(
                _found(ready_op, GraphKeys.READY_OP, report_uninitialized_variables),
                _found(ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP),
                _found(init_op, GraphKeys.INIT_OP, global_variables_initializer),
                _found(local_init_op, GraphKeys.LOCAL_INIT_OP, _default_local_init_op),
                _found(saver, GraphKeys.SAVERS, _default_saver),
                _found(summary_op, GraphKeys.SUMMARY_OP, merge_all),
                _found(global_step, GraphKeys.GLOBAL_STEP, _default_global_step),
            )


def _found(given: Any, key: str, default: Callable[[], Any] | None = None) -> Any:
    """Return what was given or else the first of a collection, or a default that is added to it."""
    if given is not USE_DEFAULT:
        return given
    graph = get_default_graph()
    members = graph.get_collection(key)
    if members:
        return members[0]
    made = None if default is None else default()
    if made is not None:
        graph.add_to_collection(key, made)
    return made


def _default_local_init_op() -> Any:
    return group(local_variables_initializer(), tables_initializer())


def _default_saver() -> Saver | None:
    return Saver() if global_variables() else None


def _default_global_step() -> Any:
    operation = get_default_graph().operations_by_name.get("global_step")
    if operation is None or not operation.outputs:
        return None
    found = operation.outputs[0]
    if found.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
        logging.warning("Found 'global_step' is not an int type: %s", found.dtype)
        return None
    return found
