"""`tf.function`: tracing, arguments, concrete functions, lifted variables."""

from __future__ import annotations

from tideflow.eager.functions.call_time import call_time_value
from tideflow.eager.functions.concrete_function import ConcreteFunction
from tideflow.eager.functions.traced_function import (
    Function,
    distinguish_traces,
    function,
    functions_run_eagerly,
    run_functions_eagerly,
)

__all__ = [
    "ConcreteFunction",
    "Function",
    "call_time_value",
    "distinguish_traces",
    "function",
    "functions_run_eagerly",
    "run_functions_eagerly",
]
