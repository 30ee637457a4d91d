"""Run a service's method for a transport: count it, and let only OpError out.

Every transport's server side goes through here, so that an error means the same on all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

from google.protobuf.message import Message

from tideflow.platform import clock
from tideflow.transport.service import AtOnce, Binding, MethodSpec
from tideflow.transport.statistics import CountedCall
from tideflow.wire import errors, status
from tideflow.wire.parted import take_apart

_LOGGER = logging.getLogger(__name__)


async def answer(binding: Binding, request: Message) -> Message:
    """Call a unary method and return its response.

    Raises: OpError for whatever went wrong (see `as_op_error`); asyncio.CancelledError when the
    calling task is cancelled, and only then.
    """
    with CountedCall(binding.statistics):
        try:
            return _checked(binding.spec, await binding.function(request))
        except (Exception, asyncio.CancelledError) as error:
            raise _what_to_raise(error, binding.spec)  # noqa: B904


def begin_answer(
    binding: Binding, function: Callable[[Any], AtOnce[Any]], request: Message
) -> AtOnce[Message]:
    """Call a unary method by its function that may have the answer at once.

    Returns the response, or the coroutine that gives it.
    Raises: OpError, as `answer`; so does the coroutine.
    """
    statistics = binding.statistics
    started_s = clock.monotonic_s()
    try:
        found = function(request)
        if isinstance(found, Coroutine):
            return _answer_rest(binding, found)
        response = _checked(binding.spec, found)
    except (Exception, asyncio.CancelledError) as error:
        statistics.calls += 1
        statistics.errors += 1
        raise _what_to_raise(error, binding.spec)  # noqa: B904
    statistics.calls += 1
    statistics.total_s += clock.monotonic_s() - started_s
    return response


async def _answer_rest(binding: Binding, work: Awaitable[Any]) -> Message:
    with CountedCall(binding.statistics):
        try:
            return _checked(binding.spec, await work)
        except (Exception, asyncio.CancelledError) as error:
            raise _what_to_raise(error, binding.spec)  # noqa: B904


async def answer_stream(
    binding: Binding, requests: AsyncIterator[Message]
) -> AsyncGenerator[Message, None]:
    """Call a streaming method and yield its responses; errors as in `answer`."""
    with CountedCall(binding.statistics):
        responses = binding.function(requests)
        try:
            async for response in responses:
                yield _checked(binding.spec, response)
        except (Exception, asyncio.CancelledError) as error:
            raise _what_to_raise(error, binding.spec)  # noqa: B904
        finally:
            # Before the generator is forgotten, so that its own clean-up runs in this task.
            if hasattr(responses, "aclose"):
                await responses.aclose()


def _what_to_raise(error: BaseException, spec: MethodSpec) -> BaseException:
    if isinstance(error, asyncio.CancelledError):
        if is_being_cancelled():
            return error
        return errors.CancelledError(f"{spec.path} waited for something that was cancelled")
    return as_op_error(error, spec)


def is_being_cancelled() -> bool:
    """Whether someone asked the current task to stop.

    False inside `except asyncio.CancelledError` means that the task awaited something that was
    cancelled under it, and is itself to go on.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _checked(spec: MethodSpec, response: Any) -> Message:
    message, _ = take_apart(response)
    if not isinstance(message, spec.response_type):
        raise errors.InternalError(
            f"the handler of {spec.path} returned {type(response).__name__},"
            f" not {spec.response_type.__name__}"
        )
    return response  # type: ignore[no-any-return]


def as_op_error(error: BaseException, spec: MethodSpec) -> errors.OpError:
    """Return the OpError that stands for what a handler raised.

    An OpError stands for itself.  Of a group (an asyncio.TaskGroup raises one) the first root error
    stands for all, else the first derived one.  Anything else is a defect of the handler: INTERNAL,
    with the traceback in the log.
    """
    found = list(_op_errors_in(error))
    if found:
        return next((e for e in found if not status.is_derived(e)), found[0])
    _LOGGER.error("%s failed unexpectedly", spec.path, exc_info=error)
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return errors.InternalError(
        f"{spec.path} failed unexpectedly with {text}; the traceback is in the server's log"
    )


def _op_errors_in(error: BaseException) -> Iterator[errors.OpError]:
    if isinstance(error, errors.OpError):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _op_errors_in(member)
