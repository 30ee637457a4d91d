"""The names that variables had when a checkpoint of objects was written.

Source: tensorflow/python/training/saver.py (object_graph_key_mapping); recorded files.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from tideflow.formats import open_checkpoint
from tideflow.wire import errors
from tideflow.wire import messages as pb

OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"


def read_object_graph(prefix: str) -> pb.TrackableObjectGraph | None:
    """Return the objects of a checkpoint, None for one that was saved by names.

    Raises: DataLossError where they cannot be read.
    """
    with open_checkpoint(prefix) as reader:
        if OBJECT_GRAPH_KEY not in reader:
            return None
        try:
            found = reader.read(OBJECT_GRAPH_KEY)
            return pb.TrackableObjectGraph.FromString(found.item())
        except DecodeError as error:
            raise errors.DataLossError(
                f"the tensor {OBJECT_GRAPH_KEY} of checkpoint {prefix} holds no message: {error}"
            ) from error


def keys_of_names(prefix: str) -> dict[str, str] | None:
    """Return the keys of a checkpoint of objects by the full names of its variables.

    None for a checkpoint that was saved by names.
    """
    graph_pb = read_object_graph(prefix)
    if graph_pb is None:
        return None
    return {
        attribute.full_name: attribute.checkpoint_key
        for node_pb in graph_pb.nodes
        for attribute in node_pb.attributes
    }
