"""Nodes that run one by one on an accelerator: compiled alone, or helped by the host.

What a host kernel is given was copied from the device; what it gives goes there with the next
region that takes it.  Kernels that only keep tensors or hand them on get them as they are.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.blocking import KERNELS, run_blocking
from tideflow.compile.device_types import compiles, is_accelerator
from tideflow.compile.region_selection import assigns
from tideflow.graph import shapes
from tideflow.graph.kernel import Resources
from tideflow.graph.node import Node
from tideflow.ops.state import VariableState
from tideflow.runtime.accelerator import Accelerator
from tideflow.runtime.device_region import COPIED_BYTES, DeviceRegion
from tideflow.runtime.jax_internals import load_jax
from tideflow.runtime.loop import get_loop
from tideflow.runtime.program import Instruction
from tideflow.runtime.region_plan import NotCompiledError, plan_region
from tideflow.wire import errors
from tideflow.wire.device_name import task_name


def as_host(value: Any) -> Any:
    """Return a value for the host, waiting for it; scalars as NumPy's scalars."""
    if isinstance(value, (np.ndarray, np.generic)) or not isinstance(value, load_jax().Array):
        return value
    found = np.asarray(value)
    return found if found.shape else found[()]


async def fetch(value: Any) -> Any:
    """Return a value for the host; the loop goes on until it is there."""
    if not isinstance(value, load_jax().Array) or value.is_ready():
        return as_host(value)
    return await run_blocking(KERNELS, lambda _: as_host(value))


async def fetch_conditions(values: Sequence[Any]) -> list[Any]:
    """Return results of a function, those on which a loop may depend on the host."""
    array = load_jax().Array
    return [
        await fetch(value)
        if isinstance(value, array) and not value.shape and value.dtype == bool
        else value
        for value in values
    ]


def to_host(values: Sequence[Any]) -> list[Any]:
    """Return values for the host; the copies of all are under way at once."""
    array = load_jax().Array
    for value in values:
        if isinstance(value, array):
            value.copy_to_host_async()
    return [as_host(value) for value in values]


def bind_on_device(
    node: Node,
    bind_for_host: Callable[[Node], Callable[..., Any]],
    accelerator: Accelerator,
    resources: Resources,
) -> Callable[..., Any]:
    """Return a node's kernel as a callable over flat inputs (after the step, if it takes that)."""
    if compiles(node):
        return compiled_alone(node, accelerator, resources)
    call = bind_for_host(node)
    if assigns(node):
        return _bind_assign(node, call, accelerator)
    host_inputs = node.op_def.host_inputs
    if host_inputs:
        return _bind_decision(call, host_inputs)
    if host_inputs == 0 or node.op_def.is_async:
        return call
    if not node.edges:
        return call

    def on_host(*args: Any) -> Any:
        return call(*[as_host(value) for value in args])

    return on_host


def _bind_decision(call: Callable[..., Any], count: int) -> Callable[..., Any]:
    async def decide(step: Any, *args: Any) -> Any:
        first = [await fetch(value) for value in args[:count]]
        return await call(step, *first, *args[count:])

    return decide


def compiled_alone(
    node: Node, accelerator: Accelerator, resources: Resources
) -> Callable[..., Any]:
    """Return a node as a region of its own, which takes its flat inputs.

    The callable raises InvalidArgumentError if even so the node does not compile.
    """
    count = len(node.edges)
    outputs = tuple(range(count, count + len(node.output_types)))

    @functools.cache
    def region() -> DeviceRegion:
        # Most nodes are only bound, and run as part of a larger region.
        one = Instruction(_never, tuple(range(count)), outputs, node)
        return DeviceRegion(plan_region([one], set(outputs), {}), accelerator, resources)

    def run(*args: Any) -> Any:
        slots = [*args, *[None] * len(outputs)]
        try:
            region().run(slots)
        except NotCompiledError as error:
            raise not_compiled(error, node) from error
        found = slots[count:]
        return found[0] if len(found) == 1 else found

    return run


def not_compiled(error: Exception, node: Node) -> errors.OpError:
    """Return the error for a node that has no compiled form for what it is given."""
    return errors.InvalidArgumentError(
        f"{node.op} {node.name!r} on {node.device} cannot be compiled for its inputs ({error}); "
        "place it on a CPU, with tf.device('/CPU:0')",
        node=node.name,
    )


def _never() -> None:
    raise AssertionError("a node of a region is not called")


def _bind_assign(
    node: Node, call: Callable[..., Any], accelerator: Accelerator
) -> Callable[..., Any]:
    """Let a variable take a value as it is on the device, without looking at the old one."""
    validates = bool(node.attrs.get("validate_shape"))

    def assign(target: Any, value: Any) -> Any:
        if not isinstance(value, load_jax().Array):
            # Placed at once, so that it is there when the variable is first used.  A copy: the
            # memory may belong to a caller.
            value = accelerator.put(np.array(value))
        if isinstance(target, VariableState):
            if validates:
                _require_shape(target, value)
            target.assign(value)
            return target
        if not validates:
            return call(target, value)
        return call(target, as_host(value))

    return assign


def _require_shape(state: VariableState, value: Any) -> None:
    """Raise InvalidArgumentError for a value that does not fit the variable."""
    with state.lock:
        held = state.value
    wanted = state.dims if held is None else held.shape
    if not shapes.compatible(wanted, value.shape):
        raise errors.InvalidArgumentError(
            f"variable {state.name!r} has shape {shapes.format_dims(wanted)}; the value has shape "
            f"{shapes.format_dims(value.shape)}. validate_shape=False lets the shape change"
        )


# ---- between devices


def offer(step: Any, key: str, node: Node, value: Any) -> None:
    """Put a value that a Send on an accelerator gives into the step's rendezvous.

    Another accelerator of the task takes it as it is; all others get it on the host, once it is
    there: a thread waits for that, so that the program goes on.
    """
    if not isinstance(value, load_jax().Array) or _stays_in_task(node):
        step.rendezvous.put(key, value)
        return
    value.copy_to_host_async()
    if value.is_ready():
        step.rendezvous.put(key, as_host(value))
        return
    KERNELS.start(functools.partial(_offer_later, step, key, node, value))


def _stays_in_task(node: Node) -> bool:
    target = node.attrs["recv_device"]
    return is_accelerator(target) and task_name(target) == task_name(node.attrs["send_device"])


def _offer_later(step: Any, key: str, node: Node, value: Any) -> None:
    try:
        found = as_host(value)
    except Exception as error:  # what the device failed with, whichever step noticed it
        failure = errors.InternalError(f"{node.op} {node.name!r}: {error}", node=node.name)
        get_loop().call_soon_threadsafe(step.rendezvous.abort, failure)
        return
    # It raises if the step has failed meanwhile, which said why.
    with contextlib.suppress(errors.OpError):
        step.rendezvous.put(key, found)


def receive(value: Any, accelerator: Accelerator) -> Any:
    """Return a received value on the device; the copy goes on while the program does.

    Small ones are left to the region that takes them: it hands all of them over in one call.
    """
    if value is None or not hasattr(value, "dtype") or value.dtype == object:
        return value
    if isinstance(value, (np.ndarray, np.generic)) and value.nbytes <= COPIED_BYTES:
        return value
    if isinstance(value, np.ndarray) and accelerator.shares_host_memory:
        value = value.copy()
    return accelerator.put(value)
