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
from typing import Any, TypeAlias

import numpy as np

from tideflow.runtime.jax_internals import (
    compile_for_cpu,
    compiler_key,
    cpu_options,
    from_bytes,
    load_jax,
    make_synchronous_cpu,
    quick_call,
    to_bytes,
)
from tideflow.runtime.jit_cache import asked_folder, machine_and_code
from tideflow.runtime.jit_thread import is_leaving
from tideflow.runtime.nested_trace import bounds_of
from tideflow.runtime.region_plan import RegionPlan
from tideflow.runtime.region_trace import Traced, make_traceable

_LOGGER = logging.getLogger(__name__)

# (element type, shape) of each cell and input.
Signature: TypeAlias = "tuple[tuple[Any, tuple[int, ...]], ...]"

_MOST_CACHED = 256


@dataclass(frozen=True, slots=True)
class Executable:
    """A region compiled for certain shapes.

    Attributes:
      call: takes cells, inputs and `large`; gives new values of the changed cells and outputs.
      large: constants that are handed over, as arrays of the compiler's device.
      constants: values of outputs that depend on shapes only, by position among the outputs.
      outputs: positions, among the plan's outputs, of the computed ones.
      guards: (position among the inputs, bound): labels that must lie in [0, bound).
      is_wide: whether 64-bit types are handed over.
      is_checked: whether the last result says if the others hold; where they do not, the variables
        keep their values.
    """

    call: Any
    large: tuple[Any, ...]
    constants: tuple[tuple[int, Any], ...]
    outputs: tuple[int, ...]
    guards: tuple[tuple[int, int], ...]
    is_wide: bool
    is_checked: bool


_device: Any = None
_device_lock = threading.Lock()


def cpu_device() -> Any:
    """Return the device of compiled code: one of our own, which computes on the calling thread.

    Steps wait for their results anyway; handing a small region to another thread and back takes
    longer than to run it.  The user's own device, on which jax computes behind his back, stays as
    it is.
    """
    global _device
    with _device_lock:
        _device = _device or make_synchronous_cpu()
        return _device


@functools.cache
def cpu_sharding() -> Any:
    """Return where arrays of the compiler live."""
    return load_jax().sharding.SingleDeviceSharding(cpu_device())


def put(value: Any) -> Any:
    """Return an array of the compiler's device, without a copy where the memory is aligned."""
    jax = load_jax()
    with jax.enable_x64(True):
        return jax.device_put(value, cpu_sharding())


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


def compile_region(plan: RegionPlan, signature: Signature) -> Executable:
    """Compile a region, or return what was compiled before for the same content and shapes.

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
    made = _load_or_compile(plan, signature, large)
    with _lock:
        _compiled[key] = replace(made, large=())
        while len(_compiled) > _MOST_CACHED:
            _compiled.popitem(last=False)
    return made


def forget_compiled() -> None:
    """Drop what this process has compiled; what is in use stays with its users."""
    with _lock:
        _compiled.clear()


def _load_or_compile(plan: RegionPlan, signature: Signature, large: tuple[Any, ...]) -> Executable:
    folder = asked_folder()
    if folder is None:
        return _compile(plan, signature, large)
    parts = (
        plan.digest,
        signature,
        signature_of(large),
        bounds_of(plan),
        machine_and_code(),
        compiler_key(cpu_options(cpu_sharding())),
    )
    key = hashlib.sha256(repr(parts).encode()).hexdigest()
    kept = folder.find(key)
    if kept is not None:
        try:
            return _decode(kept, large)
        except Exception:  # whatever a file of another compiler makes the loader raise
            _LOGGER.warning("compiled code was kept but does not load; it is compiled again")
            _LOGGER.debug("it does not load", exc_info=True)
    made = _compile(plan, signature, large)
    try:
        body = _encode(made, len(signature))
    except Exception:  # some executables have no form to be kept in
        _LOGGER.debug("an executable is not kept", exc_info=True)
    else:
        folder.keep(key, body)
    return made


def _encode(made: Executable, taken: int) -> bytes:
    """Return an executable as bytes; it takes so many arrays besides its large constants."""
    code, given = to_bytes(made.call)
    rest = (made.constants, made.outputs, made.guards, made.is_wide, made.is_checked)
    return pickle.dumps((code, taken + len(made.large), given, rest))


def _decode(kept: bytes, large: tuple[Any, ...]) -> Executable:
    code, taken, given, rest = pickle.loads(kept)
    call = from_bytes(code, taken, given, cpu_device())
    return Executable(call, large, *rest)


def _compile(plan: RegionPlan, signature: Signature, large: tuple[Any, ...]) -> Executable:
    jax = load_jax()
    traced = Traced()
    types = [*signature, *((value.dtype, value.shape) for value in large)]
    with jax.enable_x64(True):
        arguments = [
            jax.ShapeDtypeStruct(shape, dtype, sharding=cpu_sharding()) for dtype, shape in types
        ]
        function = make_traceable(plan, jax, traced, is_leaving)
        lowered = jax.jit(function, donate_argnums=tuple(range(plan.changed))).lower(*arguments)
        call = compile_for_cpu(lowered, cpu_sharding())
    _LOGGER.debug("compiled a region of %d nodes", len(plan.actions))
    position = {slot: i for i, slot in enumerate(plan.outputs)}
    return Executable(
        call,
        large,
        tuple((position[slot], value) for slot, value in traced.constants.items()),
        tuple(position[slot] for slot in traced.outputs),
        tuple(traced.guards),
        any(_is_wide(dtype) for dtype, _ in signature),
        traced.is_checked,
    )


def _is_wide(dtype: Any) -> bool:
    return dtype.itemsize > 8 or (dtype.itemsize == 8 and dtype.kind in "iuf")


def _after_fork() -> None:
    # A thread that does not exist in the child may have held the locks.
    global _lock, _device_lock
    _lock = threading.Lock()
    _device_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
