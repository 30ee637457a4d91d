"""Operations and tensors: the nodes and edges of the front end's graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from traceback import FrameSummary, StackSummary
from types import CodeType, FrameType
from typing import Any, ClassVar, Protocol

from tideflow.graph import shapes
from tideflow.graph.attr_value import encode_attr
from tideflow.graph.defaults import local, session_or_default
from tideflow.graph.graph_def import node_to_def
from tideflow.graph.node import Edge, Node
from tideflow.graph.op_def import OpDef
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.type_spec import type_spec_of
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType

_PACKAGE = __name__.split(".", 1)[0]
# Where lines of code that was made from a user's come from: (file, line) of both.
line_origins: dict[tuple[str, int], tuple[str, int]] = {}


class ControlFlowContext(Protocol):
    """The branch or loop inside which ops are being made (see ops/control_flow)."""

    def adopt(
        self, name: str, op_def: OpDef, inputs: list[Tensor], controls: list[Operation]
    ) -> tuple[list[Tensor], list[Operation]]:
        """Return the inputs and controls as seen from inside, brought in where need be.

        Args:
          name: the full name of the operation about to be made; a scope for what brings in.
        """

    def added(self, op: Operation) -> None:
        """Take note of an op made inside."""


class OperationGraph(Protocol):
    """The graph of an operation, as operations and their tensors know it (see graph.Graph)."""

    is_eager: ClassVar[bool]
    operations_by_name: dict[str, Operation]
    version: int

    @property
    def compares_elementwise(self) -> bool:
        """Whether == compares the elements of tensors."""

    def as_default(self) -> AbstractContextManager[Any]:
        """Build in the graph inside `with`."""

    def name_scope(self, name: str | None) -> AbstractContextManager[str]:
        """Put new names below a scope inside `with`."""

    def control_dependencies(self, control_inputs: Any) -> AbstractContextManager[None]:
        """Let new operations run only after others inside `with`."""


class Tensor:
    """One output of an operation: a value that will exist when the graph runs."""

    # Programs may hang attributes of their own on tensors, as Keras does.
    __slots__ = ("__dict__", "__weakref__", "_dims", "consumers_list", "op", "value_index")

    # NumPy must leave `array + tensor` to the tensor.
    __array_priority__ = 100

    # What classes of libraries that stand for tensors define, too.
    OVERLOADABLE_OPERATORS: ClassVar[frozenset[str]] = frozenset(
        f"__{name}__"
        for name in (
            *("abs", "add", "and", "eq", "floordiv", "ge", "getitem", "gt", "invert", "le", "lt"),
            *("matmul", "mod", "mul", "ne", "neg", "or", "pow", "radd", "rand", "rfloordiv"),
            *("rmatmul", "rmod", "rmul", "ror", "rpow", "rsub", "rtruediv", "rxor", "sub"),
            *("truediv", "xor"),
        )
    )

    def __init__(self, op: Operation, value_index: int, dims: Dims) -> None:
        self.op = op
        self.value_index = value_index
        self._dims = dims
        self.consumers_list: list[Operation] = []

    @property
    def name(self) -> str:
        """The producer's name, a colon, and the output's index."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def shown_name(self) -> str:
        """The name in texts, which a tensor that has a value has, too."""
        return self.name

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.op.output_types[self.value_index]

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return TensorShape(self._dims)

    @property
    def dims(self) -> Dims:
        """The static shape as a plain tuple."""
        return self._dims

    @property
    def ndim(self) -> int | None:
        """The number of dimensions, or None where it is not known."""
        return None if self._dims is None else len(self._dims)

    @property
    def graph(self) -> OperationGraph:
        """The graph that it belongs to."""
        return self.op.graph

    @property
    def device(self) -> str:
        """The device requested for its producer."""
        return self.op.device

    @property
    def edge(self) -> Edge:
        """The tensor as passes know it: (producer, output index)."""
        return (self.op, self.value_index)

    def get_shape(self) -> TensorShape:
        """Return the static shape."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Add what is known of the static shape.  Raises: ValueError when it contradicts."""
        self._dims = shapes.merge(self._dims, shapes.as_dims(shape))

    def consumers(self) -> list[Operation]:
        """Return the operations that take this tensor."""
        return list(self.consumers_list)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Return the tensor's value, run in the session given or the default one."""
        return session_or_default(session, self.graph).run(self, feed_dict)

    def ref(self) -> TensorReference:
        """Return a hashable stand-in (a Tensor's == compares identity here, too)."""
        return TensorReference(self)

    def __tf_tracing_type__(self, context: Any) -> Any:
        """Return what tells traces of functions apart: its spec."""
        return type_spec_of(self)

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        raise self._disallow(
            "as a Python `bool`", "write tf.cond or tf.where for a choice, tf.logical_and for `and`"
        )

    # By this name, too, libraries take it over into classes of their own.
    __nonzero__ = __bool__

    def __iter__(self) -> Iterator[Tensor]:
        if self._dims is None or not self._dims or self._dims[0] is None:
            raise self._disallow(
                "as an iterable of unknown length", "write tf.map_fn or tf.while_loop"
            )
        return (self[i] for i in range(self._dims[0]))

    def _disallow(self, use: str, instead: str) -> Exception:
        file, line = self.op.made_at
        return errors.OperatorNotAllowedInGraphError(
            f"Using a symbolic `tf.Tensor` {use} is not allowed: {self.name!r} "
            f"{shapes.format_dims(self._dims)}, made at {file}:{line}, has no value before its "
            f"graph runs; {instead}. In a @tf.function, AutoGraph does so for code whose source "
            "it can read, unless autograph=False."
        )

    def __getitem__(self, key: Any) -> Tensor:
        raise TypeError("indexing needs the array ops; import tideflow.v1")

    def __len__(self) -> int:
        raise TypeError(f"len() of tensor {self.name}; use tf.shape(x)[0] or x.shape[0]")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"tensor {self.name} of a graph has no value yet; session.run({self.name!r}) gives it"
        )

    def __repr__(self) -> str:
        return f"<tf.Tensor {self.name!r} shape={self.shape} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        shape = "" if self._dims is None else f", shape={self.shape}"
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name}{device})'


class TensorReference:
    """A tensor as a key of a dict or a member of a set."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def deref(self) -> Any:
        """Return the tensor."""
        return self._tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorReference) and self._tensor is other._tensor

    def __hash__(self) -> int:
        return id(self._tensor)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, TensorReference):
            return NotImplemented
        return id(self._tensor) < id(other._tensor)

    def __gt__(self, other: object) -> bool:
        if not isinstance(other, TensorReference):
            return NotImplemented
        return id(self._tensor) > id(other._tensor)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._tensor!r}>"


class Operation(Node):
    """A node of a Graph, with its output tensors and the line of code that made it."""

    __slots__ = (
        "__weakref__",
        "control_flow_context",
        "frames",
        "graph",
        "index",
        "outputs",
        "static_values",
    )

    def __init__(
        self,
        graph: OperationGraph,
        name: str,
        op_def: OpDef,
        inputs: list[Edge],
        controls: list[Node],
        attrs: dict[str, Any],
        device: str,
    ) -> None:
        super().__init__(name, op_def, inputs, controls, attrs, device)
        self.graph = graph
        self.index = len(graph.operations_by_name)
        self.frames = _calling_frames()
        self.control_flow_context: ControlFlowContext | None = None
        self.outputs: list[Tensor] = []
        self.static_values: dict[int, Any] = {}

    @property
    def made_at(self) -> tuple[str, int]:
        """The user's file and line that made the operation."""
        return _location(*self.frames[:2]) if self.frames else ("", 0)

    @property
    def traceback(self) -> StackSummary:
        """The calls that led to the operation, the user's line that made it last."""
        found = StackSummary()
        for code, instruction in list(zip(self.frames[::2], self.frames[1::2]))[::-1]:
            file, line = _location(code, instruction)
            found.append(FrameSummary(file, line, code.co_name, lookup_line=False))
        return found

    @property
    def type(self) -> str:
        """The op's name, such as "MatMul"."""
        return self.op_def.name

    @property
    def inputs(self) -> list[Tensor]:
        """The input tensors, in the op's order."""
        return [_as_operation(node).outputs[port] for node, port in self.edges]

    @property
    def control_inputs(self) -> list[Operation]:
        """The operations that run before this one."""
        return [_as_operation(node) for node in self.controls]

    def get_attr(self, name: str) -> Any:
        """Return an attr's value: types as DType, others as they stand in the message.

        Strings are bytes, shapes TensorShapeProto, and tensors TensorProto.
        Raises: ValueError for an unknown attr.
        """
        if name not in self.attrs:
            raise ValueError(f"op {self.name!r} ({self.type}) has no attr {name!r}")
        value = self.attrs[name]
        kind = self.op_def.attrs[name].kind if name in self.op_def.attrs else ""
        if kind in ("shape", "tensor"):
            return getattr(encode_attr(kind, value), kind)
        if kind == "list(shape)":
            return list(encode_attr(kind, value).list.shape)
        if isinstance(value, list):
            return [_as_bytes(item) for item in value]
        return _as_bytes(value)

    @property
    def node_def(self) -> pb.NodeDef:
        """The operation as a message."""
        return node_to_def(self)

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Run the operation in the session given or the default one."""
        session_or_default(session, self.graph, "operation").run(self, feed_dict)

    def add_control_input(self, op: Operation) -> None:
        """Let another operation run before this one."""
        if op not in self.controls:
            self.controls.append(op)
            self.graph.version += 1

    def update_input(self, index: int, tensor: Tensor) -> None:
        """Replace one input; for closing loops."""
        self.edges[index] = tensor.edge
        tensor.consumers_list.append(self)
        self.graph.version += 1

    def add_outputs(self, attrs: dict[str, Any], dims: Sequence[Dims]) -> list[Tensor]:
        """Give the operation other attrs, by which it has further outputs; returns these.

        For function calls whose gradient needs more of the function.  A session that has run the
        operation keeps it as it was.
        """
        self.attrs = attrs
        self._output_types = None
        at = len(self.outputs)
        self.outputs.extend(Tensor(self, at + i, known) for i, known in enumerate(dims))
        self.graph.version += 1
        for tape in local.tapes:
            tape.extend(self, self.outputs[at:])
        return self.outputs[at:]

    def add_inputs(self, attrs: dict[str, Any], tensors: Sequence[Tensor]) -> None:
        """Give the operation other attrs, by which it has further inputs, at the end.

        For loops whose gradient needs more of the body; see add_outputs.
        """
        self.attrs = attrs
        self._output_types = None
        for tensor in tensors:
            self.edges.append(tensor.edge)
            tensor.consumers_list.append(self)
        self.graph.version += 1

    def colocation_groups(self) -> list[bytes]:
        """Return the `loc:@NAME` groups that the operation belongs to; its own if it has none."""
        return [group.encode() for group in self.colocation_names()]

    def colocation_names(self) -> list[str]:
        """Return the groups that the operation belongs to as text (see colocation_groups)."""
        return list(self.attrs.get("_class") or [f"loc:@{self.name}"])

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r} type={self.type}>"

    def __str__(self) -> str:
        return str(self.node_def)


def _as_bytes(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def operation_of(item: Any) -> Any:
    """Return the operation of a variable or tensor; anything else as it is.

    (`op` of an Operation is the name of what it computes.)
    """
    return item if isinstance(item, (Operation, str)) else getattr(item, "op", item)


def _as_operation(node: Node) -> Operation:
    assert isinstance(node, Operation)
    return node


def _calling_frames() -> tuple[Any, ...]:
    """Return code and instruction of each frame outside of the package, the innermost first.

    In one flat tuple, which costs the garbage collector nothing; lines are found when somebody
    asks, since that takes longer than all of this.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_PACKAGE) or module[len(_PACKAGE) : len(_PACKAGE) + 1] not in (
            "",
            ".",
        ):
            break
        frame = frame.f_back
    found: list[Any] = []
    while frame is not None:
        found += (frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return tuple(found)


def _location(code: CodeType, instruction: int) -> tuple[str, int]:
    """Return file and line of an instruction; those of the user's code that it was made from."""
    lines = code.co_lines()
    line = next((n for begin, end, n in lines if begin <= instruction < end), None)
    found = (code.co_filename, line or code.co_firstlineno)
    return line_origins.get(found, found)
