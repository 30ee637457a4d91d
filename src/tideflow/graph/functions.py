"""Functions: graphs with arguments and results, as they travel and as they are made ready.

In a FunctionDef a body's node reads `argument`, or `node:output_name:index`; in a graph it reads
`node:port`.  `FunctionDefinition` turns the first into the second; `define_function` does the
reverse for a FuncGraph, the graph in which a body is built.

Source: tensorflow/core/framework/function.proto and function.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from tideflow.graph import roles
from tideflow.graph.attr_value import decode_attr, encode_attr
from tideflow.graph.function_writer import function_of_body
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.graph.graph_def import (
    MIN_CONSUMER,
    PRODUCER,
    OpDefLookup,
    read_nodes,
)
from tideflow.graph.node import (
    FunctionRef,
    Node,
    arg_sizes,
    grouped,
    tensor_count,
)
from tideflow.graph.op_def import ArgDef, AttrDef, OpDef, get_op_def, is_registered
from tideflow.graph.operation import operation_of
from tideflow.graph.shape_rules import handle_data_of
from tideflow.graph.shapes import TensorShape
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.fields import Buffer
from tideflow.wire.graph_contents import GraphContents, whole

# ---- calling


async def call_by_name(ctx: Any, step: Any, *args: Any) -> Any:
    """Run the function whose name is the node's op.  Kernel of all functions called as ops."""
    node: Node = ctx.node
    attrs = {name: node.attrs[name] for name in node.op_def.attrs}
    flat: list[Any] = []
    for value, arg in zip(args, node.op_def.inputs):
        flat.extend(value) if arg.is_list else flat.append(value)
    function = await ctx.ready(FunctionRef(node.op, attrs))
    results = await function(step, *flat)
    sizes = arg_sizes(node.op_def.outputs, node.attrs)
    if all(size is None for size in sizes):
        return results[0] if len(results) == 1 else results
    return grouped(results, sizes)


def op_def_of_function(signature_pb: pb.OpDef) -> OpDef:
    """Return the op by which a function is called."""
    return OpDef(
        signature_pb.name,
        tuple(_arg_def(arg_pb) for arg_pb in signature_pb.input_arg),
        tuple(_arg_def(arg_pb) for arg_pb in signature_pb.output_arg),
        {attr_pb.name: _attr_def(attr_pb) for attr_pb in signature_pb.attr},
        is_stateful=signature_pb.is_stateful,
        kernel=call_by_name,
        is_async=True,
        takes_step=True,
        keeps_state=signature_pb.is_stateful,
        any_device=True,
    )


def _arg_def(arg_pb: pb.OpDef.ArgDef) -> ArgDef:
    return ArgDef(
        arg_pb.name,
        dtypes.as_dtype(int(arg_pb.type)) if arg_pb.type else None,
        arg_pb.type_attr,
        arg_pb.number_attr,
        arg_pb.type_list_attr,
        arg_pb.is_ref,
    )


def _attr_def(attr_pb: pb.OpDef.AttrDef) -> AttrDef:
    required = not attr_pb.HasField("default_value")
    return AttrDef(
        attr_pb.name,
        attr_pb.type,
        None,
        attr_pb.minimum if attr_pb.has_minimum else None,
        None if required else decode_attr(attr_pb.default_value),
        required,
    )


# ---- from FunctionDef


class FunctionDefinition:
    """A function of a library.

    Attributes:
      name: unique in the library.
      op_def: the op by which it is called.
      gradient: the name of the function that is its gradient, "" where that is to be worked out.
      body: what it was made of, for gradients; None until then where it came as a message.

    Args:
      lookup: finds the op of another function that the body calls by name.
      contents: large contents to which constants of the body refer.
    """

    __slots__ = (
        "__weakref__", "_contents", "_lookup", "_proto", "body", "gradient", "name", "op_def",
    )  # fmt: skip

    def __init__(
        self,
        function_pb: pb.FunctionDef,
        lookup: OpDefLookup | None = None,
        contents: GraphContents | None = None,
    ) -> None:
        self._proto = function_pb
        self._lookup = lookup
        self._contents = contents or {}
        self.name = function_pb.signature.name
        self.op_def = op_def_of_function(function_pb.signature)
        self.gradient = ""
        self.body: Any = None

    def to_proto(self, contents: MutableMapping[bytes, Buffer] | None = None) -> pb.FunctionDef:
        """Return the function as it travels.

        contents: is given the large contents of its constants; None leaves them in the message.
        """
        if contents is None:
            made: pb.FunctionDef = whole(self._proto, self._contents)
            return made
        contents.update(self._contents)
        return self._proto

    @property
    def outline(self) -> pb.FunctionDef:
        """The function as it travels, but that its constants may lack large contents."""
        return self._proto

    def ref(self) -> FunctionRef:
        """Return an attr that names the function, and holds it."""
        return FunctionRef(self.name, definition=self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionDefinition) and self._proto == other._proto

    def __hash__(self) -> int:
        return hash(self.name)

    def instantiate(self, attrs: Mapping[str, Any]) -> list[Node]:
        """Return a new copy of the body's nodes, with the function's own attrs filled in.

        Raises: InvalidArgumentError or NotFoundError for a malformed body or a missing attr.
        """
        return _Body(self._proto, self.op_def, attrs, self._lookup, self._contents).nodes()


class _Body:
    """Turns one FunctionDef into nodes."""

    def __init__(
        self,
        function_pb: pb.FunctionDef,
        op_def: OpDef,
        attrs: Mapping[str, Any],
        lookup: OpDefLookup | None,
        contents: GraphContents,
    ) -> None:
        self.function_pb = function_pb
        self.op_def = op_def
        self.lookup = lookup
        self.contents = contents
        self.attrs = {n: a.default for n, a in op_def.attrs.items() if not a.required}
        self.attrs.update(attrs)
        self.graph_pb = pb.GraphDef(
            versions=pb.VersionDef(producer=PRODUCER, min_consumer=MIN_CONSUMER)
        )
        # Names of the _Arg nodes of each argument, and ports of each node's outputs by name.
        self.args: dict[str, list[str]] = {}
        self.ports: dict[str, dict[str, int]] = {}
        self.taken = {node_pb.name for node_pb in function_pb.node_def}

    def nodes(self) -> list[Node]:
        missing = sorted(n for n in self.op_def.attrs if n not in self.attrs)
        if missing:
            raise errors.InvalidArgumentError(
                f"function {self.op_def.name!r} needs attrs {missing} to be instantiated"
            )
        self._add_args()
        bodies = [self._add_node(given_pb) for given_pb in self.function_pb.node_def]
        for node_pb in bodies:
            node_pb.input[:] = [self._input(text) for text in node_pb.input]
        self._add_results()
        made = read_nodes(self.graph_pb, lookup=self.lookup, contents=self.contents)
        return list(made.values())

    def _types(self, args: Sequence[ArgDef]) -> list[tuple[ArgDef, list[dtypes.DType]]]:
        found = []
        for arg in args:
            if arg.type_list_attr:
                types = list(self.attrs[arg.type_list_attr])
            else:
                dtype = arg.dtype if arg.dtype is not None else self.attrs[arg.type_attr]
                types = [dtype] * (tensor_count(arg, self.attrs) if arg.number_attr else 1)
            found.append((arg, types))
        return found

    def _unique(self, name: str) -> str:
        wanted, count = name, 0
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name)
        return name

    def _add_args(self) -> None:
        index = 0
        for arg, types in self._types(self.op_def.inputs):
            self.args[arg.name] = []
            for dtype in types:
                name = self._unique(arg.name)
                self.args[arg.name].append(name)
                self._add("_Arg", name, index, dtype)
                index += 1

    def _add(self, op: str, name: str, index: int, dtype: dtypes.DType) -> pb.NodeDef:
        node_pb = self.graph_pb.node.add(name=name, op=op)
        node_pb.attr["T"].CopyFrom(encode_attr("type", dtype))
        node_pb.attr["index"].CopyFrom(encode_attr("int", index))
        return node_pb

    def _add_node(self, given_pb: pb.NodeDef) -> pb.NodeDef:
        node_pb = self.graph_pb.node.add()
        node_pb.CopyFrom(given_pb)
        op_def = self._find_op(node_pb)
        for attr_pb in node_pb.attr.values():
            if attr_pb.WhichOneof("value") == "placeholder":
                own = self.op_def.attrs.get(attr_pb.placeholder)
                if own is None:
                    raise errors.InvalidArgumentError(
                        f"node {node_pb.name!r} of function {self.op_def.name!r} wants attr "
                        f"{attr_pb.placeholder!r}, which the function does not have"
                    )
                attr_pb.CopyFrom(encode_attr(own.kind, self.attrs[own.name]))
        attrs = {
            name: decode_attr(node_pb.attr[name]) if name in node_pb.attr else attr.default
            for name, attr in op_def.attrs.items()
            if "tensor" not in attr.kind  # no tensor says how many outputs there are
        }
        ports: dict[str, int] = {}
        at = 0
        for arg, size in zip(op_def.outputs, arg_sizes(op_def.outputs, attrs)):
            ports[arg.name] = at
            at += 1 if size is None else size
        self.ports[node_pb.name] = ports
        return node_pb

    def _find_op(self, node_pb: pb.NodeDef) -> OpDef:
        if is_registered(node_pb.op):
            return get_op_def(node_pb.op)
        found = None if self.lookup is None else self.lookup(node_pb.op)
        if found is None:
            raise errors.NotFoundError(
                f"op type {node_pb.op!r} of node {node_pb.name!r} in function "
                f"{self.op_def.name!r} is not registered",
                node=node_pb.name,
            )
        return found

    def _input(self, text: str) -> str:
        """Return an input of the body as a graph writes it."""
        if text.startswith("^"):
            return text
        name, *rest = text.split(":")
        if name in self.args and len(rest) < 2:
            index = int(rest[0]) if rest else 0
            if index < len(self.args[name]):
                return self.args[name][index]
        elif len(rest) == 2 and rest[1].isdigit() and rest[0] in self.ports.get(name, {}):
            return f"{name}:{self.ports[name][rest[0]] + int(rest[1])}"
        raise errors.InvalidArgumentError(
            f"function {self.op_def.name!r} reads {text!r}, which is neither an argument nor "
            "`node:output_name:index` of a node of its body"
        )

    def _add_results(self) -> None:
        index = 0
        for arg, types in self._types(self.op_def.outputs):
            source = self.function_pb.ret.get(arg.name)
            if source is None:
                raise errors.InvalidArgumentError(
                    f"function {self.op_def.name!r} says nothing of its result {arg.name!r}"
                )
            for offset, dtype in enumerate(types):
                text = source
                if offset:
                    head, _, last = source.rpartition(":")
                    text = f"{head}:{int(last) + offset}" if head else f"{source}:{offset}"
                node_pb = self._add("_Retval", self._unique(f"{arg.name}_RetVal"), index, dtype)
                node_pb.input.append(self._input(text))
                index += 1


def library_lookup(library: Mapping[str, FunctionDefinition]) -> Callable[[str], OpDef | None]:
    """Return a lookup of the ops by which a library's functions are called."""

    def find(name: str) -> OpDef | None:
        found = library.get(name)
        return None if found is None else found.op_def

    return find


def add_to_library(
    library: MutableMapping[str, FunctionDefinition],
    library_pb: pb.FunctionDefLibrary,
    contents: GraphContents | None = None,
) -> None:
    """Enter the functions of a message.

    contents: to which constants of the functions may refer.
    Raises: InvalidArgumentError for one that is there already with another body.
    """
    for function_pb in library_pb.function:
        made = FunctionDefinition(function_pb, library_lookup(library), contents)
        known = library.setdefault(made.name, made)
        if known is not made and known != made:
            raise errors.InvalidArgumentError(
                f"the library has a function {made.name!r} already, with another body"
            )
    for gradient_pb in library_pb.gradient:
        if gradient_pb.function_name in library and gradient_pb.gradient_func in library:
            library[gradient_pb.function_name].gradient = gradient_pb.gradient_func


def names_in(nodes: Iterable[pb.NodeDef]) -> Iterator[str]:
    """Yield whatever may name a function: op types and function attrs."""
    for node_pb in nodes:
        yield node_pb.op
        for attr_pb in node_pb.attr.values():
            kind = attr_pb.WhichOneof("value")
            if kind == "func":
                yield attr_pb.func.name
            elif kind == "list":
                yield from (func_pb.name for func_pb in attr_pb.list.func)


def functions_needed(
    names: Iterable[str], library: Mapping[str, FunctionDefinition]
) -> list[FunctionDefinition]:
    """Return those of a library that have these names, and those that they call."""
    found: dict[str, FunctionDefinition] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in library and name not in found:
            found[name] = library[name]
            waiting.extend(names_in(found[name].outline.node_def))
    return list(found.values())


# ---- building


class FuncGraph(Graph):
    """The graph of a function's body.

    What it uses of the graph around it becomes a further argument (a capture).

    Attributes:
      name: the function's name.
      outer_graph: the graph around it.
      inputs: arguments, those for captures last.
      outputs: results.
      captures: (outer tensor, argument) for each capture.
      control_captures: operations of graphs around it after which the function must run.
      definition: the function of the whole body, once it is defined.
    """

    def __init__(self, name: str, outer_graph: Graph | None = None) -> None:
        super().__init__()
        self.name = name
        self.outer_graph = outer_graph or get_default_graph()
        self.building_function = True
        self.compares_elementwise = self.outer_graph.compares_elementwise
        self.seed = self.outer_graph.seed
        self.functions = self.outer_graph.functions
        self._collections = self.outer_graph._collections
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.captures: list[tuple[Tensor, Tensor]] = []
        self.control_captures: list[Operation] = []
        self.definition: FunctionDefinition | None = None
        self._captured: dict[int, Tensor] = {}
        # By the id of an argument for a capture: what was captured, as it was first known.
        self._origins: dict[int, Tensor] = {}

    @property
    def program_task(self) -> str:
        """As of the graph around it."""
        return self.outer_graph.program_task

    def add_input(self, dtype: dtypes.DType, shape: Any = None, name: str = "arg") -> Tensor:
        """Add an argument.  Arguments must come before captures."""
        attrs = {"dtype": dtype.base_dtype, "shape": TensorShape(shape)}
        with self.control_dependencies(None):
            made = self.create_op("Placeholder", [], attrs, name, apply_scopes=False).outputs[0]
        self.inputs.append(made)
        return made

    @property
    def body_operations(self) -> list[Operation]:
        """The operations but for those that stand for the arguments."""
        arguments = {id(tensor.op) for tensor in self.inputs}
        return [op for op in self.get_operations() if id(op) not in arguments]

    def control_dependencies(self, control_inputs: Any) -> Any:
        """Let new operations run only after others; the whole function runs after those outside."""
        if control_inputs is not None:
            control_inputs = [op for op in map(operation_of, control_inputs) if self._is_here(op)]
        return super().control_dependencies(control_inputs)

    def _is_here(self, item: Any) -> bool:
        """Whether an operation or tensor is not of a graph around this one, where it is noted."""
        if not isinstance(item, (Tensor, Operation)):
            return True
        graph: Graph = self
        while isinstance(graph, FuncGraph):
            graph = graph.outer_graph
            if item.graph is graph and not graph.is_eager:
                self.control_captures.append(item if isinstance(item, Operation) else item.op)
                return False
        # What was called at once has run.
        return not item.graph.is_eager

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """Return what stands in the body for a tensor of a graph around it.

        Args:
          name: of what stands for an eager tensor, which has no name of its own; made unique.
        Raises: ValueError for a tensor of a graph that is not around this one.
        """
        if tensor.graph is self:
            return tensor
        found = self._captured.get(id(tensor))
        if found is None:
            if name is None or not tensor.graph.is_eager:
                wanted = tensor.op.name.rpartition("/")[2]
            else:
                wanted = self.names.unique(name, True) + "/"
            found = self._captured[id(tensor)] = self._bring_in(tensor, wanted)
        return found

    def _brought_in(
        self, inputs: Sequence[Tensor], op_def: OpDef, attrs: dict[str, Any], name: str
    ) -> list[Tensor]:
        if all(tensor.graph is self for tensor in inputs):
            return list(inputs)
        names = _input_names(op_def, attrs)
        return [self.capture(t, f"{name}/{part}") for t, part in zip(inputs, names)]

    def _bring_in(self, tensor: Tensor, name: str) -> Tensor:
        # Sizes and axes are copied, so that shapes inside are known; what may be differentiated
        # stays outside.
        if tensor.op.op_def.role is roles.CONST and _is_parameter(tensor):
            with self.control_dependencies(None):
                attrs = dict(tensor.op.attrs)
                attrs.pop("_class", None)
                made = self.create_op("Const", [], attrs, name)
            return made.outputs[0]
        outer = self.outer_graph
        seen = tensor if tensor.graph is outer else outer.capture(tensor)
        if seen.dtype.is_ref_dtype:
            with outer.as_default(), outer.control_dependencies(None):
                seen = outer.create_op(
                    "Identity", [seen], {"T": seen.dtype.base_dtype}, "captured"
                ).outputs[0]
        if id(seen) in self._captured:  # from further out, or by the name that it has next to here
            return self._captured[id(seen)]
        made_input = self.add_input(seen.dtype, seen.dims, name)
        self.bind_capture(seen, made_input)
        return made_input

    def bind_capture(self, outer: Tensor, argument: Tensor) -> None:
        """Let an argument, the last one so far, stand for a tensor of the graph around it."""
        self._captured[id(outer)] = argument
        self._origins[id(argument)] = self.outer_graph.origin(outer)
        handle = handle_data_of(*outer.edge)
        if handle is not None:
            argument.op.attrs["_handle_dtypes"] = [handle[0]]
            argument.op.attrs["_handle_shapes"] = [TensorShape(handle[1])]
        self.captures.append((outer, argument))

    def origin(self, tensor: Tensor) -> Tensor:
        """Return the tensor outside that an argument stands for; any other tensor as it is."""
        return self._origins.get(id(tensor), tensor)

    @property
    def captured_inputs(self) -> list[Tensor]:
        """The outer tensors that a caller must pass after the arguments."""
        return [outer for outer, _ in self.captures]


def _input_names(op_def: OpDef, attrs: dict[str, Any]) -> Iterator[str]:
    """Yield a name for each input tensor: that of the argument, numbered in lists."""
    for arg, size in zip(op_def.inputs, arg_sizes(op_def.inputs, attrs)):
        yield from [arg.name] if size is None else (f"{arg.name}_{i}" for i in range(size))


def new_body(name: str, outer_graph: Graph) -> FuncGraph:
    """Return a graph for a function's body, of the class that the graph around it wants."""
    make = outer_graph.body_class or FuncGraph
    made: FuncGraph = make(name, outer_graph)
    return made


# Larger constants are data, and are passed as arguments.
_MOST_COPIED = 128
# An attr of eager constants that are never copied into bodies.
STAYS_OUTSIDE = "_stays_outside"


def _is_parameter(constant: Tensor) -> bool:
    """Whether a constant is better copied into a body than passed to it."""
    dtype = constant.dtype
    if dtype.is_floating or dtype.is_complex or STAYS_OUTSIDE in constant.op.attrs:
        return False
    return not constant.graph.is_eager or np.size(constant.op.attrs["value"]) <= _MOST_COPIED


def function_of_graph(
    graph: FuncGraph,
    name: str,
    outputs: Sequence[Tensor],
    contents: MutableMapping[bytes, Buffer] | None = None,
) -> pb.FunctionDef:
    """Return a body with these results as a message, which no library has to know.

    contents: is given the large contents of constants; None leaves them in the message.
    """
    return function_of_body(
        name,
        graph.body_operations,
        [(tensor.op, tensor.dtype.base_dtype) for tensor in graph.inputs],
        [(tensor.op.name, tensor.edge, tensor.dtype.base_dtype) for tensor in outputs],
        contents,
    )


def define_function(
    graph: FuncGraph,
    name: str | None = None,
    outputs: Sequence[Tensor] | None = None,
    library: MutableMapping[str, FunctionDefinition] | None = None,
) -> FunctionDefinition:
    """Return the function of a body, and enter it into a library.

    Args:
      name: the function's name, the body's by default.
      outputs: the function's results, the body's by default.
      library: that of the graph around the body by default.
    Raises: ValueError when the library has another function of that name.
    """
    results = graph.outputs if outputs is None else outputs
    contents: dict[bytes, Buffer] = {}
    function_pb = function_of_graph(graph, name or graph.name, results, contents)
    made = FunctionDefinition(function_pb, library_lookup(graph.functions), contents)
    library = graph.outer_graph.functions if library is None else library
    known: FunctionDefinition = library.setdefault(made.name, made)
    if known is not made and known != made:
        raise ValueError(f"the graph has a function {made.name!r} already, with another body")
    if known.name == graph.name:
        graph.definition = known
    return known
