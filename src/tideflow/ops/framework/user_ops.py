"""tf.user_ops: TensorFlow's example of an op of users."""

from __future__ import annotations

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.ops.export import export


@export("user_ops.my_fact")
def my_fact() -> Tensor:
    """Return a fact about factorials: a string."""
    made: Tensor = apply_op("Fact")
    return made
