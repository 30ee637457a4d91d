"""What we use of jax beyond its documented interface, in one place.

Each function has a way that only documented interfaces need, which is slower or does less.  Which
versions of jax have been tried is bounded in pyproject.toml; tests/runtime/test_jax_internals.py
fails where a version has moved one of these.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

_LOGGER = logging.getLogger(__name__)


@functools.cache
def load_jax() -> Any:
    """Return the jax module."""
    import jax  # noqa: PLC0415 - most programs never compile anything

    return jax


def make_synchronous_cpu() -> Any:
    """Return a CPU device of our own, on which code runs on the thread that calls it.

    Without jaxlib's maker of clients: jax's first CPU device, which runs on threads of its own.
    """
    jax = load_jax()
    try:
        from jaxlib import xla_client  # noqa: PLC0415 - as jax itself

        client: Any = xla_client.make_cpu_client(asynchronous=False, num_devices=1)
        return client.devices()[0]
    except Exception:  # another version of jaxlib
        _LOGGER.warning(
            "jaxlib %s has no CPU device of one's own: compiled code runs on jax's, more slowly",
            getattr(jax, "__version__", "?"), exc_info=_LOGGER.isEnabledFor(logging.DEBUG),
        )  # fmt: skip
        return jax.local_devices(backend="cpu")[0]


# XLA's own choice hands convolutions to a library that computes them on one thread.  With this
# option only matrix products go to that library, and Eigen computes convolutions, on all threads.
_CPU_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}


def compile_for_cpu(lowered: Any, sharding: Any) -> Any:
    """Return lowered code compiled for a CPU, with what makes it faster there.

    sharding: of an array on that CPU.  Raises: whatever XLA does for code that it refuses.
    """
    return lowered.compile(compiler_options=cpu_options(sharding))


@functools.cache
def cpu_options(sharding: Any) -> dict[str, str] | None:
    """Return the options with which code for a CPU is compiled; None where XLA knows none of them.

    sharding: of an array on that CPU.
    """
    jax = load_jax()
    given = jax.ShapeDtypeStruct((), "float32", sharding=sharding)
    try:
        jax.jit(lambda x: x + 1).lower(given).compile(compiler_options=_CPU_OPTIONS)
    except Exception:  # another version of jaxlib
        _LOGGER.debug("this version of jaxlib knows none of %s", list(_CPU_OPTIONS))
        return None
    return _CPU_OPTIONS


def compiler_key(options: dict[str, str] | None) -> str:
    """Return what compiled code depends on besides what is compiled: versions, options, cores."""
    versions = version("jax"), version("jaxlib")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    flags = os.environ.get("XLA_FLAGS", "")
    return repr((*versions, flags, options, cores))


def quick_call(compiled: Any) -> Callable[..., Any]:
    """Return how compiled code is called without Python of jax's in between, after its first call.

    Without that: the compiled code itself.
    """
    found: Callable[..., Any] = getattr(compiled, "_call", None) or compiled
    return found


def to_bytes(compiled: Any) -> tuple[bytes, int]:
    """Return compiled code as bytes, and how many results it gives.

    Raises: whatever jax does for code that has no such form.
    """
    load_jax()
    from jax.experimental import serialize_executable  # noqa: PLC0415 - as jax itself

    code, _, results = serialize_executable.serialize(compiled)
    return code, results.num_leaves


def from_bytes(code: bytes, taken: int, given: int, device: Any) -> Any:
    """Return compiled code that `to_bytes` has written, which takes and gives so many arrays.

    device: it runs there, a CPU.  Raises: whatever jax does for code of another version.
    """
    jax = load_jax()
    from jax.experimental import serialize_executable  # noqa: PLC0415 - as jax itself

    with jax.enable_x64(True):
        return serialize_executable.deserialize_and_load(
            code,
            jax.tree_util.tree_structure(((0,) * taken, {})),
            jax.tree_util.tree_structure([0] * given),
            backend=device.client,
            execution_devices=[device],
        )
