"""The ops of lookup tables by reference, an older form of handle (see declare_by_reference)."""

from __future__ import annotations

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.ops.lookup import filling, of_tensors, ops  # noqa: F401 - what takes resources
from tideflow.ops.node_resources import declare_by_reference

_MAKERS = ("HashTable", "MutableHashTable", "MutableHashTableOfTensors")
_USERS = (
    "LookupTableFind",
    "LookupTableInsert",
    "LookupTableImport",
    "LookupTableExport",
    "LookupTableSize",
    "InitializeTable",
    "InitializeTableFromTextFile",
)

for _name in _MAKERS:
    declare_by_reference(_name, f"{_name}V2", makes=True)
for _name in _USERS:
    declare_by_reference(_name, f"{_name}V2")
not_differentiable(*_MAKERS, *_USERS)
