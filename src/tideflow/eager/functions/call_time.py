"""Values that a traced function takes anew at each of its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.eager.functions.func_graph import FunctionGraph
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.functions import FuncGraph
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.wire.dtypes import DType


class CallTime:
    """Stands among what a function captures for a value that is asked for at each call."""

    __slots__ = ("_dtype", "_make")

    def __init__(self, make: Callable[[], Any], dtype: DType) -> None:
        self._make = make
        self._dtype = dtype

    def value(self) -> Tensor:
        """Return the value for one call; while a function is traced, one for each of its calls."""
        return call_time_value(self._make, self._dtype)


def call_time_value(make: Callable[[], Any], dtype: DType) -> Tensor:
    """Return what make() gives: now, or for a function that is being traced, at each call."""
    graph = get_default_graph()
    while isinstance(graph, FuncGraph) and not isinstance(graph, FunctionGraph):
        graph = graph.outer_graph  # out of the branches and loops of the function
    if not isinstance(graph, FunctionGraph):
        return convert_to_tensor(make(), dtype)
    made = graph.add_input(dtype, (), "call_time")
    graph.captures.append((CallTime(make, dtype), made))  # type: ignore[arg-type]
    return made


def captured_now(captured: Sequence[Any]) -> list[Tensor]:
    """Return what is passed in one call for what a function captured."""
    return [item.value() if isinstance(item, CallTime) else item for item in captured]
