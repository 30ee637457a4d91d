"""A traced function, made ready to be called again and again.

A call runs the graph on the context's devices, as one step of a session would.  Under a tape, what
runs is a version that also gives the intermediates that the gradient needs, and the tape notes one
operation whose gradient is another such function.

Source: tensorflow/python/eager/polymorphic_function/concrete_function.py.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.compile.inline import inline_calls
from tideflow.compile.place import place
from tideflow.compile.prune import Signature, prune
from tideflow.compile.rewrite import rewrite
from tideflow.eager.context import context
from tideflow.eager.functions.arguments import Arguments, Layout, tensor_arguments
from tideflow.eager.functions.call_time import CallTime, captured_now
from tideflow.eager.functions.descriptions import described
from tideflow.eager.functions.func_graph import FunctionGraph
from tideflow.eager.functions.function_type import FunctionType, function_type
from tideflow.eager.operation import EagerOperation
from tideflow.eager.remote import RemoteTensor
from tideflow.eager.tensor import EagerTensor
from tideflow.graph import roles
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.collection import collection_paused
from tideflow.graph.defaults import local
from tideflow.graph.function_writer import function_of_nodes
from tideflow.graph.functions import FuncGraph, FunctionDefinition, function_of_graph
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.kernel import Resources
from tideflow.graph.node import FunctionRef, Node
from tideflow.graph.op_def import get_op_def
from tideflow.graph.shapes import TensorShape
from tideflow.ops.control_flow import call_op, finish
from tideflow.ops.framework import IndexedSlices, Trackable, nest
from tideflow.ops.gradients import (
    ControlFlowGradients,
    Walk,
    WalkOptions,
    is_trainable,
    zeros_like_output,
)
from tideflow.ops.state import as_numpy
from tideflow.runtime.device import Device
from tideflow.runtime.graph_runner import GraphRunner, local_step
from tideflow.runtime.host_resources import HostResources
from tideflow.runtime.jit_memory import is_copied
from tideflow.runtime.jit_mode import jit_mode
from tideflow.runtime.loop import run_sync
from tideflow.wire import dtypes
from tideflow.wire.fields import Buffer

# What a call looks like to a tape.
_CALL = get_op_def("StatefulPartitionedCall")


def _own_resources(device: Device) -> Resources:
    return device.resources


class GraphFunction:
    """A graph with arguments and results that can be called on values.

    Args:
      graph: inputs and the effects that must run.
      outputs: flat results.
      named: the same results under the names that the function gives them, if they have others.
    """

    def __init__(
        self,
        graph: FuncGraph,
        outputs: Sequence[Tensor],
        effects: Sequence[Operation],
        named: Sequence[Tensor] | None = None,
    ) -> None:
        self.graph = graph
        self.outputs = list(outputs)
        self.named = self.outputs if named is None else list(named)
        self.effects = list(effects)
        self.output_types = [t.dtype.base_dtype for t in self.outputs]
        self._runner: GraphRunner | None = None
        position = {id(t): i for i, t in enumerate(graph.inputs)}
        # For each result that is an argument as it came, which one.
        self._handed_on = {
            at: position[id(t)] for at, t in enumerate(self.outputs) if id(t) in position
        }
        self._does_nothing = len(self._handed_on) == len(self.outputs) and not self.effects
        self._lock = threading.RLock()
        self._differentiable: _Differentiable | None = None
        self._definition: FunctionDefinition | None = None

    # ---- running

    def _ready(self) -> GraphRunner:
        runner = self._runner
        if runner is None:
            with self._lock, collection_paused():
                if self._runner is None:
                    self._runner = self._make_runner()
                runner = self._runner
        return runner

    def _pruned(self) -> list[Node]:
        """Return a copy of what the results and effects need."""
        signature = Signature(
            tuple(t.name for t in self.graph.inputs),
            tuple(t.name for i, t in enumerate(self.outputs) if i not in self._handed_on),
            tuple(op.name for op in self.effects),
        )
        found = prune(self.graph.operations_by_name, signature)
        for arg, tensor in zip(found.args, self.graph.inputs):
            if arg is not None:
                arg.device = tensor.op.device
        return found.nodes

    def _with_all_arguments(self) -> list[Node]:
        """Return a copy of what the results and effects need, and all arguments: calls give those
        that nothing needs, too."""
        nodes = self._pruned()
        there = {node.attrs["index"] for node in nodes if node.op_def.role is roles.ARGUMENT}
        for index, tensor in enumerate(self.graph.inputs):
            if index not in there:
                attrs = {"T": tensor.dtype.base_dtype, "index": index}
                name, device = f"_arg_{tensor.op.name}_0", tensor.op.device
                nodes.append(Node(name, get_op_def("_Arg"), [], [], attrs, device))
        return nodes

    def _make_runner(self) -> GraphRunner:
        home = context()
        devices = home.devices.devices
        nodes = rewrite(inline_calls(self._pruned(), home.library.get))
        resources: Callable[[Device], Resources]
        if any(device.accelerator is not None for device in devices):
            place(nodes, [d.name for d in devices], allow_soft_placement=True)
            resources = _own_resources
        else:
            # All of it can run as one program, whichever CPU it was asked to run on.
            for node in nodes:
                node.device = ""
            together = HostResources(devices)
            resources = lambda device: together  # noqa: E731
        # Each function has random sequences of its own, whatever its nodes are called.
        state = home.own_state()
        return GraphRunner(
            nodes,
            home.devices,
            state,
            resources,
            home.functions.with_state(state).get,
            jit_mode(home.config.graph_options),
        )

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Return the results for the values of all inputs."""
        if self._does_nothing:
            return self._with_handed_on([], values)
        runner = self._ready()
        step = local_step(0, may_wait=True)
        if runner.is_synchronous:
            found = runner.run(step, values)
        elif runner.waits_once:
            found = runner.run_around_wait(step, values)
        else:
            found = run_sync(runner.run_async(step, values))
        return self._with_handed_on(found, values)

    def _with_handed_on(self, found: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """Return all results: what running gave, and arguments that are results as they came."""
        if not self._handed_on:
            return list(found)
        made = iter(found)
        return [
            given[self._handed_on[i]] if i in self._handed_on else next(made)
            for i in range(len(self.outputs))
        ]

    # ---- calling

    def call(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return the results as tensors; inputs are all of the graph's, captures included."""
        graph = get_default_graph()
        if not graph.is_eager:
            return self._call_in_graph(inputs)
        tapes = [tape for tape in local.tapes if tape.wants(inputs)]
        if tapes and any(is_trainable(t) for t in self.outputs):
            return self._call_under(tapes, inputs)
        return self._run_tensors(inputs)

    def _run_tensors(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run the graph, on other tasks where its nodes or inputs need it."""
        cluster = context().cluster
        if cluster is not None:
            wanted = get_default_graph().wanted_device()  # type: ignore[attr-defined]
            device = cluster.devices.find(wanted) if wanted else None
            if self._spans(cluster, inputs, device):
                found: list[Tensor] = []
                if not self._does_nothing:
                    default = device or context().default_device.name
                    types = [t for i, t in enumerate(self.output_types) if i not in self._handed_on]
                    found = cluster.operations.call_function(
                        self._entered(), inputs, types, default
                    )
                return self._with_handed_on(found, list(map(_as_result, inputs)))
        return self._wrap(self.run(self._values_of(inputs)))

    def _values_of(self, inputs: Sequence[Any]) -> list[Any]:
        values = [tensor._value for tensor in inputs]
        if any(map(is_copied, values)) and self._ready().compiled_regions:
            # Else it were copied at every call that it is an argument of.
            values = [tensor.aligned_value() for tensor in inputs]
        return values

    def _spans(self, cluster: Any, inputs: Sequence[Tensor], device: str | None) -> bool:
        if device is not None and cluster.devices.is_remote(device):
            return True
        if any(isinstance(t, RemoteTensor) for t in inputs):
            return True
        return any(
            op.device and cluster.devices.is_remote(cluster.devices.find(op.device) or "")
            for op in self.graph.get_operations()
        )

    def _entered(self) -> str:
        """Return the function's name in the library, where it is known as long as it lives."""
        if self._definition is None:
            with self._lock:
                if self._definition is None:
                    name = f"{self.graph.name}_{context().unique_id()}"
                    contents: dict[bytes, Buffer] = {}
                    function_pb = function_of_nodes(name, self._with_all_arguments(), contents)
                    made = FunctionDefinition(function_pb, contents=contents)
                    context().library.known[name] = made
                    self._definition = made
        return self._definition.name

    def ref(self) -> FunctionRef:
        """Return an attr that names the function, for an operation of the default graph."""
        return self.enter(get_default_graph()).ref()

    def enter(self, graph: Any) -> FunctionDefinition:
        """Enter the function in the library of a graph; returns it as that knows it."""
        known: FunctionDefinition | None = graph.functions.get(self.graph.name)
        if known is None:
            self.graph.outputs = list(self.named)
            known = finish(self.graph, graph.functions)
        return known

    def function_def(self, name: str) -> Any:
        """Return the graph as a FunctionDef message."""
        function_pb = function_of_graph(self.graph, name, self.named)
        for op in self.effects:
            function_pb.signature.control_output.append(op.name)
            function_pb.control_ret[op.name] = op.name
        return function_pb

    def _wrap(self, values: Sequence[Any]) -> list[Tensor]:
        return [
            EagerTensor(as_value(value), dtype) for value, dtype in zip(values, self.output_types)
        ]

    def _call_in_graph(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Put a call into the graph that is being built."""
        self.enter(get_default_graph())
        return call_op(self.graph, inputs).outputs[: len(self.outputs)]

    def _call_under(self, tapes: Sequence[Any], inputs: Sequence[Tensor]) -> list[Tensor]:
        """Call a version that keeps what gradients need, and let the tapes note it.

        An inner tape differentiates the function; a tape around it also differentiates what that
        one used, so its note has the intermediates as results, too.
        """
        depth = len(tapes) + any(tape.is_persistent for tape in tapes)
        versions = [self]
        for _ in range(depth):
            versions.append(versions[-1].differentiable.forward)
        everything = versions[-1]._run_tensors(inputs)
        # Outer ones first: they differentiate what inner ones compute at once.
        for level, tape in zip(reversed(range(len(tapes))), tapes):
            version = versions[depth - 1 if tape.is_persistent else level]
            made = EagerOperation(
                get_default_graph(),
                _CALL,
                {"f": FunctionRef(self.graph.name)},
                inputs,
                everything[: len(version.outputs)],
                "",
            )
            tape.record(made, inputs, version.differentiable.backward(inputs, everything))
        return everything[: len(self.outputs)]

    @property
    def differentiable(self) -> _Differentiable:
        """The function with its gradient, made on first use."""
        if self._differentiable is None:
            with self._lock:
                if self._differentiable is None:
                    self._differentiable = _Differentiable(self)
        return self._differentiable


class _Differentiable:
    """The forward version of a function, and the function of its gradient.

    Attributes:
      forward: gives the results, then the intermediates that the gradient uses.
    """

    def __init__(self, function: GraphFunction) -> None:
        graph = function.graph
        self.function = function
        self.seeded = [
            i
            for i, t in enumerate(function.outputs)
            if is_trainable(t) and t.dtype.base_dtype is not dtypes.resource
        ]
        self.gradient = FunctionGraph(f"{graph.name}_gradient", graph)
        xs = [x for x in graph.inputs if is_trainable(x)]
        ys = [function.outputs[i] for i in self.seeded]
        saved, local.tapes = local.tapes, ()
        try:
            with self.gradient.as_default():
                seeds = [self.gradient.add_input(y.dtype, y.dims, "grad") for y in ys]
                flow = ControlFlowGradients.here(self.gradient)
                walk = Walk(self.gradient, ys, xs, xs, WalkOptions(), flow)
                walk.seed(seeds)
                walk.run()
                # One entry for each input of the forward graph: a tensor, slices or None.
                self.structure = [
                    walk.gradient_of(x) if is_trainable(x) else None for x in graph.inputs
                ]
                results = [self._own(t) for t in _flat(self.structure)]
        finally:
            local.tapes = saved
        self.captured = self.gradient.captured_inputs
        known = {id(t) for t in (*graph.inputs, *function.outputs)}
        self.saved = [t for t in self.captured if id(t) not in known]
        self.forward = GraphFunction(graph, [*function.outputs, *self.saved], function.effects)
        # Its body does not belong to the forward one any more: what it captures is passed.
        self.gradient.captures = []
        self.call_gradient = GraphFunction(self.gradient, results, self.gradient.effects)

    def _own(self, tensor: Any) -> Tensor:
        made = convert_to_tensor(tensor)
        return made if made.graph is self.gradient else self.gradient.capture(made)

    def backward(self, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Callable[..., Any]:
        """Return the gradient of one call: from one for each result to one for each input."""
        function = self.function
        outer = dict(zip(map(id, function.graph.inputs), inputs))
        outer.update(zip(map(id, [*function.outputs, *self.saved]), results))
        captured = [outer[id(t)] for t in self.captured]

        def differentiate(*grads: Any) -> list[Any]:
            seeds = [
                convert_to_tensor(grads[i] if grads[i] is not None else _zeros(results[i]))
                for i in self.seeded
            ]
            found = iter(self.call_gradient.call([*seeds, *captured]))
            return [_rebuilt(entry, found) for entry in self.structure]

        return differentiate


def _zeros(tensor: Tensor) -> Tensor:
    found = zeros_like_output(tensor)
    if found is None:
        found = apply_op("ZerosLike", tensor)
    return found


def _flat(structure: Sequence[Any]) -> list[Tensor]:
    flat: list[Tensor] = []
    for entry in structure:
        if entry is not None:
            flat.extend(nest.flatten(entry, expand_composites=True))
    return flat


def _rebuilt(entry: Any, found: Any) -> Any:
    if entry is None:
        return None
    if isinstance(entry, IndexedSlices):
        values, indices = next(found), next(found)
        shape = None if entry.dense_shape is None else next(found)
        return IndexedSlices(values, indices, shape)
    return next(found)


def _as_result(tensor: Any) -> Tensor:
    """Return an argument as a result, which tapes tell from it where it is here."""
    if isinstance(tensor, RemoteTensor):
        return tensor
    return EagerTensor(tensor.held, tensor.dtype)


def as_value(value: Any) -> Any:
    """Return a result as an eager tensor holds it: with NumPy, not on a compiler's device."""
    return as_numpy(value) if type(value).__module__.startswith("jax") else value


class ConcreteFunction(Trackable):
    """One trace of a function: called on tensors of the types and shapes that it was traced for.

    Attributes:
      graph: what was traced.
      structured_outputs: results in the function's own structure, as tensors of the graph.

    Args:
      flat: the tensors of these, with what they are made of, and None where there is no result.
      made: what computes each of these.
    """

    def __init__(
        self,
        graph: FunctionGraph,
        structured_outputs: Any,
        flat: Sequence[Any],
        made: Sequence[Any],
        arguments: Arguments,
        layout: Layout,
    ) -> None:
        self.graph = graph
        self._layout = layout
        self.structured_outputs = structured_outputs
        self.arguments = arguments
        self._present = [leaf is not None for leaf in flat]
        self._plain = isinstance(structured_outputs, Tensor)
        graph.structured_outputs = structured_outputs
        graph.outputs = [t for t in flat if t is not None]
        computed = [t for t in made if t is not None]
        self.function = GraphFunction(graph, computed, graph.effects, graph.outputs)
        # As they are outside of all traces: a call may come from another one than the first did.
        captures: list[tuple[Any, Tensor]] = list(graph.captures)
        self._captured: list[Any] = [
            outer if isinstance(outer, CallTime) else graph.origin(inner)
            for outer, inner in captures
        ]
        self._has_call_time = any(isinstance(outer, CallTime) for outer in self._captured)
        self._variables = [v for v in graph.variables if v.trainable]

    @property
    def name(self) -> bytes:
        """The name in the library."""
        return self.graph.name.encode()

    def function_ref(self) -> FunctionRef:
        """Return an attr that names the function, for an operation of the default graph."""
        return self.function.ref()

    def traces_to_save(self) -> list[ConcreteFunction]:
        """Return the traces of the function: this one."""
        return [self]

    def add_to_graph(self, g: Any = None, overwrite: bool = False) -> None:
        """Enter the function in the library of a graph, the default one if left out.

        Eager ones need no entry; overwrite: accepted, since names are unique.
        """
        graph = get_default_graph() if g is None else g
        if not graph.is_eager:
            self.function.enter(graph)

    def add_gradient_functions_to_graph(self, g: Any = None) -> None:
        """Do as add_to_graph: a gradient is made of the function where one is asked for."""
        self.add_to_graph(g)

    # ---- what it takes and gives

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with a TensorSpec for each tensor."""
        return self.arguments.named_specs(self._layout.python)

    @property
    def python_signature(self) -> inspect.Signature | None:
        """The signature of the Python function that was traced, None for one without."""
        return self._layout.python

    @property
    def function_type(self) -> FunctionType:
        """The arguments, with their specs as annotations."""
        return function_type(self._layout.python, self.structured_input_signature)

    @property
    def inference_fn(self) -> GraphFunction:
        """The graph as a function of arguments and captures."""
        return self.function

    @property
    def output_shapes(self) -> Any:
        """The shapes of the results, in their structure; of None an unknown one."""
        return nest.map_structure(
            lambda leaf: TensorShape(None) if leaf is None else leaf.shape, self.structured_outputs
        )

    @property
    def output_dtypes(self) -> Any:
        """The element types of the results, in their structure; None of None."""
        return nest.map_structure(
            lambda leaf: None if leaf is None else leaf.dtype, self.structured_outputs
        )

    @property
    def function_def(self) -> Any:
        """The function as a FunctionDef message."""
        return self.function.function_def(self.graph.name)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """Return text of what it takes and gives."""
        parameters = self.arguments.described(self._layout.python)
        result = described(self.structured_outputs)
        if not verbose:
            taken = ", ".join(f"{name}: {kind}" for name, _, kind in parameters)
            return f"({taken}) -> {result}"
        lines = [f"  {name} ({how}): {kind}" for name, how, kind in parameters] or ["  None"]
        captured = [
            f"  {id(outer)}: {described(inner)}" for outer, inner in self.graph.captures
        ] or ["  None"]
        return "\n".join(
            ["Input Parameters:", *lines, "Output Type:", f"  {result}", "Captures:", *captured]
        )

    @property
    def inputs(self) -> list[Tensor]:
        """The graph's inputs, captures last."""
        return self.graph.inputs

    @property
    def outputs(self) -> list[Tensor]:
        """The graph's flat outputs."""
        return self.function.named

    @property
    def captured_inputs(self) -> list[Tensor]:
        """What is passed after the arguments."""
        return self._captured

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables that the function uses."""
        return tuple(self.graph.variables)

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those that optimizers change by default."""
        return tuple(self._variables)

    def call_flat(self, tensors: Sequence[Tensor]) -> Any:
        """Return the function's result for its tensor arguments, flat."""
        for tape in local.tapes:
            for variable in self._variables:
                tape.watch_accessed(variable)
        captured = captured_now(self._captured) if self._has_call_time else self._captured
        found = self.function.call([*tensors, *captured])
        if self._plain:
            return found[0]
        results = iter(found)
        leaves = [next(results) if present else None for present in self._present]
        return nest.pack_sequence_as(self.structured_outputs, leaves, expand_composites=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it.

        What was no tensor when it was traced may be left out, or given again.
        Raises: TypeError for other arguments than it was traced for; InvalidArgumentError for
        tensors of other element types.
        """
        found = self.arguments.tensors_of(*self._layout.in_order(args, kwargs))
        given = [convert_to_tensor(value) for value in found]
        return self.call_flat(tensor_arguments(self.arguments, given, self.graph.name))

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.pretty_printed_signature(verbose=False)}"

    def __str__(self) -> str:
        return f"ConcreteFunction {self.pretty_printed_signature()}"
