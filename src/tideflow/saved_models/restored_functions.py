"""Functions of a saved model, made ready to be called, differentiated and saved again.

All get new names, so that several models, or one that is loaded twice, do not meet.

Source: tensorflow/python/saved_model/function_deserialization.py for rules and messages.
"""

from __future__ import annotations

import inspect
import itertools
import pprint
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tideflow.eager.functions import ConcreteFunction, Function
from tideflow.eager.functions.arguments import Arguments, Layout
from tideflow.eager.functions.func_graph import FunctionGraph
from tideflow.graph import gradient_registry, roles
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.function_bodies import fill_body
from tideflow.graph.functions import (
    FuncGraph,
    FunctionDefinition,
    functions_needed,
    library_lookup,
    names_in,
)
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import get_op_def, is_registered, role_of
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec
from tideflow.ops.data.spec_files import value_of
from tideflow.ops.framework import nest
from tideflow.wire import errors
from tideflow.wire import messages as pb

_uids = itertools.count()
_traced_name = re.compile(r"__inference_(.*)_\d+").fullmatch


class _RestoredGraph(FunctionGraph):
    """The body of a loaded function, whose nodes have their order of effects already."""

    is_filled = False
    argument_names: tuple[str, ...] = ()

    def create_op(self, op_type: Any, inputs: Any, attrs: Any, *args: Any, **kwargs: Any) -> Any:
        """Make an operation."""
        if self.is_filled:
            return super().create_op(op_type, inputs, attrs, *args, **kwargs)
        made = FuncGraph.create_op(self, op_type, inputs, attrs, *args, **kwargs)
        if made.op_def.holds_functions:
            self._keep_functions(made)
        return made


class RestoredLibrary:
    """The functions of a saved model.

    Args:
      meta_pb: the model.
      bound: gives what stands for the object with a number where functions capture it.
      where: of the model, for messages.
    """

    def __init__(self, meta_pb: pb.MetaGraphDef, bound: Callable[[int], Any], where: str) -> None:
        self._objects_pb = meta_pb.object_graph_def
        self._bound = bound
        self._where = where
        self._suffix = f"_load_{next(_uids)}"
        library_pb = meta_pb.graph_def.library
        self._names = {
            function_pb.signature.name: _new_name(function_pb.signature.name)
            for function_pb in library_pb.function
        }
        self._gradients = self._register_gradients(library_pb)
        self._definitions: dict[str, FunctionDefinition] = {}
        lookup = library_lookup(self._definitions)
        for function_pb in library_pb.function:
            made = FunctionDefinition(self._renamed(function_pb), lookup)
            self._definitions[made.name] = made
        self._specs = _function_specs(self._objects_pb)
        self._concrete: dict[str, ConcreteFunction] = {}

    # ---- names

    def _renamed(self, given_pb: pb.FunctionDef) -> pb.FunctionDef:
        function_pb = pb.FunctionDef()
        function_pb.CopyFrom(given_pb)
        function_pb.signature.name = self._names[given_pb.signature.name]
        for node_pb in function_pb.node_def:
            node_pb.op = self._names.get(node_pb.op, node_pb.op)
            for attr_pb in node_pb.attr.values():
                self._rename_functions(attr_pb)
            self._rename_gradient(node_pb)
            self._rename_resource(node_pb)
            if "_output_shapes" in node_pb.attr:
                del node_pb.attr["_output_shapes"]
        return function_pb

    def _rename_functions(self, attr_pb: pb.AttrValue) -> None:
        kind = attr_pb.WhichOneof("value")
        if kind == "func":
            attr_pb.func.name = self._names.get(attr_pb.func.name, attr_pb.func.name)
        elif kind == "list":
            for func_pb in attr_pb.list.func:
                func_pb.name = self._names.get(func_pb.name, func_pb.name)

    def _rename_gradient(self, node_pb: pb.NodeDef) -> None:
        if "_gradient_op_type" not in node_pb.attr:
            return
        if role_of(node_pb.op) is roles.CALL:
            del node_pb.attr["_gradient_op_type"]  # worked out from the body
            return
        known = node_pb.attr["_gradient_op_type"].s.decode()
        # One that was not saved must not be taken for another one of this process.
        new = self._gradients.get(known, f"{known}{self._suffix}_not_saved")
        node_pb.attr["_gradient_op_type"].s = new.encode()

    def _rename_resource(self, node_pb: pb.NodeDef) -> None:
        if not is_registered(node_pb.op) or "shared_name" not in get_op_def(node_pb.op).attrs:
            return
        name = node_pb.attr["shared_name"].s.decode() or node_pb.name
        node_pb.attr["shared_name"].s = f"{name}{self._suffix}".encode()

    # ---- traces

    def concrete(self, name: str) -> ConcreteFunction:
        """Return the trace that has a name in the model.

        Raises: NotFoundError for one that uses an op that is not there.
        """
        found = self._concrete.get(name)
        if found is None:
            found = self._concrete[name] = self._made(name)
        return found

    def _made(self, name: str) -> ConcreteFunction:
        definition = self._definitions[self._names[name]]
        trace_pb = self._objects_pb.concrete_functions[name]
        args, kwargs = value_of(trace_pb.canonicalized_input_signature)
        arguments = Arguments(args, kwargs)
        graph = self._graph(definition, arguments, list(trace_pb.bound_inputs))
        outputs = _structured(value_of(trace_pb.output_signature), iter(graph.outputs))
        flat = nest.flatten(outputs, expand_composites=True)
        layout = Layout(_called_like(self._specs.get(name), args, kwargs), None)
        return ConcreteFunction(graph, outputs, flat, flat, arguments, layout)

    def _graph(
        self, definition: FunctionDefinition, arguments: Arguments, bound: list[int]
    ) -> FunctionGraph:
        graph = _RestoredGraph(definition.name, get_default_graph())
        needed = functions_needed(names_in(definition.outline.node_def), self._definitions)
        for each in needed:
            graph.functions[each.name] = each
        own = len(definition.op_def.inputs) - len(bound)

        def tell(index: int, argument: Tensor) -> None:
            if index >= own:
                graph.bind_capture(self._bound(bound[index - own]), argument)
            elif index < len(arguments.specs):
                argument.set_shape(arguments.specs[index][1])

        try:
            fill_body(graph, definition, tell)
        except errors.NotFoundError as error:
            raise error.with_message(f"{self._where}: {error.message}") from None
        graph.is_filled = True
        graph.argument_names = _argument_names(definition.outline, own)
        ops = graph.operations_by_name
        effects = definition.outline.control_ret
        graph.effects = [ops[effects[key]] for key in sorted(effects) if effects[key] in ops]
        return graph

    # ---- gradients that functions define

    def _register_gradients(self, library_pb: pb.FunctionDefLibrary) -> dict[str, str]:
        """Return new types for the ops whose gradients the model has."""
        found = {}
        for gradient_pb in library_pb.registered_gradients:
            kind = gradient_pb.registered_op_type
            if kind:
                found[kind] = f"{kind}{self._suffix}"
                rule = self._gradient_rule(gradient_pb.gradient_func)
                gradient_registry.gradient(found[kind])(rule)
        return found

    def _gradient_rule(self, name: str) -> Callable[..., Any]:
        def rule(op: Operation, *grads: Any) -> Any:
            concrete = self.concrete(name)
            bound = self._objects_pb.concrete_functions[name].bound_inputs
            captured = [self._captured_near(op, number) for number in bound]
            found = concrete.function.call([*map(convert_to_tensor, grads), *captured])
            return _structured(concrete.structured_outputs, iter(found))

        return rule

    def _captured_near(self, op: Operation, number: int) -> Any:
        """Return what a gradient captures: a tensor beside the op, if it is one of its function."""
        node_pb = self._objects_pb.nodes[number]
        if node_pb.WhichOneof("kind") == "captured_tensor":
            name, _, port = node_pb.captured_tensor.name.rpartition(":")
            graph = op.graph
            if isinstance(graph, FuncGraph) and name in graph.operations_by_name:
                return graph.operations_by_name[name].outputs[int(port)]
        return self._bound(number)


def _argument_names(function_pb: pb.FunctionDef, count: int) -> tuple[str, ...]:
    """Return the names of arguments as the program gave them, which are told beside the body."""
    names = [arg_pb.name for arg_pb in function_pb.signature.input_arg[:count]]
    for place, attrs_pb in function_pb.arg_attr.items():
        if place < count and "_user_specified_name" in attrs_pb.attr:
            names[place] = attrs_pb.attr["_user_specified_name"].s.decode()
    return tuple(names if len(set(names)) == len(names) else ())


def _new_name(name: str) -> str:
    """Return a name that nothing in the process has."""
    match = _traced_name(name)
    return f"__inference_{match.group(1) if match else name}_loaded_{next(_uids)}"


def _function_specs(objects_pb: pb.SavedObjectGraph) -> dict[str, Any]:
    """Return what is told of the Python form of traces, by their names."""
    found: dict[str, Any] = {}
    for node_pb in objects_pb.nodes:
        kind = node_pb.WhichOneof("kind")
        if kind == "function":
            for name in node_pb.function.concrete_functions:
                found[name] = signature_of(node_pb.function.function_spec)
        elif kind == "bare_concrete_function":
            bare_pb = node_pb.bare_concrete_function
            if bare_pb.HasField("function_spec"):
                signature = signature_of(bare_pb.function_spec)
                found.setdefault(bare_pb.concrete_function_name, signature)
    return found


def signature_of(spec_pb: pb.FunctionSpec) -> inspect.Signature:
    """Return the Python signature of a function of a model, without `self`."""
    spec = value_of(spec_pb.fullargspec)
    args = list(spec.args)
    defaults = list(spec.defaults or ())
    if spec_pb.is_method and args:
        args = args[1:]
    kinds, made = inspect.Parameter, []
    first_default = len(args) - len(defaults)
    for place, name in enumerate(args):
        default = defaults[place - first_default] if place >= first_default else kinds.empty
        made.append(kinds(name, kinds.POSITIONAL_OR_KEYWORD, default=default))
    if spec.varargs:
        made.append(kinds(spec.varargs, kinds.VAR_POSITIONAL))
    for name in spec.kwonlyargs:
        default = (spec.kwonlydefaults or {}).get(name, kinds.empty)
        made.append(kinds(name, kinds.KEYWORD_ONLY, default=default))
    if spec.varkw:
        made.append(kinds(spec.varkw, kinds.VAR_KEYWORD))
    return inspect.Signature(made)


def _called_like(
    signature: inspect.Signature | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return a function with a signature, that of named tensors by default."""

    def call(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a loaded function has no Python code")

    if signature is None:
        kinds = inspect.Parameter
        by_place = [kinds(f"arg{i}", kinds.POSITIONAL_OR_KEYWORD) for i in range(len(args))]
        by_name = [kinds(name, kinds.KEYWORD_ONLY) for name in kwargs]
        signature = inspect.Signature([*by_place, *by_name])
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _structured(spec: Any, tensors: Iterator[Any]) -> Any:
    """Return a structure of specs, or of tensors, with other tensors in their place."""
    if isinstance(spec, Tensor):
        return next(tensors)
    if isinstance(spec, TensorSpec):
        tensor = next(tensors)
        tensor.set_shape(spec.dims)
        return tensor
    if isinstance(spec, TypeSpec):
        return spec.from_parts([next(tensors) for _ in spec.parts])
    if isinstance(spec, Mapping):
        made = {name: _structured(spec[name], tensors) for name in sorted(spec)}
        return {name: made[name] for name in spec}
    if isinstance(spec, tuple) and hasattr(spec, "_fields"):
        return type(spec)(*[_structured(item, tensors) for item in spec])
    if isinstance(spec, (list, tuple)):
        items = [_structured(item, tensors) for item in spec]
        return items if isinstance(spec, list) else tuple(items)
    return spec


# ---- functions with several traces


class RestoredFunction(Function):
    """A loaded function: it calls the trace that fits its arguments.

    Args:
      name: for messages.
      spec_pb: its Python form.
      traces: the traces that it has.
    """

    def __init__(
        self, name: str, spec_pb: pb.FunctionSpec, traces: Sequence[ConcreteFunction]
    ) -> None:
        signature = signature_of(spec_pb)
        super().__init__(_called_like(signature, (), {}), name, autograph=False)
        self.__name__ = name
        self._told_signature = value_of(spec_pb.input_signature)
        self._restored = list(traces)

    @property
    def input_signature(self) -> Any:
        """The specs that arguments are cast to, or None."""
        return self._told_signature

    def traces_to_save(self) -> list[ConcreteFunction]:
        """Return the traces."""
        return list(self._restored)

    _list_all_concrete_functions = traces_to_save

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._layout.bind(args, kwargs)
        concrete, tensors = self._find(given.args, given.kwargs)
        return concrete.call_flat(tensors)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Return the trace that fits arguments: tensors, values or TensorSpecs."""
        if not args and not kwargs and len(self._restored) == 1:
            return self._restored[0]
        given = self._layout.bind(args, kwargs, allow_specs=True)
        return self._find(given.args, given.kwargs)[0]

    def _find(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[ConcreteFunction, list[Any]]:
        """Return the first trace that fits, without conversions if possible, and its tensors.

        Raises: ValueError where none does.
        """
        if not self._restored:
            raise ValueError("Found zero restored functions for caller function.")
        for converts in (False, True):
            for concrete in self._restored:
                wanted_args, wanted_kwargs = concrete.structured_input_signature
                found: list[Any] = []
                if _collect(tuple(wanted_args), tuple(args), converts, found) and _collect(
                    wanted_kwargs, dict(kwargs), converts, found
                ):
                    return concrete, found
        options = [
            f"Option {number}:\n  {_shown(wanted_args)}\n  Keyword arguments: {wanted_kwargs}"
            for number, (wanted_args, wanted_kwargs) in enumerate(
                (concrete.structured_input_signature for concrete in self._restored), 1
            )
        ]
        raise ValueError(
            "Could not find matching concrete function to call loaded from the SavedModel. Got:\n"
            f"  {_shown(args)}\n  Keyword arguments: {dict(kwargs)}\n\n Expected these arguments "
            f"to match one of the following {len(options)} option(s):\n\n" + "\n\n".join(options)
        )


def _shown(args: Sequence[Any]) -> str:
    lines = "\n    * ".join(pprint.pformat(value) for value in args)
    return f"Positional arguments ({len(args)} total):\n    * {lines}"


def _collect(wanted: Any, given: Any, converts: bool, found: list[Any]) -> bool:
    """Whether an argument fits what a trace takes; notes its tensors."""
    if isinstance(wanted, TensorSpec):
        tensor = _as_tensor(given, wanted, converts)
        if tensor is None or not wanted.is_compatible_with(tensor):
            return False
        found.append(tensor)
        return True
    if isinstance(wanted, TypeSpec):
        if not wanted.is_compatible_with(given):
            return False
        found.extend(given.parts if isinstance(given, TypeSpec) else _parts(given))
        return True
    if isinstance(wanted, Mapping):
        return (
            isinstance(given, Mapping)
            and wanted.keys() == given.keys()
            and all(_collect(wanted[key], given[key], converts, found) for key in sorted(wanted))
        )
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(given, (list, tuple))
            and len(wanted) == len(given)
            and all(_collect(*pair, converts, found) for pair in zip(wanted, given))
        )
    if isinstance(given, (Tensor, TypeSpec)) or nest.is_composite(given):
        return False
    return type(wanted) is type(given) and bool(wanted == given)


def _parts(value: Any) -> list[Any]:
    return nest.flatten(value, expand_composites=True)


def _as_tensor(given: Any, wanted: TensorSpec, converts: bool) -> Any:
    if isinstance(given, (Tensor, TensorSpec)) or given is None:
        return given
    if not converts:
        return None
    try:
        return convert_to_tensor(given, wanted.dtype)
    except (TypeError, ValueError):
        return None
