"""Iterators among what savers of TensorFlow 1 save.

Source: tensorflow/python/data/experimental/ops/iterator_ops.py, python/data/ops/iterator_ops.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.ops.data.options_api import ExternalStatePolicy
from tideflow.ops.export import export
from tideflow.train.checkpoints.saveables import SaveableObject, SaveSpec


class IteratorSaveable(SaveableObject):
    """The place of an iterator in its dataset.

    Args:
      handle: the iterator's handle.
      policy: what is done about functions with state, which is not saved.
    """

    def __init__(self, handle: Tensor, policy: ExternalStatePolicy) -> None:
        place = apply_op("SerializeIterator", handle, external_state_policy=policy.value)
        spec = SaveSpec(place, "", handle.name + "_STATE", device=handle.device)
        super().__init__(handle, [spec], handle.name)

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list[Any] | None) -> Any:
        """Return an operation that brings the iterator to its place."""
        with get_default_graph().colocate_with(self.op.op):
            return apply_op("DeserializeIterator", self.op, restored_tensors[0])


@export("data.experimental.make_saveable_from_iterator")
def make_saveable_from_iterator(
    iterator: Any, external_state_policy: str | ExternalStatePolicy | None = None
) -> IteratorSaveable:
    """Return what has a Saver save an iterator's place, in the collection SAVEABLE_OBJECTS.

    Args:
      iterator: of a session.
      external_state_policy: what is done about functions with state, which is not saved: "ignore",
        "warn" or "fail"; None for "fail".
    Returns: a saveable.
    Raises: ValueError for another policy.
    Example:
      >>> import os, tempfile
      >>> iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(9))
      >>> following = iterator.get_next()
      >>> saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
      >>> tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, saveable)
      >>> saver = tf.train.Saver()
      >>> with tempfile.TemporaryDirectory() as folder, tf.Session() as session:
      ...     path = os.path.join(folder, "place")
      ...     session.run(iterator.initializer)
      ...     first, _ = session.run(following), saver.save(session, path)
      ...     int(session.run(following))
      ...     saver.restore(session, path)
      ...     int(session.run(following))
      1
      1
    """
    policy: Any = "fail" if external_state_policy is None else external_state_policy
    if isinstance(policy, str) and policy in ("warn", "ignore", "fail"):
        policy = ExternalStatePolicy[policy.upper()]
    if not isinstance(policy, ExternalStatePolicy):
        raise ValueError(
            "Invalid `ExternalStatePolicy.` Supported values include 'warn', 'ignore', and 'fail.' "
            f"Received {external_state_policy}."
        )
    return IteratorSaveable(iterator._handle, policy)
