"""Calls of operations on other tasks, as far as they are the same from call to call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tideflow.graph.attr_value import encode_attr, encode_unknown_attr
from tideflow.graph.node import FunctionRef, arg_types
from tideflow.graph.op_def import OpDef
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType

_MOST_KEPT = 4096


@dataclass(frozen=True, slots=True)
class CallTemplate:
    """What calls of an op with the same attrs on one device have in common.

    Attributes:
      call: the encoded message, without inputs.
      types: of the outputs.
      functions: names that the attrs give.
    """

    call: bytes
    types: list[DType]
    functions: tuple[str, ...]


class CallTemplates:
    """Templates, each encoded once."""

    def __init__(self) -> None:
        # With the definition, so that no other one gets its id.
        self._kept: dict[Any, tuple[CallTemplate, OpDef]] = {}

    def get(self, op_def: OpDef, attrs: dict[str, Any], device: str) -> CallTemplate:
        """Return the template of calls of an op with these attrs."""
        try:
            key = (id(op_def), device, *attrs.items())
            found = self._kept.get(key)
        except TypeError:  # an attr without a hash
            return _encode_call(op_def, attrs, device)
        if found is None:
            found = _encode_call(op_def, attrs, device), op_def
            if len(self._kept) < _MOST_KEPT:
                self._kept[key] = found
        return found[0]


def _encode_call(op_def: OpDef, attrs: dict[str, Any], device: str) -> CallTemplate:
    operation = pb.EagerOperation(name=op_def.name, device=device)
    functions: list[str] = []
    for name, value in attrs.items():
        declared = op_def.attrs.get(name)
        if declared is None:
            operation.attrs[name].CopyFrom(encode_unknown_attr(value))
        else:
            operation.attrs[name].CopyFrom(encode_attr(declared.kind, value))
        listed = value if isinstance(value, (list, tuple)) else [value]
        functions.extend(one.name for one in listed if isinstance(one, FunctionRef))
    types = list(arg_types(op_def.outputs, attrs))
    return CallTemplate(operation.SerializeToString(), types, tuple(functions))
