"""Message streams on our own wire: each stands where the inbox of its call would be."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from tideflow.transport.answer import as_op_error
from tideflow.transport.h2.client_calls import ClientCall
from tideflow.transport.h2.client_link import ClientLink
from tideflow.transport.h2.link import Link
from tideflow.transport.h2.messages import MessageData, parts_of
from tideflow.transport.message_stream import MessageStream, StreamReceiver
from tideflow.transport.service import MethodSpec
from tideflow.transport.statistics import MethodStatistics
from tideflow.wire import errors


class LinkStream(MessageStream):
    """What the two ends of a stream have in common.

    Args:
      parse: makes messages of bytes; counts them.
    Attributes:
      when_ended: is called once before the receiver hears of the end.
    """

    def __init__(
        self,
        link: Link,
        spec: MethodSpec,
        stream_id: int,
        statistics: MethodStatistics,
        parse: Callable[[MessageData], Any],
    ) -> None:
        self._link = link
        self._spec = spec
        self._stream_id = stream_id
        self._statistics = statistics
        self._parse = parse
        self.receiver: StreamReceiver | None = None
        self.when_ended: Callable[[], None] | None = None
        self._has_ended = False

    def begin(self, receiver: StreamReceiver) -> None:
        """Give what comes to a receiver from now on."""
        self.receiver = receiver
        self._statistics.in_flight += 1

    # ---- as the inbox of its call

    def received(self, count: int) -> None:
        """Let the peer send as many bytes again: nothing stays here."""
        self._link.core.acknowledge(self._stream_id, count)

    def put(self, message: MessageData) -> None:
        """Pass a message on."""
        receiver = self.receiver
        if receiver is None or self._has_ended:
            return
        self._statistics.calls += 1
        try:
            receiver.received(self._parse(message))
        except Exception as error:
            self.close(as_op_error(error, self._spec))

    def end(self, error: errors.OpError | None = None) -> None:
        """Take note of the end of the call."""
        if self._has_ended or self.receiver is None:
            return
        self._has_ended = True
        self._statistics.in_flight -= 1
        if error is not None:
            self._statistics.errors += 1
        if self.when_ended is not None:
            self.when_ended()
        self.receiver.ended(error)

    # ---- as a stream

    def send(self, message: Any) -> bool:
        if self._has_ended:
            return False
        parts = parts_of(message, self._spec.path)
        self._statistics.sent_bytes += sum(map(len, parts)) - len(parts[0])
        link = self._link
        try:
            if link.shared.can_lend:
                parts = link.shared.lend_now(parts)
            self._begin_sending()
            link.core.send_data(self._stream_id, parts)
            link.flush()
        except Exception as error:
            # Some of it may be on its way: it can neither be sent again nor left out.
            self.close(as_op_error(error, self._spec))
            return False
        return True

    def _begin_sending(self) -> None:
        """Send what goes before the first message."""

    def close(self, error: errors.OpError | None = None) -> None:
        if not self._has_ended:
            self.end(error)
            self._end_call(error)

    @abstractmethod
    def _end_call(self, error: errors.OpError | None) -> None:
        """End the call on the connection."""

    @property
    def pending_bytes(self) -> int:
        return self._link.core.pending_bytes(self._stream_id)


class ClientStream(LinkStream):
    """A stream that a channel has opened."""

    def __init__(
        self,
        link: ClientLink,
        call: ClientCall,
        spec: MethodSpec,
        statistics: MethodStatistics,
        parse: Callable[[MessageData], Any],
    ) -> None:
        super().__init__(link, spec, call.stream_id, statistics, parse)
        self._call = call
        self._client_link = link

    def _end_call(self, error: errors.OpError | None) -> None:
        self._client_link.cancel(self._call)
