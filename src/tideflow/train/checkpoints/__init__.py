"""Checkpoints: what is saved, savers and restorers, managers, names and object graphs."""

from __future__ import annotations

from tideflow.train.checkpoints.checkpoint import Checkpoint, ObjectFiles, RestoreStatus
from tideflow.train.checkpoints.object_graph import (
    VALUE,
    Match,
    children_of,
    full_name,
    has_value,
    is_tracked,
    object_nodes,
    saved_parts,
    value_key,
)
from tideflow.train.checkpoints.object_names import OBJECT_GRAPH_KEY, read_object_graph
from tideflow.train.checkpoints.reader import CheckpointReader
from tideflow.train.checkpoints.restore_batches import restore_turns
from tideflow.train.checkpoints.saveables import all_saveable_objects, on_cpu
from tideflow.train.checkpoints.saver import Saver, import_meta_graph
from tideflow.train.checkpoints.state import checkpoint_exists, get_checkpoint_state

__all__ = [
    "OBJECT_GRAPH_KEY",
    "VALUE",
    "Checkpoint",
    "CheckpointReader",
    "Match",
    "ObjectFiles",
    "RestoreStatus",
    "Saver",
    "all_saveable_objects",
    "checkpoint_exists",
    "children_of",
    "full_name",
    "get_checkpoint_state",
    "has_value",
    "import_meta_graph",
    "is_tracked",
    "object_nodes",
    "on_cpu",
    "read_object_graph",
    "restore_turns",
    "saved_parts",
    "value_key",
]
