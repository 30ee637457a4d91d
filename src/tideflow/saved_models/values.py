"""The values of a saved model's objects: which tensor of its checkpoint each of them has.

Source: tensorflow/python/checkpoint/checkpoint.py; recorded files.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tideflow.formats import open_checkpoint
from tideflow.train.checkpoints import VALUE, read_object_graph
from tideflow.wire import errors
from tideflow.wire import messages as pb


class SavedValues:
    """Reads the values of objects by their numbers in a saved model.

    Args:
      prefix: of the checkpoint.
      objects_pb: the objects of the model.
    """

    def __init__(self, prefix: str, objects_pb: pb.SavedObjectGraph) -> None:
        self._prefix = prefix
        self._keys: dict[int, dict[str, str]] = {}
        graph_pb = read_object_graph(prefix)
        if graph_pb is None:
            raise errors.DataLossError(f"the checkpoint {prefix} does not tell of any objects")
        self._match(objects_pb, graph_pb)

    def _match(self, objects_pb: pb.SavedObjectGraph, graph_pb: pb.TrackableObjectGraph) -> None:
        """Find each object's counterpart, along the names from the root."""
        theirs = {0: 0}
        waiting = deque([0])
        while waiting:
            number = waiting.popleft()
            node_pb = graph_pb.nodes[theirs[number]]
            names = {child.local_name: child.node_id for child in node_pb.children}
            for child in objects_pb.nodes[number].children:
                if child.local_name in names and child.node_id not in theirs:
                    theirs[child.node_id] = names[child.local_name]
                    waiting.append(child.node_id)
        for number, their in list(theirs.items()):
            slots = {
                (slot.original_variable_node_id, slot.slot_name): slot.slot_variable_node_id
                for slot in graph_pb.nodes[their].slot_variables
            }
            for slot in objects_pb.nodes[number].slot_variables:
                key = theirs.get(slot.original_variable_node_id, -1), slot.slot_name
                if key in slots:
                    theirs[slot.slot_variable_node_id] = slots[key]
        for number, their in theirs.items():
            attributes = graph_pb.nodes[their].attributes
            self._keys[number] = {one.name: one.checkpoint_key for one in attributes}

    def has_variable(self, number: int) -> bool:
        """Whether the checkpoint has the value of a variable."""
        return VALUE in self._keys.get(number, {})

    def variable(self, number: int) -> Any:
        """Return the value of a variable."""
        return self._read([self._keys[number][VALUE]])[0]

    def parts(self, number: int, names: list[str]) -> list[Any] | None:
        """Return the tensors of an object's value; None where the checkpoint has none.

        names: of the tensors; TensorFlow gives a table one attribute, whose key those of its
        tensors begin with.
        """
        keys = self._keys.get(number, {})
        if all(name in keys for name in names):
            return self._read([keys[name] for name in names])
        for name, key in keys.items():
            if all(each.startswith(name) for each in names):
                return self._read([key + each.removeprefix(name) for each in names])
        return None

    def _read(self, keys: list[str]) -> list[Any]:
        with open_checkpoint(self._prefix) as reader:
            return [reader.read(key) for key in keys]
