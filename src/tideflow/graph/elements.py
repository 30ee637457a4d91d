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
        self._unfeedable: set[int] = set()
        self._unfetchable: set[int] = set()

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Let sessions refuse a value for a tensor."""
        self._unfeedable.add(id(tensor))

    def is_feedable(self, tensor: Tensor) -> bool:
        """Whether sessions take a value for a tensor."""
        return id(tensor) not in self._unfeedable

    def prevent_fetching(self, op: Operation) -> None:
        """Let sessions refuse to run an operation for its own sake, or for its outputs."""
        self._unfetchable.add(id(op))

    def is_fetchable(self, tensor_or_op: Tensor | Operation) -> bool:
        """Whether sessions fetch a tensor or run an operation."""
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return id(op) not in self._unfetchable

    def get_operations(self) -> list[Operation]:
        """Return all operations, in the order in which they were made."""
        return list(self.operations_by_name.values())

    def get_operation_by_name(self, name: str) -> Operation:
        """Return an operation.  Raises: KeyError when there is none of that name."""
        if not isinstance(name, str):
            raise TypeError(f"an operation's name is a str, not {type(name).__name__}")
        found = self.operations_by_name.get(name)
        if found is not None:
            return found
        if ":" in name:
            raise ValueError(f"{name!r} names a tensor; an operation's name has no colon")
        raise KeyError(f"the graph has no operation named {name!r}")

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Return the tensor `operation:index`.

        Raises: TypeError for no string, ValueError for a name without an index; KeyError when there
        is no such tensor.
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor must be a string; found {name!r}")
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
                raise ValueError(f"{obj!r} is not an element of this graph.")
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

    def _unsafe_unfinalize(self) -> None:
        """Let the graph grow again, as sessions do that finalized it."""
        self._finalized = False


def unfinalize(graph: GraphElements) -> None:
    """Let a graph grow again."""
    graph._unsafe_unfinalize()
