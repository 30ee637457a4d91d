"""What we use of jax beyond its documented interface, in one place (jaxlib: `jaxlib_internals`).

Each function has a way that only documented interfaces need, which is slower or does less.  Which
versions of jax have been tried is bounded in pyproject.toml; tests/runtime/test_jax_internals.py
fails where a version has moved one of these.
"""

from __future__ import annotations

import functools
import logging
import os
import pickle
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from tideflow.graph.collection import collection_paused
from tideflow.ops.nn.onednn_in_xla import is_used
from tideflow.platform.processors import schedulable_processors
from tideflow.runtime.compile_options import CPU_OPTIONS, options_for
from tideflow.runtime.jaxlib_internals import (
    Call,
    CpuClient,
    Signature,
    can_be_written,
)

_LOGGER = logging.getLogger(__name__)


@functools.cache
def load_jax() -> Any:
    """Return the jax module."""
    # A third of the time is the collector's, which finds nothing.
    with collection_paused():
        import jax  # noqa: PLC0415 - most programs never compile anything

    return jax


class JaxCpu:
    """What `CpuClient` does, by documented ways of jax alone: on jax's first CPU, more slowly.

    Attributes:
      device: jax's.
    """

    def __init__(self) -> None:
        jax = load_jax()
        self.device = jax.local_devices(backend="cpu")[0]
        self._sharding = jax.sharding.SingleDeviceSharding(self.device)

    def put(self, value: Any) -> Any:
        """Return an array of the device, without a copy where the memory is aligned."""
        jax = load_jax()
        with jax.enable_x64(True):
            return jax.device_put(value, self._sharding)

    def holds(self, value: Any) -> bool:
        """Whether an array is one of this device, and not of another client, such as a parent's."""
        return bool(value.sharding.device_set == {self.device})

    def call_of(self, compiled: Any, taken: Signature, given: Signature) -> Call:
        """Return how code is called that jax has compiled for the device.

        taken, given: the arrays that it takes and gives.
        """
        jax = load_jax()

        def call(arguments: Sequence[Any], found: list[Any]) -> None:
            with jax.enable_x64(True):
                found.extend(compiled(*arguments))

        return call

    def to_bytes(self, lowered: Any, compiled: Any) -> bytes:
        """Return code that jax has lowered, and compiled, as bytes.

        Raises: ValueError for code that jaxlib cannot write; whatever jax does for code that has no
          such form.
        """
        if not can_be_written(lowered):
            raise ValueError("it calls a library that jaxlib cannot write code with")
        from jax.experimental import serialize_executable  # noqa: PLC0415 - as jax itself

        return pickle.dumps(serialize_executable.serialize(compiled))

    def load(self, code: bytes, taken: Signature, given: Signature) -> Call:
        """Return how code is called that `to_bytes` has written.

        Raises: whatever jax does for code of another version.
        """
        from jax.experimental import serialize_executable  # noqa: PLC0415 - as jax itself

        written, taken, given = pickle.loads(code)
        with load_jax().enable_x64(True):
            loaded = serialize_executable.deserialize_and_load(
                written,
                taken,
                given,
                backend=self.device.client,
                execution_devices=[self.device],
            )
        return self.call_of(loaded, taken, given)


def make_cpu() -> CpuClient | JaxCpu:
    """Return what runs compiled code on CPUs: jaxlib alone, unless its version is another one."""
    try:
        return CpuClient()
    except Exception:  # another version of jaxlib
        _LOGGER.warning(
            "jaxlib %s is not as expected: compiled code runs by way of jax, more slowly",
            version("jaxlib"), exc_info=_LOGGER.isEnabledFor(logging.DEBUG),
        )  # fmt: skip
        return JaxCpu()


def compile_for_cpu(lowered: Any) -> Any:
    """Return lowered code compiled for a CPU, with what makes it faster there.

    Raises: whatever XLA does for code that it refuses.
    """
    options = options_for(lowered.compiler_ir("stablehlo"))
    try:
        return lowered.compile(compiler_options=options)
    except Exception as error:
        if not any(option in str(error) for option in options):
            raise
        _LOGGER.debug("this version of jaxlib knows none of %s", list(options))
        return lowered.compile()


def compiler_key() -> str:
    """Return what compiled code depends on besides what is compiled: versions, options, cores."""
    flags = os.environ.get("XLA_FLAGS", "")
    return repr((*_versions(), flags, CPU_OPTIONS, is_used(), schedulable_processors()))


@functools.cache
def _versions() -> tuple[str, str]:
    return version("jax"), version("jaxlib")


def quick_call(compiled: Any) -> Callable[..., Any]:
    """Return how compiled code is called without Python of jax's in between, after its first call.

    Without that: the compiled code itself.
    """
    found: Callable[..., Any] = getattr(compiled, "_call", None) or compiled
    return found
