"""Asynchronous execution: when errors of other tasks' operations come up.

Operations on other tasks are enqueued and not waited for, in both modes; local ones have run when
they return.  So the modes differ in nothing but what the program is told.

Source: tensorflow/python/eager/context.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tideflow.eager.context import context
from tideflow.ops.export import export_v2
from tideflow.runtime.loop import run_sync


@export_v2("config.experimental.set_synchronous_execution")
def set_synchronous_execution(enable: bool | None) -> None:
    """Say whether operations are waited for; None means that they are.

    Raises: what went wrong in operations that nobody looked at, when it is turned on again.
    """
    home = context()
    was, home.is_synchronous = home.is_synchronous, enable is not False
    if home.is_synchronous and not was:
        async_wait()
    elif was and not home.is_synchronous:
        async_clear_error()


@export_v2("config.experimental.get_synchronous_execution")
def get_synchronous_execution() -> bool:
    """Whether operations are waited for."""
    return context().is_synchronous


@export_v2("experimental.async_scope")
@contextlib.contextmanager
def async_scope() -> Iterator[None]:
    """Wait at the end of `with` for all that was enqueued inside.

    Raises: the first error of any of it, until async_clear_error.
    """
    home = context()
    was, home.is_synchronous = home.is_synchronous, False
    if was:
        async_clear_error()
    try:
        yield
        async_wait()
    finally:
        home.is_synchronous = was


def async_wait() -> None:
    """Wait for all that was enqueued.  Raises: the first error of any of it."""
    cluster = context().cluster
    if cluster is not None:
        run_sync(cluster.operations.synchronize())


@export_v2("experimental.async_clear_error")
def async_clear_error() -> None:
    """Forget what went wrong before."""
    cluster = context().cluster
    if cluster is not None:
        cluster.operations.forget_errors()
