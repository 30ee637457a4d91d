"""Compile regions with XLA, once for each content and set of shapes.

jax's global configuration is left alone: 64-bit types are switched on around each use.
"""

from __future__ import annotations

import contextlib
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

from tideflow.graph.collection import collection_paused
from tideflow.ops.nn import onednn_in_xla
from tideflow.ops.state import VariableState
from tideflow.runtime.compile_client import compile_elsewhere, may_serve
from tideflow.runtime.jax_internals import (
    JaxCpu,
    compile_for_cpu,
    compiler_key,
    load_jax,
    make_cpu,
    quick_call,
)
from tideflow.runtime.jaxlib_internals import (
    Call,
    CpuClient,
    Signature,
    can_be_written,
    is_to_be_compiled,
)
from tideflow.runtime.jit_cache import ExecutableFolder, asked_folder, machine_and_code
from tideflow.runtime.jit_thread import is_leaving
from tideflow.runtime.nested_trace import bounds_of
from tideflow.runtime.plan_file import dump_plan, load_plan
from tideflow.runtime.region_plan import NotCompiledError, RegionPlan
from tideflow.runtime.region_trace import Traced, make_traceable
from tideflow.wire import errors

_LOGGER = logging.getLogger(__name__)

_MOST_CACHED = 256
# A program of so many seconds within a region probably goes on for longer than it takes to compile
# what is faster, and is started again.
SETTLED_S = 3.0


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
      improved_after_s: once its runs have taken so long in all, `improve` pays; None for never.
      is_interim: whether it is there to begin with, as what is faster takes long to compile.
    """

    call: Call
    large: tuple[Any, ...]
    constants: tuple[tuple[int, Any], ...]
    outputs: tuple[int, ...]
    guards: tuple[tuple[int, int], ...]
    is_checked: bool
    counters: tuple[int, ...]
    improved_after_s: float | None = None
    is_interim: bool = False


_cpu: CpuClient | JaxCpu | None = None
# What forked processes have from theirs.
_of_parents: list[Any] = []
_cpu_lock = threading.Lock()
_compiles_here = True


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
    large = _large_of(plan)
    with _lock:
        if (plan.digest, signature, large, bounds_of(plan)) in _compiled:
            return False
    return not folder.has(_key(plan, signature, large))


def have_compiled(plan: RegionPlan, signature: Signature, *, is_interim: bool = False) -> None:
    """Have another process compile a region, so that it is kept; wait until it has, or cannot.

    is_interim: what the next program begins with.
    Raises: CancelledError when the program ends.
    """
    folder = asked_folder()
    if folder is None:
        return
    large = _large_of(plan)
    try:
        request = pickle.dumps((dump_plan(plan), signature, large, is_interim))
    except Exception:  # whatever cannot be written
        _LOGGER.debug("a region cannot be handed to another process", exc_info=True)
        return
    key = _key(plan, signature, large, is_interim=is_interim)
    compile_elsewhere(folder, key, request, is_leaving)


def compile_region(plan: RegionPlan, signature: Signature, *, is_final: bool = False) -> Executable:
    """Compile a region, or return what was compiled before for the same content and shapes.

    is_final: not to begin with code that `improve` then replaces.
    Raises: NotCompiledError that names the nodes that do not compile; others from the compiler.
    """
    # Regions that differ in their large constants alone share the code.
    large = tuple(put(np.array(plan.constants[slot])) for slot in plan.large)
    key = (plan.digest, signature, signature_of(large), bounds_of(plan))
    with _lock:
        found = _compiled.get(key)
        if found is not None and not (is_final and found.is_interim):
            _compiled.move_to_end(key)
            return replace(found, large=large)
    made = _load_or_compile(plan, signature, large, is_final)
    _remember(key, made)
    return made


def _remember(key: Any, made: Executable) -> None:
    with _lock:
        _compiled[key] = replace(made, large=())
        while len(_compiled) > _MOST_CACHED:
            _compiled.popitem(last=False)


def improve(plan: RegionPlan, signature: Signature, executable: Executable) -> Executable | None:
    """Do what pays once code has run for a while; return better code, if there is some.

    What runs may be code to begin with, that was loaded: then what it stands for is compiled.  Or
    it is code that no file can hold: then other code is made with which the next program begins.
    """
    folder = asked_folder()
    if folder is None or not _compiles_here:
        return None
    large = _large_of(plan)
    if not executable.is_interim:
        if may_serve(folder) and not folder.has(_key(plan, signature, large, is_interim=True)):
            have_compiled(plan, signature, is_interim=True)
        return None
    kept = folder.find(_key(plan, signature, large))
    if kept is None:
        return None
    better = _load(pickle.loads(kept), signature, executable.large)
    _remember((plan.digest, signature, large, bounds_of(plan)), better)
    return better


def _large_of(plan: RegionPlan) -> Signature:
    return signature_of([plan.constants[slot] for slot in plan.large])


def forget_compiled() -> None:
    """Drop what this process has compiled; what is in use stays with its users."""
    with _lock:
        _compiled.clear()


def _load_or_compile(
    plan: RegionPlan, signature: Signature, large: tuple[Any, ...], is_final: bool
) -> Executable:
    folder = asked_folder()
    handed_over = signature_of(large)
    key = _key(plan, signature, handed_over)
    if not _compiles_here and is_for_server(plan, signature):
        have_compiled(plan, signature)
    kept = None if folder is None else folder.find(key)
    if folder is not None and kept is not None:
        try:
            return _load_kept(folder, kept, plan, signature, large, is_final)
        except (NotCompiledError, errors.UnavailableError):
            raise
        except Exception:  # whatever a file of another compiler makes the loader raise
            _LOGGER.warning("compiled code was kept but does not load; it is compiled again")
            _LOGGER.debug("it does not load", exc_info=True)
    if not _compiles_here:
        raise _cannot_compile()
    try:
        lowered = _lower(plan, signature, handed_over)
    except NotCompiledError as error:
        if folder is not None and error.is_lasting:
            folder.keep(key, _refused(plan, error))
        raise
    compiled = _compile(lowered)
    call = _the_cpu().call_of(compiled, lowered.taken, lowered.given)
    made = Executable(call, large, *lowered.rest)
    if folder is None:
        return made
    try:
        body = _encode(lowered, compiled)
    except Exception:  # some executables have no form to be kept in
        _LOGGER.debug("an executable is not kept", exc_info=True)
        return made
    folder.keep(key, body)
    if can_be_written(lowered.form):
        return made
    return replace(made, improved_after_s=SETTLED_S)


def _load_kept(
    folder: ExecutableFolder,
    kept: bytes,
    plan: RegionPlan,
    signature: Signature,
    large: tuple[Any, ...],
    is_final: bool,
) -> Executable:
    found = pickle.loads(kept)
    if isinstance(found, _Refused):
        raise NotCompiledError([plan.actions[i].node for i in found.positions], found.why)
    if not is_to_be_compiled(found.code) or (is_final and _compiles_here):
        return _load(found, signature, large)
    interim = _load_interim(folder, plan, signature, large)
    if interim is None and not _compiles_here:
        if is_for_server(plan, signature):
            have_compiled(plan, signature, is_interim=True)
        interim = _load_interim(folder, plan, signature, large)
        if interim is None:
            raise _cannot_compile()
    return interim or replace(_load(found, signature, large), improved_after_s=SETTLED_S)


def _load_interim(
    folder: ExecutableFolder, plan: RegionPlan, signature: Signature, large: tuple[Any, ...]
) -> Executable | None:
    """Return what a region may begin with while what was kept of it is still to be compiled."""
    key = _key(plan, signature, signature_of(large), is_interim=True)
    kept = folder.find(key)
    if kept is None:
        return None
    try:
        found = pickle.loads(kept)
        if isinstance(found, _Refused):
            return None
        made = _load(found, signature, large)
    except Exception:  # whatever a file of another compiler makes the loader raise
        _LOGGER.debug("code to begin with does not load", exc_info=True)
        folder.drop(key)
        return None
    return replace(made, is_interim=True, improved_after_s=SETTLED_S)


def _cannot_compile() -> errors.UnavailableError:
    return errors.UnavailableError("a process that was forked from one that compiles does not")


def _load(kept: _Kept, signature: Signature, large: tuple[Any, ...]) -> Executable:
    taken = (*signature, *signature_of(large))
    call = _the_cpu().load(kept.code, taken, kept.given)
    return Executable(call, large, *kept.rest)


def _key(
    plan: RegionPlan, signature: Signature, large: Signature, *, is_interim: bool = False
) -> str:
    depends_on = machine_and_code(), compiler_key()
    parts = (plan.digest, signature, large, bounds_of(plan), depends_on, is_interim)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def compile_request(request: bytes) -> bytes:
    """Return what is to be kept for a request of another process.

    Raises: whatever the compiler does.
    """
    data, signature, handed_over, is_interim = pickle.loads(request)
    plan = load_plan(data)
    try:
        with onednn_in_xla.left_out() if is_interim else contextlib.nullcontext():
            lowered = _lower(plan, signature, handed_over)
    except NotCompiledError as error:
        if not error.is_lasting:
            raise
        return _refused(plan, error)
    if can_be_written(lowered.form):
        return _encode(lowered, _compile(lowered))
    if is_interim:
        return pickle.dumps(_Refused([], "it calls a library that no file can hold"))
    return _encode(lowered, None)


class _Kept(NamedTuple):
    """What is kept of an executable: code, what that gives, and its other attributes."""

    code: bytes
    given: Signature
    rest: tuple[Any, ...]


class _Refused(NamedTuple):
    """What is kept of a region that cannot be traced: which actions, and why."""

    positions: list[int]
    why: str


class _Lowered(NamedTuple):
    """A region that was traced for certain shapes.

    Attributes:
      form: jax's.
      taken, given: the arrays that it takes and gives.
      rest: `constants` and what follows of the executable, as far as tracing tells.
    """

    form: Any
    taken: Signature
    given: Signature
    rest: tuple[Any, ...]


def _encode(lowered: _Lowered, compiled: Any) -> bytes:
    code = _the_cpu().to_bytes(lowered.form, compiled)
    return pickle.dumps(_Kept(code, lowered.given, lowered.rest))


def _refused(plan: RegionPlan, error: NotCompiledError) -> bytes:
    nodes = {id(node) for node in error.nodes}
    found = [i for i, action in enumerate(plan.actions) if id(action.node) in nodes]
    return pickle.dumps(_Refused(found, str(error)))


@collection_paused()
def _lower(plan: RegionPlan, signature: Signature, large: Signature) -> _Lowered:
    """Trace a region.  Raises: NotCompiledError that names the nodes that cannot be traced."""
    jax = load_jax()
    traced = Traced()
    taken = (*signature, *large)
    with jax.enable_x64(True):
        arguments = [
            jax.ShapeDtypeStruct(shape, dtype, sharding=cpu_sharding()) for dtype, shape in taken
        ]
        function = make_traceable(plan, jax, traced, is_leaving)
        donated = tuple(range(plan.changed))
        form = jax.jit(function, donate_argnums=donated, keep_unused=True).lower(*arguments)
    given = tuple((np.dtype(one.dtype), tuple(one.shape)) for one in form.out_info)
    position = {slot: i for i, slot in enumerate(plan.outputs)}
    _LOGGER.debug("traced a region of %d nodes", len(plan.actions))
    rest = (
        tuple((position[slot], value) for slot, value in traced.constants.items()),
        tuple(position[slot] for slot in traced.outputs),
        tuple(traced.guards),
        traced.is_checked,
        tuple(traced.counters),
    )
    return _Lowered(form, taken, given, rest)


def _compile(lowered: _Lowered) -> Any:
    """Return what jax has compiled.  Raises: whatever XLA does."""
    with load_jax().enable_x64(True):
        compiled = compile_for_cpu(lowered.form)
    _LOGGER.debug("compiled a region")
    return compiled


def keep_for_good(held: Any) -> None:
    """Never end what a forked process has of compiled code from before: that would hang, too."""
    _of_parents.append(held)


def take_over(state: VariableState) -> None:
    """Have a variable hold an array of NumPy where its value is one of a forked process's parent:
    that device runs nothing here."""
    value = state.value
    if not _of_parents or value is None or isinstance(value, (np.ndarray, np.generic)):
        return
    if _the_cpu().holds(value):
        return
    keep_for_good(value)
    with state.lock:
        if state.value is value:
            state.value = np.array(value)


def _after_fork() -> None:
    # A thread that does not exist in the child may have held the locks.
    global _lock, _cpu_lock, _cpu, _compiles_here
    _lock = threading.Lock()
    _cpu_lock = threading.Lock()
    # The threads of the device are not there either: who waits for them hangs.  XLA ends a process
    # that compiles without those of its parent; it loads and runs code.
    _compiles_here = _compiles_here and _cpu is None
    keep_for_good((_cpu, list(_compiled.values())))
    _cpu = None
    _compiled.clear()
    cpu_sharding.cache_clear()


os.register_at_fork(after_in_child=_after_fork)
