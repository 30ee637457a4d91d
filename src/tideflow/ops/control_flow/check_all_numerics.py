"""One operation that checks all floats of a graph.

Source: tensorflow/python/ops/numerics.py for names and rules.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.graph import Operation, get_default_graph
from tideflow.ops.control_flow import control_dependencies, group
from tideflow.ops.export import export
from tideflow.ops.framework import check_numerics
from tideflow.wire import dtypes


@export("add_check_numerics_ops")
def add_check_numerics_ops() -> Operation:
    """Return an operation that fails if any float of the graph is infinite or no number.

    Raises: RuntimeError where operations are called at once; ValueError for a graph with branches
      or loops of TensorFlow 1.
    """
    graph = get_default_graph()
    if graph.is_eager:
        raise RuntimeError(
            "add_check_numerics_ops() is not compatible with eager execution. To check for Inf's "
            "and NaN's under eager execution, call tf.debugging.enable_check_numerics() once "
            "before executing the checked operations."
        )
    checks: list[Any] = []
    floats = (dtypes.float16, dtypes.float32, dtypes.float64)
    for op in graph.get_operations():
        for output in op.outputs:
            if output.dtype not in floats:
                continue
            if op.control_flow_context is not graph.in_force.control_flow:
                raise ValueError(
                    "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow "
                    "operations such as `tf.cond()` or `tf.while_loop()`."
                )
            with control_dependencies(checks):
                checks = [check_numerics(output, f"{op.name}:{output.value_index}")]
    return group(*checks)
