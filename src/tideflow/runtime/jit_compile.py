"""Compile regions with XLA, once for each content and set of shapes.

jax's global configuration is left alone: 64-bit types are switched on around each use.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tideflow.runtime.compile_client import compile_elsewhere, may_serve
from tideflow.runtime.jax_internals import (
    JaxCpu,
    compile_for_cpu,
    compiler_key,
    load_jax,
    make_cpu,
    quick_call,
)
from tideflow.runtime.jaxlib_internals import Call, CpuClient, Signature
from tideflow.runtime.jit_cache import ExecutableFolder, asked_folder, machine_and_code
from tideflow.runtime.jit_thread import is_leaving
from tideflow.runtime.nested_trace import bounds_of
from tideflow.runtime.plan_file import dump_plan, load_plan
from tideflow.runtime.region_plan import NotCompiledError, RegionPlan
from tideflow.runtime.region_trace import Traced, make_traceable

_LOGGER = logging.getLogger(__name__)

_MOST_CACHED = 256


@dataclass(frozen=True, slots=True)
class Executable:
    """A region compiled for certain shapes.

    Attributes:
      call: takes cells, inputs and `large`, and a list; puts the new values of the changed cells
        and the outputs into that.
      large: constants that are handed over, as arrays of the compiler's device.
      constants: values of outputs that depend on shapes only, by position among the outputs.
      outputs: positions, among the plan's outputs, of the computed ones.
      guards: (position among the inputs, bound): labels that must lie in [0, bound).
      is_checked: whether the last result says if the others hold; where they do not, the variables
        keep their values.
      counters: how many counters each draw of random numbers wants.
    """

    call: Call
    large: tuple[Any, ...]
    constants: tuple[tuple[int, Any], ...]
    outputs: tuple[int, ...]
    guards: tuple[tuple[int, int], ...]
    is_checked: bool
    counters: tuple[int, ...]


_cpu: CpuClient | JaxCpu | None = None
# What forked processes have from theirs.
_of_parents: list[Any] = []
_cpu_lock = threading.Lock()


def _the_cpu() -> CpuClient | JaxCpu:
    """Return what runs compiled code: a CPU device of our own, on the calling thread.

    Steps wait for their results anyway; handing a small region to another thread and back takes
    longer than to run it.  The user's own device, on which jax computes behind his back, stays as
    it is.
    """
    global _cpu
    with _cpu_lock:
        _cpu = _cpu or make_cpu()
        return _cpu


@functools.cache
def cpu_sharding() -> Any:
    """Return where arrays of the compiler live."""
    return load_jax().sharding.SingleDeviceSharding(_the_cpu().device)


def put(value: Any) -> Any:
    """Return an array of the compiler's device, without a copy where the memory is aligned."""
    return _the_cpu().put(value)


def call_unbroken(compiled: Any, arguments: Sequence[Any], results: list[Any]) -> None:
    """Call compiled code, and put what it gives into a list.

    An interrupt (Ctrl-C) that comes meanwhile is raised after that: what was donated is lost, so
    what came in its place must not be.
    """
    # Python looks for signals where a call of its own ends; these are ended by C.
    call = quick_call(compiled)
    results.extend(itertools.chain.from_iterable(itertools.starmap(call, (arguments,))))


def signature_of(values: Sequence[Any]) -> Signature:
    """Return the types and shapes by which executables are told apart."""
    return tuple([(value.dtype, value.shape) for value in values])


_lock = threading.Lock()
_compiled: OrderedDict[Any, Executable] = OrderedDict()


def is_for_server(plan: RegionPlan, signature: Signature) -> bool:
    """Whether another process may compile a region, which is neither known here nor kept."""
    folder = asked_folder()
    if folder is None or not may_serve(folder):
        return False
    large = signature_of([plan.constants[slot] for slot in plan.large])
    with _lock:
        if (plan.digest, signature, large, bounds_of(plan)) in _compiled:
            return False
    return not folder.has(_key(plan, signature, large))


def compile_region(
    plan: RegionPlan, signature: Signature, *, is_elsewhere: bool = False
) -> Executable:
    """Compile a region, or return what was compiled before for the same content and shapes.

    is_elsewhere: by another process, if that succeeds.
    Raises: NotCompiledError that names the nodes that do not compile; others from the compiler.
    """
    # Regions that differ in their large constants alone share the code.
    large = tuple(put(np.array(plan.constants[slot])) for slot in plan.large)
    key = (plan.digest, signature, signature_of(large), bounds_of(plan))
    with _lock:
        found = _compiled.get(key)
        if found is not None:
            _compiled.move_to_end(key)
            return replace(found, large=large)
    made = _load_or_compile(plan, signature, large, is_elsewhere)
    with _lock:
        _compiled[key] = replace(made, large=())
        while len(_compiled) > _MOST_CACHED:
            _compiled.popitem(last=False)
    return made


def forget_compiled() -> None:
    """Drop what this process has compiled; what is in use stays with its users."""
    with _lock:
        _compiled.clear()


def _load_or_compile(
    plan: RegionPlan, signature: Signature, large: tuple[Any, ...], is_elsewhere: bool
) -> Executable:
    folder = asked_folder()
    if folder is None:
        return _compile(plan, signature, large)[0]
    handed_over = signature_of(large)
    key = _key(plan, signature, handed_over)
    kept = folder.find(key)
    if kept is None and is_elsewhere:
        kept = _ask_server(folder, key, plan, signature, handed_over)
    if kept is not None:
        try:
            return _decode(kept, plan, signature, large)
        except NotCompiledError:
            raise
        except Exception:  # whatever a file of another compiler makes the loader raise
            _LOGGER.warning("compiled code was kept but does not load; it is compiled again")
            _LOGGER.debug("it does not load", exc_info=True)
    try:
        made, lowered, compiled, given = _compile(plan, signature, large)
    except NotCompiledError as error:
        if error.is_lasting:
            folder.keep(key, _refused(plan, error))
        raise
    try:
        body = _encode(made, lowered, compiled, given)
    except Exception:  # some executables have no form to be kept in
        _LOGGER.debug("an executable is not kept", exc_info=True)
    else:
        folder.keep(key, body)
    return made


def _key(plan: RegionPlan, signature: Signature, large: Signature) -> str:
    parts = (plan.digest, signature, large, bounds_of(plan), machine_and_code(), compiler_key())
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _ask_server(
    folder: ExecutableFolder, key: str, plan: RegionPlan, signature: Signature, large: Signature
) -> bytes | None:
    """Return what the server makes, None where that does not succeed.  Raises: CancelledError."""
    try:
        request = pickle.dumps((dump_plan(plan), signature, large))
    except Exception:  # whatever cannot be written
        _LOGGER.debug("a region cannot be handed to another process", exc_info=True)
        return None
    return folder.find(key) if compile_elsewhere(folder, key, request, is_leaving) else None


def compile_request(request: bytes) -> bytes:
    """Return what is to be kept for a request of another process.

    Raises: whatever the compiler does.
    """
    data, signature, handed_over = pickle.loads(request)
    plan = load_plan(data)
    large = tuple(np.zeros(shape, dtype) for dtype, shape in handed_over)
    try:
        return _encode(*_compile(plan, signature, large))
    except NotCompiledError as error:
        if not error.is_lasting:
            raise
        return _refused(plan, error)


class _Kept(NamedTuple):
    """What is kept of an executable: code, what that gives, and its other attributes."""

    code: bytes
    given: Signature
    rest: tuple[Any, ...]


class _Refused(NamedTuple):
    """What is kept of a region that cannot be traced: which actions, and why."""

    positions: list[int]
    why: str


def _encode(made: Executable, lowered: Any, compiled: Any, given: Signature) -> bytes:
    rest = (made.constants, made.outputs, made.guards, made.is_checked, made.counters)
    return pickle.dumps(_Kept(_the_cpu().to_bytes(lowered, compiled), given, rest))


def _refused(plan: RegionPlan, error: NotCompiledError) -> bytes:
    nodes = {id(node) for node in error.nodes}
    found = [i for i, action in enumerate(plan.actions) if id(action.node) in nodes]
    return pickle.dumps(_Refused(found, str(error)))


def _decode(
    kept: bytes, plan: RegionPlan, signature: Signature, large: tuple[Any, ...]
) -> Executable:
    found = pickle.loads(kept)
    if isinstance(found, _Refused):
        raise NotCompiledError([plan.actions[i].node for i in found.positions], found.why)
    taken = (*signature, *signature_of(large))
    return Executable(_the_cpu().load(found.code, taken, found.given), large, *found.rest)


def _compile(
    plan: RegionPlan, signature: Signature, large: tuple[Any, ...]
) -> tuple[Executable, Any, Any, Signature]:
    """Return the executable, jax's forms of it before and after compiling, and what it gives."""
    jax = load_jax()
    traced = Traced()
    taken = (*signature, *signature_of(large))
    with jax.enable_x64(True):
        arguments = [
            jax.ShapeDtypeStruct(shape, dtype, sharding=cpu_sharding()) for dtype, shape in taken
        ]
        function = make_traceable(plan, jax, traced, is_leaving)
        donated = tuple(range(plan.changed))
        jitted = jax.jit(function, donate_argnums=donated, keep_unused=True)
        lowered = jitted.lower(*arguments)
        compiled = compile_for_cpu(lowered)
    _LOGGER.debug("compiled a region of %d nodes", len(plan.actions))
    given = tuple((np.dtype(one.dtype), tuple(one.shape)) for one in lowered.out_info)
    position = {slot: i for i, slot in enumerate(plan.outputs)}
    made = Executable(
        _the_cpu().call_of(compiled, taken, given),
        large,
        tuple((position[slot], value) for slot, value in traced.constants.items()),
        tuple(position[slot] for slot in traced.outputs),
        tuple(traced.guards),
        traced.is_checked,
        tuple(traced.counters),
    )
    return made, lowered, compiled, given


def keep_for_good(held: Any) -> None:
    """Never end what a forked process has of compiled code from before: that would hang, too."""
    _of_parents.append(held)


def _after_fork() -> None:
    # A thread that does not exist in the child may have held the locks.
    global _lock, _cpu_lock, _cpu
    _lock = threading.Lock()
    _cpu_lock = threading.Lock()
    # The threads of the device are not there either: who waits for them hangs.
    keep_for_good((_cpu, list(_compiled.values())))
    _cpu = None
    _compiled.clear()
    cpu_sharding.cache_clear()


os.register_at_fork(after_in_child=_after_fork)
