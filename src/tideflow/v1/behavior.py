"""What programs call to choose TensorFlow 1 behaviour."""

from __future__ import annotations

import tideflow
from tideflow.graph import defaults
from tideflow.graph.behavior import behavior
from tideflow.graph.graph import builds_functional_flow, get_default_graph
from tideflow.graph.graph_def import MIN_CONSUMER, PRODUCER
from tideflow.ops.export import export, export_value
from tideflow.ops.state import disable_resource_variables, enable_resource_variables


@export("disable_tensor_equality")
def disable_tensor_equality() -> None:
    """Let == tell whether two eager tensors or variables are the same object."""
    behavior.tensor_equality = False


@export("enable_tensor_equality")
def enable_tensor_equality() -> None:
    """Let == compare eager tensors and variables by their elements (the default)."""
    behavior.tensor_equality = True


@export("enable_control_flow_v2")
def enable_control_flow_v2() -> None:
    """Build branches and loops of graphs as functions: If, Case and While."""
    behavior.control_flow = True


@export("disable_control_flow_v2")
def disable_control_flow_v2() -> None:
    """Build branches and loops of graphs of many operations, such as Switch (the default)."""
    behavior.control_flow = False


@export("control_flow_v2_enabled")
def control_flow_v2_enabled() -> bool:
    """Whether branches and loops that are made here are functions."""
    return builds_functional_flow()


@export("disable_v2_tensorshape")
def disable_v2_tensorshape() -> None:
    """Let shapes give Dimension objects, `shape[1].value`, as TensorFlow 1 does."""
    behavior.tensorshape = False


@export("enable_v2_tensorshape")
def enable_v2_tensorshape() -> None:
    """Let shapes give numbers, and None for an unknown size (the default)."""
    behavior.tensorshape = True


@export("disable_eager_execution")
def disable_eager_execution() -> None:
    """Put operations into graphs, also where `import tideflow as tf` had made them eager."""
    defaults.eager.is_on = False


@export("disable_v2_behavior")
def disable_v2_behavior() -> None:
    """Behave as TensorFlow 1 does: graphs, reference variables, and shapes of Dimension objects."""
    disable_eager_execution()
    disable_v2_tensorshape()
    disable_resource_variables()
    disable_control_flow_v2()


@export("enable_v2_behavior")
def enable_v2_behavior() -> None:
    """Undo disable_v2_behavior, but for graphs: in `tideflow.v1` nothing is called at once."""
    enable_v2_tensorshape()
    enable_resource_variables()


@export("executing_eagerly", "executing_eagerly_outside_functions")
def executing_eagerly() -> bool:
    """Whether operations are called at once: where `import tideflow as tf` is in use, too."""
    return get_default_graph().is_eager


def _export_values() -> None:
    export_value("newaxis", None)
    for name in ("VERSION", "version.VERSION"):
        export_value(name, tideflow.__version__)
    for name in ("GRAPH_DEF_VERSION", "version.GRAPH_DEF_VERSION"):
        export_value(name, PRODUCER)
    for name in ("GRAPH_DEF_VERSION_MIN_CONSUMER", "version.GRAPH_DEF_VERSION_MIN_CONSUMER"):
        export_value(name, MIN_CONSUMER)


_export_values()
