"""The ops of readers by reference, an older form of handle (see declare_by_reference)."""

from __future__ import annotations

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.ops.io import readers  # noqa: F401 - defines the ops that take resources
from tideflow.ops.node_resources import declare_by_reference

_USERS = (
    "ReaderRead",
    "ReaderReadUpTo",
    "ReaderNumRecordsProduced",
    "ReaderNumWorkUnitsCompleted",
    "ReaderSerializeState",
    "ReaderRestoreState",
    "ReaderReset",
)

declare_by_reference("WholeFileReader", "WholeFileReaderV2", makes=True)
for _name in _USERS:
    declare_by_reference(_name, f"{_name}V2")
not_differentiable("WholeFileReader", *_USERS)
