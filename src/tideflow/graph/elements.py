"""What a graph holds: operations and tensors, found by name.

Building adds to it; a finalized graph refuses that.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.operation import Operation, Tensor


class GraphElements:
    """The operations of a graph by name, and whether more may come.

    Attributes:
      operations_by_name: in the order in which they were made.
      version: a number that grows with each change.
    """

    def __init__(self) -> None:
        self.operations_by_name: dict[str, Operation] = {}
        self.version = 0
        self._finalized = False

    def get_operations(self) -> list[Operation]:
        """Return all operations, in the order in which they were made."""
        return list(self.operations_by_name.values())

    def get_operation_by_name(self, name: str) -> Operation:
        """Return an operation.  Raises: KeyError when there is none of that name."""
        try:
            return self.operations_by_name[name]
        except KeyError:
            raise KeyError(f"the graph has no operation named {name!r}") from None

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor `operation:index`.

        Raises: ValueError for a name without an index; KeyError when there is no such tensor.
        """
        op_name, colon, port = name.rpartition(":")
        if not colon or not port.isdigit():
            raise ValueError(f"{name!r} is no tensor's name; write {name + ':0'!r} for an output")
        found = self.get_operation_by_name(op_name)
        if int(port) >= len(found.outputs):
            raise KeyError(
                f"operation {op_name!r} has {len(found.outputs)} outputs; {name!r} is not one"
            )
        return found.outputs[int(port)]

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Tensor | Operation:
        """Return the tensor or operation that obj is, names or stands for.

        Raises: TypeError for an object of another kind; ValueError for one of another graph or a
        malformed name; KeyError for a name that is not there.
        """
        convert = getattr(obj, "_as_graph_element", None)
        if convert is not None:
            obj = convert()
        if isinstance(obj, str):
            if ":" in obj and allow_tensor:
                return self.get_tensor_by_name(obj)
            if not allow_operation:
                raise ValueError(f"{obj!r} names no tensor; write {obj + ':0'!r} for an output")
            return self.get_operation_by_name(obj)
        if (isinstance(obj, Tensor) and allow_tensor) or (
            isinstance(obj, Operation) and allow_operation
        ):
            home: object = obj.graph
            if home is not self:
                raise ValueError(f"{obj!r} belongs to another graph")
            return obj
        wanted = " or ".join(
            w for w, ok in (("Tensor", allow_tensor), ("Operation", allow_operation)) if ok
        )
        raise TypeError(f"{obj!r} ({type(obj).__name__}) is no {wanted}, nor the name of one")

    def finalize(self) -> None:
        """Make the graph read-only."""
        self._finalized = True

    @property
    def finalized(self) -> bool:
        """Whether the graph is read-only."""
        return self._finalized

    def unfinalize(self) -> None:
        """Let the graph grow again."""
        self._finalized = False

    _unsafe_unfinalize = unfinalize
