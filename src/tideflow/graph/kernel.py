"""Kernels made ready for one node, and what the runtime promises to a kernel.

`bind` turns an op's kernel into a callable over flat inputs, with attrs fixed and list arguments
grouped, so that running a node is one call.

Strings come to every kernel as arrays of objects, scalars too: NumPy takes bare bytes for something
else, and drops the zeros at their end.  Wherever a value comes from, `with_arrays` sees to that.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from tideflow.graph.node import FunctionRef, Node, arg_sizes, arg_types
from tideflow.graph.op_def import OpDef
from tideflow.wire import dtypes, errors

T = TypeVar("T")


class Resources(Protocol):
    """The named state of a device: variables, queues, tables (see tideflow.runtime.resources).

    Things are kept by container, kind and name.  The default container has the name "".
    """

    @property
    def drops(self) -> int:
        """How many things were dropped; while it stays the same, so does what a handle names."""

    def lookup(self, handle: Any, kind: type[T]) -> T:
        """Return what a handle names.  Raises: NotFoundError; InvalidArgumentError for a thing
        of another kind or of another device."""

    def find(self, container: str, name: str, kind: type[T]) -> T | None:
        """Return a thing by name, or None."""

    def lookup_or_create(
        self, container: str, name: str, kind: type[T], make: Callable[[], T]
    ) -> T:
        """Return a thing by name, made first if it is not there."""

    def create(self, container: str, name: str, thing: Any) -> None:
        """Enter a thing.  Raises: AlreadyExistsError."""

    def delete(self, handle: Any, kind: type[Any]) -> None:
        """Drop what a handle names.  Raises: NotFoundError."""

    def handle(self, container: str, name: str, kind: type[Any], **facts: Any) -> Any:
        """Return a ResourceHandle on this device for a thing that may not be there yet."""

    def anonymous_handle(self, kind: type[Any], **facts: Any) -> Any:
        """Return a handle to a new name; what is kept under it goes when the handle goes."""


class KernelFunction(Protocol):
    """A function of the library, ready to be called by kernels with a step and its arguments.

    Attributes:
      is_synchronous: whether it never waits, so that `run` serves, on any thread.
      is_straight: whether it is synchronous, and nothing but loops of its own may keep it long.
      blocks: whether it may take any time, so that `run` must not be called on the event loop.
      levels: how many functions call each other in its straight code, one inside the other.
      library: the functions that its names stand for, its own among them.
    """

    is_synchronous: bool
    is_straight: bool
    blocks: bool
    levels: int
    library: Mapping[str, Any]

    @property
    def code(self) -> Any:
        """Its instructions, where it is straight."""

    def __call__(self, step: Any, *args: Any) -> Awaitable[list[Any]]:
        """Return its results, once they are awaited."""

    def run(self, step: Any, args: Sequence[Any]) -> list[Any]:
        """Return its results; only where it is synchronous."""

    def anew(self, scope: Any) -> KernelFunction:
        """Return the same function with kernel state of a scope, a dict that the caller keeps."""


class KernelContext(Protocol):
    """What a host kernel may use.  One exists for each node of a plan."""

    @property
    def node(self) -> Node:
        """The node that runs."""

    @property
    def device(self) -> str:
        """Full name of the device on which it runs."""

    @property
    def resources(self) -> Resources:
        """The device's named state, as this session sees it."""

    def memo(self, make: Callable[[], T], is_random: bool = False) -> T:
        """Return the node's own state, made on first use; one for each session and node name.

        is_random: it is where a node is in its random sequence, which a new global seed restarts.
        """

    @property
    def collectives(self) -> Any:
        """The other devices that collective ops compute with (see ops.collective_calls)."""

    @property
    def session_tensors(self) -> Any:
        """What the session keeps of tensors between its steps (see ops.state.session_tensors).

        None where there is no session.
        """

    def function(self, ref: FunctionRef, device: str = "") -> KernelFunction:
        """Return a function of the library: `await f(step, *args)` gives its list of results.

        It runs on the node's device, or on another of the task that `device` names.  It may be
        called from an async kernel only.
        """

    async def ready(self, ref: FunctionRef, device: str = "") -> KernelFunction:
        """Return what `function` does; one that is called first is made ready in a thread."""

    def detached_step(self) -> StepContext:
        """Return a step that belongs to no run: for functions that go on between runs, such as
        those of a dataset."""


class StepContext(Protocol):
    """What belongs to one run of a plan."""

    @property
    def step_id(self) -> int:
        """Identifies the step on all tasks."""

    @property
    def rendezvous(self) -> Any:
        """Where the step's tensors meet (see tideflow.runtime.rendezvous)."""

    @property
    def objects(self) -> dict[str, Any]:
        """Things that live as long as the step: tensor arrays, stacks."""

    def check(self) -> None:
        """Raise an error that ends the kernel if the step was cancelled."""


def bind(node: Node, first: Any) -> Callable[..., Any]:
    """Return the node's kernel as a callable over flat inputs.

    Args:
      node: its attrs become fixed.
      first: the array namespace for a pure kernel, the KernelContext for a host kernel.
    The callable gives one value for a single output, a flat sequence for several, None for none.
    For a kernel that takes the step, the step is its first argument.  An async kernel gives a
    coroutine.
    Raises: UnimplementedError for an op without a kernel.
    """
    op_def = node.op_def
    if op_def.kernel is None:
        raise errors.UnimplementedError(
            f"op {op_def.name} (node {node.name!r}) has no kernel here", node=node.name
        )
    if first is np and op_def.is_pure:
        if op_def.name not in _direct_calls:
            _direct_calls[op_def.name] = _direct_call(op_def)
        direct = _direct_calls[op_def.name]
        if direct is not None:
            return with_arrays(direct, node)
    attrs = {name: node.attrs[name] for name in op_def.kernel_attrs}
    call: Callable[..., Any] = functools.partial(op_def.kernel, first, **attrs)
    if any(arg.is_list for arg in op_def.inputs):
        call = _group_inputs(call, arg_sizes(op_def.inputs, node.attrs), op_def.takes_step)
    sizes = arg_sizes(op_def.outputs, node.attrs)
    if any(size is not None for size in sizes):
        call = _flatten_outputs(call, sizes, op_def.is_async)
    return with_arrays(call, node)


def with_arrays(call: Callable[..., Any], node: Node) -> Callable[..., Any]:
    """Return a node's call over flat inputs so that strings are arrays, those it takes and gives.

    A pure kernel also takes arrays of resources and variants, which are bare objects elsewhere when
    they are scalars, and what it makes of them is given in that form.
    """
    op_def = node.op_def
    boxed = _OBJECTS if op_def.is_pure else _STRINGS
    first = int(op_def.takes_step)
    taken = arg_types(op_def.inputs, node.attrs)
    inputs = {i + first: _boxed for i, dtype in enumerate(taken) if dtype in boxed}
    outputs = {
        i: _boxed if dtype in _STRINGS else _bare
        for i, dtype in enumerate(node.output_types)
        if dtype in boxed
    }
    if inputs:
        call = _with_inputs(call, inputs)
    if outputs:
        call = _with_outputs(call, outputs, len(node.output_types), op_def.is_async)
    return call


_STRINGS = frozenset({dtypes.string})
_OBJECTS = frozenset({dtypes.string, dtypes.resource, dtypes.variant})
# What is done to values, by their places among the flat inputs or outputs.
_Changes = Mapping[int, Callable[[Any], Any]]


def _boxed(value: Any) -> Any:
    """Return a scalar object as an array without dimensions."""
    if isinstance(value, np.ndarray) or value is None:
        return value
    array = np.empty((), object)
    array[()] = value
    return array


def _bare(value: Any) -> Any:
    """Return the object of an array without dimensions."""
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def _with_inputs(call: Callable[..., Any], changes: _Changes) -> Callable[..., Any]:
    def called(*flat: Any) -> Any:
        given = list(flat)
        for i, change in changes.items():
            given[i] = change(given[i])
        return call(*given)

    return called


def _with_outputs(
    call: Callable[..., Any], changes: _Changes, count: int, is_async: bool
) -> Callable[..., Any]:
    def changed(result: Any) -> Any:
        if count == 1:
            return changes[0](result)
        results = list(result)
        for i, change in changes.items():
            results[i] = change(results[i])
        return results

    async def called_async(*flat: Any) -> Any:
        return changed(await call(*flat))

    return called_async if is_async else lambda *flat: changed(call(*flat))


_direct_calls: dict[str, Callable[..., Any] | None] = {}

# On NumPy's scalars these are several times faster than the ufuncs, and the same on arrays.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negative": operator.neg,
}


def _direct_call(op_def: OpDef) -> Callable[..., Any] | None:
    """Return the NumPy function that a kernel merely calls, such as np.maximum, or None.

    A kernel that names one thing only, and hands its inputs on in order, is that function.  The
    call in between costs more than the function does on small tensors.
    """
    kernel = op_def.kernel
    code = getattr(kernel, "__code__", None)
    if kernel is None or code is None or op_def.kernel_attrs or len(code.co_names) != 1:
        return None
    if code.co_freevars or any(arg.is_list for arg in op_def.inputs):
        return None
    if len(op_def.outputs) != 1 or op_def.outputs[0].is_list:
        return None
    name = code.co_names[0]
    found = _OPERATORS.get(name) or getattr(np, name, None)
    inputs = [object() for _ in op_def.inputs]
    seen: list[tuple[Any, ...]] = []
    result = object()

    def record(*args: Any) -> Any:
        seen.append(args)
        return result

    try:
        given = kernel(types.SimpleNamespace(**{name: record}), *inputs)
    except Exception:  # it does more than to hand its inputs on
        return None
    handed_on = given is result and len(seen) == 1 and list(seen[0]) == inputs
    return found if handed_on and callable(found) else None


def _group_inputs(
    call: Callable[..., Any], sizes: Sequence[int | None], takes_step: bool
) -> Callable[..., Any]:
    """Give list arguments to the kernel as lists."""
    if len(sizes) == 1 and not takes_step:
        return lambda *flat: call(list(flat))

    def grouped(*flat: Any) -> Any:
        args: list[Any] = []
        at = 0
        if takes_step:
            args.append(flat[0])
            at = 1
        for size in sizes:
            if size is None:
                args.append(flat[at])
                at += 1
            else:
                args.append(list(flat[at : at + size]))
                at += size
        return call(*args)

    return grouped


def _flatten_outputs(
    call: Callable[..., Any], sizes: Sequence[int | None], is_async: bool
) -> Callable[..., Any]:
    """Give outputs as one flat list, or as a single value where there is one tensor in all."""
    count = sum(1 if size is None else size for size in sizes)

    def flatten(result: Any) -> Any:
        parts = [result] if len(sizes) == 1 else result
        flat: list[Any] = []
        for part, size in zip(parts, sizes):
            flat.extend([part] if size is None else part)
        return flat[0] if count == 1 else flat

    if is_async:

        async def flattened_async(*flat: Any) -> Any:
            return flatten(await call(*flat))

        return flattened_async
    return lambda *flat: flatten(call(*flat))
