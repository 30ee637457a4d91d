"""What we use of jax beyond its documented interface, in one place.

Each function has a way that only documented interfaces need, which is slower or does less.  Which
versions of jax have been tried is bounded in pyproject.toml; tests/runtime/test_jax_internals.py
fails where a version has moved one of these.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
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


# XLA's own choice hands convolutions to a library that computes them on one thread; products alone
# go there, and convolutions are Eigen's, on all threads.
_CPU_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}


def compile_for_cpu(lowered: Any) -> Any:
    """Return lowered code compiled for a CPU, with what makes it faster there.

    Without options of that name: as XLA chooses.  Raises: whatever XLA does for code it refuses.
    """
    if not _takes_cpu_options():
        return lowered.compile()
    return lowered.compile(compiler_options=_CPU_OPTIONS)


@functools.cache
def _takes_cpu_options() -> bool:
    jax = load_jax()
    try:
        jax.jit(lambda x: x).lower(1.0).compile(compiler_options=_CPU_OPTIONS)
    except Exception:  # another version of jaxlib
        _LOGGER.debug("jaxlib %s knows none of %s", jax.lib.__version__, list(_CPU_OPTIONS))
        return False
    return True


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
