"""A service is one class whose coroutine methods are its RPCs.

    class WorkerService(Service, name="tensorflow.WorkerService"):
        @rpc
        async def GetStatus(self, request: pb.GetStatusRequest) -> pb.GetStatusResponse: ...

A server subclasses it and overrides what it can do; `stub(WorkerService, channel)` is the same
class calling a remote one.  The declaration alone says everything a transport needs: names, message
types (read from the annotations) and how to wait.  The bodies of declarations are just `...`, which
mypy accepts in a module that says `# mypy: disable-error-code="empty-body"`.

A method that often need not wait may be joined by a plain function `NAME_at_once(request)`, which
returns an AtOnce.  Transports that can save a task by it call that instead.
"""

from __future__ import annotations

import asyncio
import inspect
import types
import typing
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar, overload

from google.protobuf.message import Message

from tideflow.transport.message_stream import MessageStream, StreamReceiver
from tideflow.transport.statistics import MethodStatistics
from tideflow.wire import errors

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

# What a method has in hand: its answer, or the coroutine that will give it.
AtOnce: TypeAlias = T | Coroutine[Any, Any, T]

HoldsGraphs: TypeAlias = bool | Callable[[Any], bool]

_DECLARED = "__rpc_options__"


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """What a transport knows of one RPC.

    Attributes:
      service, name: as on the wire; `path` joins them.
      request_type, response_type: message classes.
      timeout_s: deadline of a call that states none; None waits for ever.
      wait_for_ready: whether a call waits for an absent peer instead of failing with UNAVAILABLE.
      streaming: whether both sides send many messages.
      sends_graphs: whether a request may hold a graph, which takes long to write: a graph may have
        large constants, which protobuf copies; or what tells that of a request.
      answers_graphs: the same of a response.
    """

    service: str
    name: str
    request_type: type[Message]
    response_type: type[Message]
    timeout_s: float | None = None
    wait_for_ready: bool = False
    streaming: bool = False
    sends_graphs: HoldsGraphs = False
    answers_graphs: HoldsGraphs = False
    path: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", f"/{self.service}/{self.name}")


@dataclass(frozen=True, slots=True)
class _Options:
    timeout_s: float | None
    wait_for_ready: bool
    streaming: bool
    sends_graphs: HoldsGraphs = False
    answers_graphs: HoldsGraphs = False


@overload
def rpc(method: F, /) -> F: ...
@overload
def rpc(
    *,
    timeout_s: float | None = None,
    wait_for_ready: bool = False,
    sends_graphs: HoldsGraphs = False,
    answers_graphs: HoldsGraphs = False,
) -> Callable[[F], F]: ...
def rpc(
    method: Callable[..., Any] | None = None,
    /,
    *,
    timeout_s: float | None = None,
    wait_for_ready: bool = False,
    sends_graphs: HoldsGraphs = False,
    answers_graphs: HoldsGraphs = False,
) -> Any:
    """Declare `async def Method(self, request: Req) -> Resp` as an RPC with one message each way.

    timeout_s is the deadline of remote calls that state none.  A server that does not override
    the method answers UNIMPLEMENTED.  sends_graphs, answers_graphs: as in MethodSpec.
    """
    options = _Options(timeout_s, wait_for_ready, False, sends_graphs, answers_graphs)
    return _declare(method, options) if method is not None else lambda m: _declare(m, options)


@overload
def rpc_stream(method: F, /) -> F: ...
@overload
def rpc_stream(
    *, timeout_s: float | None = None, wait_for_ready: bool = False
) -> Callable[[F], F]: ...
def rpc_stream(
    method: Callable[..., Any] | None = None,
    /,
    *,
    timeout_s: float | None = None,
    wait_for_ready: bool = False,
) -> Any:
    """Declare an RPC with a stream of messages each way.

    The method is `def Method(self, requests: AsyncIterator[Req]) -> AsyncIterator[Resp]`, and an
    implementation of it usually an async generator.
    """
    options = _Options(timeout_s, wait_for_ready, streaming=True)
    return _declare(method, options) if method is not None else lambda m: _declare(m, options)


def _declare(method: Callable[..., Any], options: _Options) -> Callable[..., Any]:
    """Put in place of a declaration a method that says it is not implemented."""

    def refusal(self: Service) -> errors.OpError:
        return errors.UnimplementedError(
            f"{type(self).__name__} does not implement {self.service_name}/{method.__name__}"
        )

    async def unimplemented_call(self: Service, request: Any) -> Any:
        raise refusal(self)

    async def unimplemented_stream(self: Service, requests: Any) -> AsyncIterator[Any]:
        nothing: tuple[Any, ...] = ()
        for message in nothing:
            yield message
        raise refusal(self)

    unimplemented: Callable[..., Any] = (
        unimplemented_stream if options.streaming else unimplemented_call
    )
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        setattr(unimplemented, name, getattr(method, name))
    # get_type_hints looks in the globals of the wrapped function: the declaring module's.
    unimplemented.__wrapped__ = method  # type: ignore[attr-defined]
    setattr(unimplemented, _DECLARED, options)
    return unimplemented


class Service:
    """Base of all services; a declaring subclass gives the wire's name as `name=`."""

    service_name: ClassVar[str] = ""

    def __init_subclass__(cls, *, name: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if name is not None:
            cls.service_name = name

    def accept_message_stream(
        self, name: str, message_stream: MessageStream
    ) -> StreamReceiver | None:
        """Return who receives what comes through a message stream that a client has opened;
        None leaves it to the method."""
        return None

    def caller_lost(self, task: asyncio.Task[Any]) -> bool:
        """Take note that the connection of a unary call's caller is gone; return whether the task
        that answers the call goes on.  By default it is cancelled."""
        return False

    @property
    def statistics(self) -> dict[str, MethodStatistics]:
        """What this object has answered through transports, by method name.

        Direct calls of a local object pass no transport and are not counted.
        """
        found: dict[str, MethodStatistics] = self.__dict__.setdefault("_statistics", {})
        return found


def methods_of(service_class: type[Service]) -> dict[str, MethodSpec]:
    """Return the RPCs that a service class declares or inherits, by name.

    Raises: TypeError when a declaration's annotations do not name one request message and one
    response message, or no class above gave the service's name.
    """
    table: dict[str, MethodSpec] | None = service_class.__dict__.get("_methods")
    if table is None:
        table = {}
        for ancestor in reversed(service_class.__mro__):
            for name, member in vars(ancestor).items():
                options = getattr(member, _DECLARED, None)
                if options is not None:
                    table[name] = _spec_of(service_class.service_name, member, options)
        service_class._methods = table  # type: ignore[attr-defined]
    return table


def _spec_of(service_name: str, method: Callable[..., Any], options: _Options) -> MethodSpec:
    where = f"{method.__module__}.{method.__qualname__}"
    if not service_name:
        raise TypeError(f"the class of {where} has no service name: declare it with name=...")
    hints = typing.get_type_hints(method)
    response = hints.pop("return", None)
    request = next(iter(hints.values()), None)
    if options.streaming:
        request, response = (next(iter(typing.get_args(t)), None) for t in (request, response))
    request, response = (_message_class(hint) for hint in (request, response))
    for hint in (request, response):
        # A class that reads and writes the bytes of a message itself may stand for one.
        is_message = inspect.isclass(hint) and hasattr(hint, "FromString")
        if not (is_message and hasattr(hint, "SerializeToString")):
            raise TypeError(f"{where} must be annotated with message classes; found {hint!r}")
    return MethodSpec(
        service_name,
        method.__name__,
        typing.cast("type[Message]", request),
        typing.cast("type[Message]", response),
        options.timeout_s,
        options.wait_for_ready,
        options.streaming,
        options.sends_graphs,
        options.answers_graphs,
    )


def _message_class(hint: Any) -> Any:
    """Return the message of an annotation that may also be that message in parts."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) in _UNIONS else hint


_UNIONS = (typing.Union, types.UnionType)


@dataclass(frozen=True, slots=True)
class Binding:
    """One RPC of one service object: what a server looks up by path.

    Attributes:
      at_once: what may have the answer without waiting, if the object has such a function.
    """

    spec: MethodSpec
    function: Callable[[Any], Any]
    statistics: MethodStatistics
    service: Service
    at_once: Callable[[Any], AtOnce[Any]] | None = None


def bind(services: Iterable[Service]) -> dict[str, Binding]:
    """Return the RPCs of the given objects by path.

    Raises: ValueError when two objects offer the same service.
    """
    table: dict[str, Binding] = {}
    for service in services:
        for name, spec in methods_of(type(service)).items():
            if spec.path in table:
                raise ValueError(f"two services answer {spec.path}; a server takes one of each")
            statistics = service.statistics.setdefault(name, MethodStatistics())
            at_once = getattr(service, f"{name}_at_once", None)
            function = getattr(service, name)
            table[spec.path] = Binding(spec, function, statistics, service, at_once)
    return table
