"""Compiled code for CPUs, called with jaxlib alone.

jax takes half a second to import, and what has been compiled before needs none of it: jaxlib loads
it, makes arrays of NumPy's memory, and calls it.  jax asks jaxlib for the same, by ways that it
does not document, so this is the one place that knows them; tests/runtime/test_jax_internals.py
fails where a version has moved one.
"""

from __future__ import annotations

import functools
import io
import itertools
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tideflow.runtime.compile_options import CPU_OPTIONS

# (element type, shape) of each array.
Signature: TypeAlias = "tuple[tuple[Any, tuple[int, ...]], ...]"
# Takes arguments, and a list that it puts the results into, without a call of Python's in between.
Call: TypeAlias = "Callable[[Sequence[Any], list[Any]], None]"


# How the names of functions begin that compiled code calls and jax registers when it is imported.
_LAPACK = b"lapack_"
# How those begin that jaxlib cannot write with the code that calls them; it may end the process.
_UNWRITABLE = b"__onednn$"
# What is kept begins with one of these: what jaxlib has compiled, or what it is to compile.
_CODE, _MODULE = b"C", b"M"


class ArrayType:
    """The type of an array as jaxlib asks for it.

    jax has a class of its own for that, which has more to it.
    """

    __slots__ = ("__weakref__", "_key", "dtype", "shape", "weak_type")

    def __init__(self, dtype: Any, shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.weak_type = False
        self._key = (dtype, shape)

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayType) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@functools.lru_cache(4096)
def array_type(dtype: Any, shape: tuple[int, ...]) -> ArrayType:
    """Return the type of arrays; the same object for the same type, so that it is compared fast."""
    return ArrayType(dtype, shape)


class CpuClient:
    """Runs compiled code on the thread that calls it, on a CPU device of its own.

    Raises: whatever another version of jaxlib makes of it.

    Attributes:
      device: jaxlib's.
    """

    def __init__(self) -> None:
        # jax says so, too, when it is imported: jaxlib tells of each client otherwise.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        from jaxlib import _jax, cpu_feature_guard, xla_client  # noqa: PLC0415 - as jax itself

        cpu_feature_guard.check_cpu_features()
        client: Any = xla_client.make_cpu_client(asynchronous=False, num_devices=1)
        self.device = client.devices()[0]
        self._client = client
        self._devices = _jax.DeviceList((self.device,))
        self._sharding = _make_sharding(_jax, xla_client, self._devices, self.device)
        self._make_options = xla_client.CompileOptions
        self._assignment = xla_client.DeviceAssignment.create(np.array([[self.device.id]]))
        self._put = _jax.batched_device_put
        self._handler = _jax.array_result_handler
        # Memory that lies where compiled code can take it is not copied; 64 bits stay 64 bits.
        self._how = ([self.device], True, False, _jax.HostBufferSemantics.ZERO_COPY, True)
        _complete(_jax.ArrayImpl)
        self.array = _jax.ArrayImpl
        self.put(np.zeros(1, np.float32)).block_until_ready()

    def put(self, value: Any) -> Any:
        """Return an array of the device, without a copy where the memory is aligned."""
        made = array_type(value.dtype, value.shape)
        return self._put(made, self._sharding, [value], *self._how)

    def call_of(self, compiled: Any, taken: Signature, given: Signature) -> Call:
        """Return how code is called that jax has compiled for the device.

        taken, given: the arrays that it takes and gives.
        """
        return self._call_of(compiled.runtime_executable(), taken, given)

    def to_bytes(self, lowered: Any, compiled: Any) -> bytes:
        """Return code that jax has lowered, and compiled, as bytes.

        Code that jaxlib cannot write is kept as it was lowered, and compiled when it is loaded.
        Raises: whatever jaxlib does for code without such a form.

        compiled: asked for only where `can_be_written`.
        """
        module = module_of(lowered)
        if _UNWRITABLE in module:
            return _MODULE + module
        written: bytes = compiled.runtime_executable().serialize()
        return _CODE + written

    def load(self, code: bytes, taken: Signature, given: Signature) -> Call:
        """Return how code is called that `to_bytes` has written.

        Raises: whatever jaxlib does for code of another version.
        """
        kind, body = code[:1], code[1:]
        if _LAPACK in body:
            _register_lapack()
        if kind == _CODE:
            loaded = self._client.deserialize_executable(body, self._devices, None)
        else:
            loaded = self._client.compile_and_load(body, self._devices, self._options())
        return self._call_of(loaded, taken, given)

    def holds(self, value: Any) -> bool:
        """Whether an array is one of this device, and not of another client, such as a parent's."""
        return value._sharding is self._sharding

    def _options(self) -> Any:
        options = self._make_options()
        options.num_replicas = options.num_partitions = 1
        options.device_assignment = self._assignment
        options.env_option_overrides = list(CPU_OPTIONS.items())
        return options

    def _call_of(self, loaded: Any, taken: Signature, given: Signature) -> Call:
        sharding, put, how = self._sharding, self._put, self._how
        handlers = [
            self._handler(array_type(dtype, shape), sharding, True, True) for dtype, shape in given
        ]
        types = [array_type(dtype, shape) for dtype, shape in taken]
        execute = loaded.execute_sharded
        take = operator.methodcaller("consume_with_handlers", handlers)
        array, chained = self.array, itertools.chain.from_iterable

        def call(arguments: Sequence[Any], found: list[Any]) -> None:
            held = [
                one if type(one) is array else put(made, sharding, [one], *how)
                for made, one in zip(types, arguments)
            ]
            # Python looks for signals where a call of its own ends; from here on C ends them all.
            found.extend(chained(map(take, map(execute, (held,)))))

        return call


def module_of(lowered: Any) -> bytes:
    """Return code that jax has lowered as bytes."""
    made = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(made)
    return made.getvalue()


def can_be_written(lowered: Any) -> bool:
    """Whether jaxlib may be asked to write what it compiles of lowered code."""
    return _UNWRITABLE not in module_of(lowered)


def is_to_be_compiled(code: bytes) -> bool:
    """Whether to load what `to_bytes` gave is to compile it."""
    return code[:1] == _MODULE


@functools.cache
def _register_lapack() -> None:
    """Have XLA know the functions of LAPACK, as jax has when it is imported."""
    from jaxlib import lapack, xla_client  # noqa: PLC0415 - most programs call none of them

    library: Any = lapack
    library.prepare_lapack_call("potrf_ffi", np.dtype(np.float32))  # finds all of them, in SciPy
    for platform, functions in library.registrations().items():
        for name, function, version in functions:
            xla_client.register_custom_call_target(name, function, platform, version)


def _make_sharding(_jax: Any, xla_client: Any, devices: Any, device: Any) -> Any:
    """Return where arrays of the device live, as jaxlib asks for it."""
    everywhere = xla_client.HloSharding.replicate()

    class OneDevice(_jax.SingleDeviceSharding):  # type: ignore[misc]
        memory_kind = None
        is_fully_replicated = True
        is_fully_addressable = True
        num_devices = 1
        _device = device
        _device_assignment = (device,)
        _internal_device_list = devices
        device_set = frozenset((device,))

        def _to_xla_hlo_sharding(self, _dimensions: int) -> Any:
            return everywhere

    return OneDevice(device)


def _complete(array: Any) -> None:
    """Give arrays what NumPy asks for, until jax is imported and puts its own in its place."""
    made: Iterable[tuple[str, Any]] = (
        ("dtype", property(lambda self: self.aval.dtype)),
        ("shape", property(lambda self: self.aval.shape)),
        ("ndim", property(lambda self: self.aval.ndim)),
        ("size", property(lambda self: self.aval.size)),
        ("nbytes", property(lambda self: self.aval.size * self.aval.dtype.itemsize)),
        ("__array__", _as_array),
        # Without these, Python takes each array for true, and for equal to itself alone.
        *((f"__{name}__", _as_numpy_does(name)) for name in _ASKED_OF_VALUES),
    )
    for name, value in made:
        if getattr(array, name, None) is getattr(object, name, None):
            setattr(array, name, value)


# What Python asks of an array for its values.
_ASKED_OF_VALUES = ("bool", "int", "float", "index", "len", "getitem", "eq", "ne")


def _as_numpy_does(name: str) -> Callable[..., Any]:
    """Return a method that answers as that of an array of NumPy with the same values."""
    method = getattr(np.ndarray, f"__{name}__")
    return lambda self, *others: method(np.asarray(self), *others)


def _as_array(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    found, _ = self._single_device_array_to_np_array_did_copy()
    return np.array(found, dtype, copy=copy)
