"""How a TensorFlow 1 program begins to call operations at once, and what it asks of conversions.

Source: tensorflow/python/framework/ops.py, autograph/impl/api.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.eager import api as api  # what has to be there once operations are called at once
from tideflow.eager import eager_graph
from tideflow.eager.autograph import convert as autograph
from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export

_SYNCHRONOUS = (None, 0, 1)


@export("enable_eager_execution")
def enable_eager_execution(
    config: Any = None, device_policy: Any = None, execution_mode: Any = None
) -> None:
    """Call operations at once from now on, in the whole program.

    Args:
      config, device_policy: accepted; devices are those of the process.
      execution_mode: accepted; whoever looks at a value waits for it.
    Raises: ValueError for another mode, or where the program has built a graph already.
    """
    if execution_mode not in _SYNCHRONOUS:
        raise ValueError("execution_mode must be one of None, tf.contrib.eager.SYNC, ASYNC")
    graph = get_default_graph()
    if not graph.is_eager and graph.get_operations():
        raise ValueError("tf.enable_eager_execution must be called at program startup.")
    eager_graph.enable_eager_execution()


@export("autograph.to_graph")
def to_graph(
    entity: Callable[..., Any],
    recursive: bool = True,
    arg_values: Any = None,
    arg_types: Any = None,
    experimental_optional_features: Any = None,
) -> Callable[..., Any]:
    """Return the conversion of a function, which builds control flow where it is called.

    arg_values and arg_types are not needed.  Raises: ValueError for what cannot be converted.
    """
    return autograph.to_graph(entity, recursive, experimental_optional_features)


@export("autograph.to_code")
def to_code(
    entity: Callable[..., Any],
    recursive: bool = True,
    arg_values: Any = None,
    arg_types: Any = None,
    indentation: str = "  ",
    experimental_optional_features: Any = None,
) -> str:
    """Return the source of a function's conversion.  Raises: as to_graph."""
    return autograph.to_code(entity, recursive, experimental_optional_features)
