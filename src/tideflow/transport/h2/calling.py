"""What the two ways to call a peer share: how a call is written, read and spoken of.

One way is the event loop's (channel.py), the other that of blocked threads (blocking.py).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from google.protobuf.message import DecodeError, Message

from tideflow.platform.settings import Settings
from tideflow.transport.channel import Metadata
from tideflow.transport.h2 import grpc
from tideflow.transport.h2.client_calls import ClientCall, Outcome
from tideflow.transport.h2.header_blocks import encode_block
from tideflow.transport.h2.listening import unix_path
from tideflow.transport.h2.messages import MessageData, Parser, parsed
from tideflow.transport.h2.shared_memory_limit import most_shared_bytes
from tideflow.transport.pauses import growing_pauses_s
from tideflow.transport.service import MethodSpec
from tideflow.transport.statistics import MethodStatistics
from tideflow.transport.token import metadata_with, token_of
from tideflow.wire import errors, status

# How long a peer that could be connected to may take to greet, where the kernel can tell that it is
# there: it may be stopped, but it may also speak another protocol and wait for us to begin.
MOST_GREETING_S = 120.0
# Timers of event loops are of milliseconds: the peer's may be the first to see that a time is over.
CLOCK_SLACK_S = 0.005
# How often a call is made anew that the peer never looked at.
MOST_TRIES = 5

# A restarted peer is found again soon.
_FIRST_BACKOFF_S = 0.1
_MOST_BACKOFF_S = 0.5
_BACKOFF_GROWTH = 1.6

# How long a host may take to accept a connection: longer after each time that it did not.
_FIRST_CONNECT_S = 5.0
_MOST_CONNECT_S = 40.0


class OutOfTimeError(Exception):
    """The deadline of a call has passed."""


def _pauses_s() -> Iterator[float]:
    return growing_pauses_s(_FIRST_BACKOFF_S, _MOST_BACKOFF_S, growth=_BACKOFF_GROWTH, least=0.8)


class Backoff:
    """When a connection may be tried again after the last try.

    A connection alone proves nothing: a peer may accept it and hang up at once.  So only an
    answered call (`reset`) ends the waiting.

    Attributes:
      retry_at_s: the moment, on the caller's clock.
      connect_s: how long a try may take.
    """

    def __init__(self) -> None:
        self.retry_at_s = 0.0
        self.connect_s = _FIRST_CONNECT_S
        self._pauses_s = _pauses_s()

    def tried(self, now_s: float, *, was_late: bool) -> None:
        """Take note of a try that has ended now; was_late for one that took too long."""
        self.connect_s = min(2 * self.connect_s, _MOST_CONNECT_S) if was_late else _FIRST_CONNECT_S
        self.retry_at_s = now_s + next(self._pauses_s)

    def reset(self) -> None:
        """Take note of an answered call."""
        self.retry_at_s = 0.0
        self._pauses_s = _pauses_s()


class Calling:
    """One peer, and the words for calls to it.

    Args:
      target: the peer as error messages name it.
      address: `HOST:PORT` or `unix:PATH`.
      is_secure: whether the connection has TLS, but for one to this user's server on this host.
      shares_host: whether such a server is reached by the socket beside its port.
      settings: how connections are used.
    """

    def __init__(
        self, target: str, address: str, *, is_secure: bool, shares_host: bool, settings: Settings
    ) -> None:
        self.settings = settings
        self.target = target
        self.address = address
        self.is_secure = is_secure
        token = token_of(settings)
        self._proof = metadata_with(token, address, is_secure=is_secure)
        self.shares_host = shares_host and most_shared_bytes(settings.shared_memory) > 0
        self._authority = "localhost" if unix_path(address) is not None else address
        self._parsers: dict[str, Parser] = {}

    def new_call(self, method: MethodSpec, done: Outcome | None) -> ClientCall:
        """Return a call of a method, not started; `done` gets its answer if it is unary."""
        return ClientCall(self._parser_of(method), done, functools.partial(self._error_of, method))

    def block(self, method: MethodSpec, left_s: float | None, metadata: Metadata = ()) -> bytes:
        """Return the header block of a call that may take so long."""
        timeout = b"" if left_s is None else grpc.encode_timeout(left_s)
        if self._proof:
            metadata = (*metadata, *self._proof)
        block = grpc.request_block(method.path, self._authority, timeout, is_secure=self.is_secure)
        return block + encode_block(grpc.metadata_pairs(metadata)) if metadata else block

    def _parser_of(self, method: MethodSpec) -> Parser:
        found = self._parsers.get(method.path)
        if found is None:
            found = self._parsers[method.path] = Parser(method.response_type)
        return found

    async def parsed(
        self, method: MethodSpec, data: MessageData, statistics: MethodStatistics
    ) -> Message:
        """Return an answer, as `parse`; the loop goes on meanwhile."""
        parse = functools.partial(self.parse, method, statistics=statistics)
        return await parsed(self._parser_of(method), data, parse)

    def parse(self, method: MethodSpec, data: MessageData, statistics: MethodStatistics) -> Message:
        """Return an answer.  Raises: InternalError for bytes that are none."""
        size = len(data)
        statistics.received_bytes += size
        try:
            return self._parser_of(method).parse(data)
        except DecodeError as error:
            raise errors.InternalError(
                f"{self.target} answered {method.path} with {size} bytes that are not a"
                f" {method.response_type.__name__}: {error}"
            ) from error

    def refused_error(self, path: str) -> errors.OpError:
        """Return the error of a call that the peer never looked at, however often it was made."""
        return errors.UnavailableError(
            f"{self.target} refused {path} {MOST_TRIES} times; is it stopping?"
        )

    def closed_error(self, path: str) -> errors.OpError:
        """Return the error of calls on a closed channel."""
        what = f"{path} on {self.target}" if path else self.target
        return status.mark_derived(errors.CancelledError(f"{what}: the channel was closed"))

    def _error_of(
        self, method: MethodSpec, code: int, text: str, metadata: grpc.Metadata
    ) -> errors.OpError:
        """Return the OpError for the status that a call ended with."""
        text = (
            f"{text}\nAdditional information: the error came from remote target {self.target}"
            f" while calling {method.path}"
        )
        found = status.error_from(code, text, metadata)
        # A peer's call was cancelled because something else failed or gave up first.
        return status.mark_derived(found) if code == errors.CANCELLED else found
