"""Traces of functions as a saved model holds them: bodies, what they capture, their Python form.

Source: tensorflow/python/saved_model/function_serialization.py; recorded files.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from tideflow.eager.functions import ConcreteFunction, Function
from tideflow.eager.functions.descriptions import argument_names
from tideflow.eager.functions.func_graph import FunctionGraph
from tideflow.graph import gradient_registry, roles
from tideflow.graph.attr_value import encode_attr
from tideflow.graph.functions import (
    FuncGraph,
    FunctionDefinition,
    functions_needed,
    names_in,
)
from tideflow.graph.graph import Operation
from tideflow.graph.shape_rules import handle_data_of
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.control_flow import finish
from tideflow.ops.data.spec_files import structured_value
from tideflow.saved_models.loops import with_counted_loops
from tideflow.saved_models.objects import ObjectView, specs_of
from tideflow.saved_models.signatures import argument_keywords
from tideflow.train.graphs import strip_default_attrs
from tideflow.wire import messages as pb
from tideflow.wire.shapes import encode_shape


class FunctionLibrary:
    """The functions of a model: its traces, and what these call.

    Attributes: gradients, traces of the gradients that functions define; registered, of which ops.
    """

    def __init__(self, view: ObjectView, keeps_gradients: bool) -> None:
        self._view = view
        self._definitions: dict[str, FunctionDefinition] = {}
        self._graphs: dict[str, FuncGraph] = {}
        self.gradients: list[ConcreteFunction] = []
        self.registered: list[pb.RegisteredGradient] = []
        for concrete in view.concrete:
            self._add(concrete)
        if keeps_gradients:
            self._add_gradients()

    def _add(self, concrete: ConcreteFunction) -> None:
        graph = concrete.graph
        graph.outputs = list(concrete.function.outputs)
        known = graph.functions.get(graph.name)
        made = finish(graph, graph.functions) if known is None else known
        self._note(made, graph)
        for each in functions_needed(names_in(made.outline.node_def), graph.functions):
            self._note(each, each.body.graph if each.body is not None else None)

    def _note(self, made: FunctionDefinition, graph: FuncGraph | None) -> None:
        self._definitions.setdefault(made.name, made)
        if graph is not None:
            self._graphs.setdefault(made.name, graph)

    # ---- gradients that functions define

    def _add_gradients(self) -> None:
        seen: set[str] = set()
        waiting = list(self._graphs)
        while waiting:
            name = waiting.pop()
            for kind, op in _with_own_gradient(self._graphs[name]):
                if kind in seen or not gradient_registry.has_gradient(kind):
                    continue
                seen.add(kind)
                before = set(self._graphs)
                made = _gradient_trace(kind, op)
                self._hold_intermediates(made)
                self._add(made)
                self.gradients.append(made)
                self.registered.append(
                    pb.RegisteredGradient(gradient_func=made.graph.name, registered_op_type=kind)
                )
                waiting += [new for new in self._graphs if new not in before]

    def _hold_intermediates(self, trace: ConcreteFunction) -> None:
        """Let the model hold the tensors within functions that a gradient captures."""
        names = {id(graph): name for name, graph in self._graphs.items()}
        for tensor in trace.captured_inputs:
            if self._view.holder_of(tensor) is None and id(tensor.graph) in names:
                function = names[id(tensor.graph)]
                name = self._name_in_file(function, tensor)
                self._view.add_intermediate(tensor, name, function)

    def _name_in_file(self, function: str, tensor: Any) -> str:
        for place, argument in enumerate(tensor.graph.inputs):
            if argument is tensor:
                signature_pb = self._definitions[function].outline.signature
                return f"{signature_pb.input_arg[place].name}:0"
        return f"{tensor.op.name}:{tensor.value_index}"

    # ---- messages

    def messages(self) -> list[pb.FunctionDef]:
        """Return all functions, in the order of their names."""
        return with_counted_loops(self._message(name) for name in sorted(self._definitions))

    def _message(self, name: str) -> pb.FunctionDef:
        function_pb = pb.FunctionDef()
        function_pb.CopyFrom(self._definitions[name].to_proto())
        graph = self._graphs.get(name)
        if graph is not None:
            _tell_shapes(function_pb, graph)
            if not function_pb.control_ret:
                _tell_effects(function_pb, graph)
        for node_pb in function_pb.node_def:
            strip_default_attrs(node_pb)
        return function_pb

    def traces(self) -> Iterator[tuple[str, pb.SavedConcreteFunction]]:
        """Yield the messages of traces by name: what they take, give and capture."""
        for concrete in [*self._view.concrete, *self.gradients]:
            yield concrete.graph.name, trace_message(concrete, self._view)


def _with_own_gradient(graph: FuncGraph) -> Iterator[tuple[str, Operation]]:
    for op in list(graph.get_operations()):
        kind = op.attrs.get("_gradient_op_type")
        if isinstance(kind, (str, bytes)) and op.op_def.role is not roles.CALL:
            yield kind if isinstance(kind, str) else kind.decode(), op


def _gradient_trace(kind: str, op: Operation) -> ConcreteFunction:
    rule = gradient_registry.get_gradient(kind)
    assert rule is not None

    def internal_grad_fn(unused_op: None, *result_grads: Any) -> Any:
        return rule(op, *result_grads)

    with op.graph.as_default():
        specs = [TensorSpec(tensor.dims, tensor.dtype) for tensor in op.outputs]
        traced = Function(internal_grad_fn, "internal_grad_fn", autograph=False)
        return traced.get_concrete_function(None, *specs)


def _tell_shapes(function_pb: pb.FunctionDef, graph: FuncGraph) -> None:
    """Say the shapes of arguments, and what handles among them stand for."""
    shapes = [TensorShape(tensor.dims) for tensor in graph.inputs]
    function_pb.attr["_input_shapes"].CopyFrom(encode_attr("list(shape)", shapes))
    own = len(graph.inputs) - len(graph.captures)
    for place, (arg_pb, tensor) in enumerate(zip(function_pb.signature.input_arg, graph.inputs)):
        known = handle_data_of(*tensor.edge)
        if known is not None:
            arg_pb.handle_data.add(dtype=known[0].number, shape=encode_shape(known[1]))
        if place < own:
            name = encode_attr("string", tensor.op.name)
            function_pb.arg_attr[place].attr["_user_specified_name"].CopyFrom(name)


def _tell_effects(function_pb: pb.FunctionDef, graph: FuncGraph) -> None:
    """Say which nodes run whether or not a result needs them."""
    if isinstance(graph, FunctionGraph):
        effects: Iterable[Operation] = graph.effects
    else:
        effects = (op for op in graph.body_operations if op.op_def.is_stateful)
    for name in dict.fromkeys(op.name for op in effects):
        function_pb.signature.control_output.append(name)
        function_pb.control_ret[name] = name


# ---- what is told of them


def trace_message(concrete: ConcreteFunction, view: ObjectView) -> pb.SavedConcreteFunction:
    """Return what a trace takes, gives and captures.

    Raises: AssertionError for a capture that the model does not hold; TypeError for results that
    have no form in files.
    """
    bound = [view.require_holder(tensor, concrete) for tensor in concrete.captured_inputs]
    return pb.SavedConcreteFunction(
        bound_inputs=bound,
        canonicalized_input_signature=structured_value(_canonical(concrete)),
        output_signature=structured_value(_named(specs_of(concrete.structured_outputs))),
    )


def _canonical(concrete: ConcreteFunction) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what a trace takes, with the defaults of parameters that its signature leaves out."""
    args, kwargs = concrete.structured_input_signature
    python, kinds = concrete.python_signature, inspect.Parameter
    parameters = [] if python is None else list(python.parameters.values())
    by_place = [p for p in parameters if p.kind is kinds.POSITIONAL_OR_KEYWORD]
    more = [_told_default(p.default) for p in by_place[len(args) :] if p.default is not kinds.empty]
    by_name = {
        p.name: _told_default(p.default)
        for p in parameters
        if p.kind is kinds.KEYWORD_ONLY and p.default is not kinds.empty
    }
    return (*args, *more), {**by_name, **kwargs}


def _named(spec: Any) -> Any:
    """Return a structure of specs in which that of one tensor has a name, as readers expect."""
    if isinstance(spec, TensorSpec):
        return TensorSpec(spec.dims, spec.dtype, "unknown")
    return spec


def function_message(function: Function, traces: Iterable[str]) -> pb.SavedFunction:
    """Return the message of a function with its traces."""
    found = pb.SavedFunction(concrete_functions=traces)
    found.function_spec.fullargspec.CopyFrom(_argspec(function.function_type))
    signature = function.input_signature
    told = None if signature is None else tuple(signature)
    found.function_spec.input_signature.CopyFrom(structured_value(told))
    return found


def bare_function_message(
    concrete: ConcreteFunction, is_signature: bool
) -> pb.SavedBareConcreteFunction:
    """Return the message of a trace that is called by the names of its tensors.

    is_signature: whether its tensors are given by name; a single one may come by place.
    """
    keywords = argument_keywords(concrete)
    by_place = len(keywords) if not is_signature or len(keywords) == 1 else 0
    found = pb.SavedBareConcreteFunction(
        concrete_function_name=concrete.graph.name,
        argument_keywords=keywords,
        allowed_positional_arguments=by_place,
    )
    args, kwargs = _canonical(concrete)
    names = argument_names(concrete.python_signature, len(args))
    spec = inspect.FullArgSpec(names, None, None, None, list(kwargs), None, {})
    found.function_spec.fullargspec.CopyFrom(structured_value(spec))
    found.function_spec.input_signature.CopyFrom(structured_value(None))
    return found


def _argspec(signature: inspect.Signature) -> pb.StructuredValue:
    """Return the message of a Python signature; defaults without a form in files are left out."""
    kinds = inspect.Parameter
    args, only_by_name, defaults, named_defaults = [], [], [], {}
    varargs = varkw = None
    for name, parameter in signature.parameters.items():
        if parameter.kind is kinds.VAR_POSITIONAL:
            varargs = name
        elif parameter.kind is kinds.VAR_KEYWORD:
            varkw = name
        elif parameter.kind is kinds.KEYWORD_ONLY:
            only_by_name.append(name)
            if parameter.default is not kinds.empty:
                named_defaults[name] = parameter.default
        else:
            args.append(name)
            if parameter.default is not kinds.empty:
                defaults.append(parameter.default)
    spec = inspect.FullArgSpec(
        args,
        varargs,
        varkw,
        tuple(map(_told_default, defaults)) or None,
        only_by_name,
        {name: _told_default(value) for name, value in named_defaults.items()} or None,
        {},
    )
    return structured_value(spec)


def _told_default(value: Any) -> Any:
    try:
        structured_value(value)
    except TypeError:
        return None
    return value
