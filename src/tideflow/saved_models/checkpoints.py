"""The checkpoint within a saved model: the values of its objects, by the paths that lead to them.

Source: tensorflow/python/saved_model/save.py; recorded files.
"""

from __future__ import annotations

from typing import Any

from tideflow.saved_models.objects import ObjectView, variable_of
from tideflow.train.checkpoints import VALUE, full_name, saved_parts, value_key
from tideflow.train.v2.checkpoint import EagerFiles
from tideflow.wire import messages as pb


def write_checkpoint(view: ObjectView, prefix: str, sharding: Any = None) -> None:
    """Write the values of a model's objects."""
    graph_pb = pb.TrackableObjectGraph()
    named: dict[str, Any] = {}
    for node in view.nodes:
        node_pb = graph_pb.nodes.add()
        for name, number in node.children:
            node_pb.children.add(local_name=name, node_id=number)
        variable = variable_of(node.thing)
        if variable is not None:
            held = [(VALUE, variable)]
        elif node.saving is not None:
            held = [(part.attribute, part) for part in saved_parts(node.thing)]
        else:
            held = []
        node_pb.has_checkpoint_values.value = bool(held)
        for name, thing in held:
            key = value_key(node.path, name)
            node_pb.attributes.add(name=name, full_name=full_name(thing), checkpoint_key=key)
            named[key] = thing
    EagerFiles(sharding).write(prefix, named, graph_pb.SerializeToString(deterministic=True))
