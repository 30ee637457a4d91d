"""Bodies in shared memory on connections: agreed upon, used both ways, and left out where they
must be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from chaos.proxy import Relay
from cluster.servers import free_ports
from tideflow.runtime.loop import run_sync
from tideflow.transport import Service, rpc, rpc_stream, stub
from tideflow.transport.h2 import H2Channel, H2Server, shared_memory, shared_memory_link
from tideflow.transport.h2.connection import Connection
from tideflow.transport.h2.events import PingAnswered, SettingsReceived
from tideflow.transport.h2.frames import Buffer
from tideflow.transport.h2.shared_memory import DESCRIPTOR_BYTES, SegmentPool
from tideflow.transport.h2.shared_memory_limit import is_possible
from tideflow.transport.h2.shared_memory_link import LEAST_BYTES, SharedBodies, is_within_host
from tideflow.wire import errors
from tideflow.wire.fields import varint

pytestmark = pytest.mark.skipif(not is_possible(), reason="shared memory is for Linux")

MIB = 1 << 20
MOST = 1 << 40
LOCAL = ("127.0.0.1", 1)
ELSEWHERE = ("192.0.2.7", 1)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[SegmentPool]:
    """The pool of all links that the test makes."""
    made = SegmentPool(64 * MIB)
    monkeypatch.setattr(shared_memory_link, "pool", lambda limit_bytes: made)
    yield made
    made.close()


# ---- without sockets


class Ends:
    """The two ends of a connection, and what passes between them."""

    def __init__(self, own: object = LOCAL, peer: object = LOCAL) -> None:
        self.client_core = Connection(is_client=True)
        self.server_core = Connection(is_client=False)
        self.client = SharedBodies(self.client_core, MIB)
        self.server = SharedBodies(self.server_core, MIB)
        for end in (self.client, self.server):
            end.begin(own, peer)
        self.pump()

    def pump(self) -> None:
        """Let each end read what the other wrote, until both have nothing to say."""
        while self._pass(self.client_core, self.server_core, self.server) or self._pass(
            self.server_core, self.client_core, self.client
        ):
            pass

    @staticmethod
    def _pass(source: Connection, target_core: Connection, target: SharedBodies) -> bool:
        sent = b"".join(bytes(piece) for piece in source.take_output())
        for event in target_core.receive(sent):
            if type(event) is SettingsReceived:
                target.on_settings(event.others)
            elif type(event) is PingAnswered:
                target.on_ping_answered(event.payload)
        return bool(sent)


def message(body: bytes) -> list[Buffer]:
    return [b"\x00" + len(body).to_bytes(4, "big"), body]


def descriptor_of(parts: list[Buffer]) -> bytes:
    (data,) = parts
    assert data[0] == 2
    assert len(data) == 5 + DESCRIPTOR_BYTES
    return bytes(data[5:])


def test_two_ends_of_one_host_agree_and_lend_both_ways(pool: SegmentPool) -> None:
    ends = Ends()
    body = b"a body" * MIB
    for source, target in ((ends.client, ends.server), (ends.server, ends.client)):
        assert source.can_lend
        parts = source.lend_now(message(body))
        assert target.view(descriptor_of(parts), MOST) == body
    ends.client.close()
    ends.server.close()


def test_a_small_message_goes_as_it_is(pool: SegmentPool) -> None:
    ends = Ends()
    parts = message(bytes(LEAST_BYTES - 1))
    assert ends.client.lend_now(parts) is parts
    assert pool.held_bytes == 0


@pytest.mark.parametrize(
    ("own", "peer", "is_within"),
    [
        (LOCAL, LOCAL, True),
        (("127.0.0.1", 1), ("127.3.4.5", 9), True),
        (("::1", 1, 0, 0), ("::1", 9, 0, 0), True),
        (("10.0.0.7", 1), ("10.0.0.7", 9), True),
        (("fe80::1%eth0", 1, 0, 2), ("fe80::2%eth0", 9, 0, 2), False),
        (("10.0.0.7", 1), ("10.0.0.8", 9), False),
        (("10.0.0.7", 1), ("odd", 9), False),
        ("/run/socket", "", True),
        ("", "/run/socket", True),
        (None, None, False),
    ],
)
def test_what_is_within_a_host(own: object, peer: object, is_within: bool) -> None:
    assert is_within_host(own, peer) is is_within


def test_nothing_is_offered_to_other_hosts(pool: SegmentPool) -> None:
    plain = Connection(is_client=True)
    distant = Connection(is_client=True)
    SharedBodies(distant, MIB).begin(ELSEWHERE, ("192.0.2.8", 1))
    assert b"".join(map(bytes, distant.take_output())) == b"".join(map(bytes, plain.take_output()))
    ends = Ends(ELSEWHERE, ("192.0.2.8", 1))
    assert not ends.client.can_lend
    assert not ends.server.can_lend


def test_an_offer_from_elsewhere_is_not_looked_at(pool: SegmentPool) -> None:
    server = SharedBodies(Connection(is_client=False), MIB)
    server.begin(ELSEWHERE, ("192.0.2.8", 1))
    server.on_settings(shared_memory_link.make_offer() | {shared_memory_link.CAN_OPEN: 1})
    assert not server.can_lend
    with pytest.raises(errors.InternalError, match="not agreed upon"):
        server.view(bytes(DESCRIPTOR_BYTES), MOST)


def test_a_peer_that_offers_nothing_hears_nothing_of_it(pool: SegmentPool) -> None:
    core = Connection(is_client=False)
    server = SharedBodies(core, MIB)
    server.begin(LOCAL, LOCAL)
    core.take_output()
    server.on_settings({0xFE03: 1})
    assert not core.has_output
    assert not server.can_lend


@pytest.mark.parametrize("word", range(len(shared_memory_link.OFFER_SETTINGS)))
@pytest.mark.parametrize("value", [0, 1, 2**32 - 1])
def test_a_wrong_offer_is_as_none(word: int, value: int, pool: SegmentPool) -> None:
    offer = shared_memory_link.make_offer()
    number = shared_memory_link.OFFER_SETTINGS[word]
    if offer[number] == value:
        value = 77
    core = Connection(is_client=False)
    server = SharedBodies(core, MIB)
    server.begin(LOCAL, LOCAL)
    core.take_output()
    server.on_settings(offer | {number: value})
    assert not core.has_output


def test_after_a_wrong_descriptor_the_peer_is_asked_to_lend_no_more(pool: SegmentPool) -> None:
    ends = Ends()
    with pytest.raises(errors.InternalError):
        ends.server.view(bytes(DESCRIPTOR_BYTES), MOST)
    ends.pump()
    assert not ends.client.can_lend
    assert ends.server.can_lend
    parts = message(bytes(MIB))
    assert ends.client.lend_now(parts) is parts


def test_what_is_lent_on_a_connection_is_dropped_with_it(pool: SegmentPool) -> None:
    ends = Ends()
    parts = ends.client.lend_now(message(b"kept" * MIB))
    kept = ends.server.view(descriptor_of(parts), MOST)
    ends.client.lend_now(message(b"lost" * MIB))
    assert pool.lent_count == 2
    ends.client.close()
    assert (pool.lent_count, pool.held_bytes) == (0, 0)
    ends.server.close()
    assert kept == b"kept" * MIB


def test_a_message_that_never_was_taken_comes_back(pool: SegmentPool) -> None:
    ends = Ends()
    taken = ends.server.view(descriptor_of(ends.client.lend_now(message(b"t" * MIB))), MOST)
    for _ in range(3):
        ends.client.lend_now(message(b"l" * MIB))  # of calls that ended on the way
    assert pool.lent_count == 4
    for _ in range(2):  # the first is about what was sent before the last
        ends.client.watch(untaken_s=0.0)
        ends.pump()
    assert pool.lent_count == 1
    assert taken == b"t" * MIB


def test_a_message_that_is_taken_late_does_not_come_back_early(pool: SegmentPool) -> None:
    ends = Ends()
    descriptor = descriptor_of(ends.client.lend_now(message(b"a" * MIB)))
    ends.client.watch(untaken_s=0.0)
    view = ends.server.view(descriptor, MOST)  # read before the PING, as it was sent before
    ends.pump()
    assert pool.lent_count == 1
    assert view == b"a" * MIB


def test_who_is_about_to_hang_up_lends_no_more(pool: SegmentPool) -> None:
    ends = Ends()
    ends.server.leave()
    parts = message(bytes(MIB))
    assert ends.server.lend_now(parts) is parts
    ends.client_core.say({shared_memory_link.CAN_OPEN: 1})
    ends.pump()
    assert ends.server.lend_now(parts) is parts


async def test_who_is_about_to_hang_up_can_wait_until_all_is_read(pool: SegmentPool) -> None:
    ends = Ends()
    assert ends.server.ask_taken() is None
    descriptor = descriptor_of(ends.server.lend_now(message(bytes(MIB))))
    read = ends.server.ask_taken()
    assert read is not None
    assert not read.done()
    kept = ends.client.view(descriptor, MOST)
    ends.pump()
    assert read.done()
    assert ends.server.ask_taken() is None
    assert kept[-1] == 0
    ends.server.lend_now(message(bytes(MIB)))
    read = ends.server.ask_taken()
    assert read is not None
    ends.server.close()
    assert read.done()


@pytest.mark.parametrize(("size", "is_first", "by_loop"), [
    (MIB // 2, True, True),
    (4 * MIB, True, False),
    (4 * MIB, False, True),
    (9 * MIB, False, False),
])  # fmt: skip
async def test_copies_that_take_long_are_left_to_a_thread(
    size: int, is_first: bool, by_loop: bool, pool: SegmentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Ends()
    parts = message(bytes(size))
    if not is_first:
        ends.server.view(descriptor_of(await ends.client.lend(parts)), MOST)
    threads = []
    fill = shared_memory.Segment.fill

    def watched(segment: shared_memory.Segment, parts: list[Buffer]) -> shared_memory.Descriptor:
        threads.append(threading.current_thread())
        return fill(segment, parts)

    monkeypatch.setattr(shared_memory.Segment, "fill", watched)
    descriptor_of(await ends.client.lend(parts))
    assert [thread is threading.current_thread() for thread in threads] == [by_loop]


async def test_a_cancelled_loan_comes_back_when_its_copy_is_made(pool: SegmentPool) -> None:
    ends = Ends()
    lending = asyncio.get_running_loop().create_task(
        ends.client.lend(message(bytes(16 * MIB)))  # type: ignore[arg-type]
    )
    await asyncio.sleep(0)
    lending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lending
    # The copier's threads end their work in order of its coming; this one comes later.
    jobs = [shared_memory.helpers.submit(int) for _ in range(8)]
    for job in jobs:
        await asyncio.wrap_future(job)
    shared_memory.helpers.wait()
    assert pool.lent_count == 0
    assert pool.held_bytes > 0


# ---- with sockets


class Bytes:
    """A BytesValue that is sent from where its bytes lie, as the large answers of services are."""

    def __init__(self, value: bytes) -> None:
        self.value = value

    def SerializeToParts(self) -> list[bytes]:
        return [b"\x0a" + varint(len(self.value)), self.value] if self.value else []

    def SerializeToString(self) -> bytes:
        return b"".join(self.SerializeToParts())

    @classmethod
    def FromString(cls, data: Buffer) -> Bytes:
        return cls(BytesValue.FromString(bytes(data)).value)


class Echo(Service, name="tideflow.test.SharedEcho"):
    @rpc
    async def One(self, request: BytesValue) -> Bytes: ...

    @rpc_stream
    def Each(self, requests: AsyncIterator[BytesValue]) -> AsyncIterator[BytesValue]: ...


class Echoing(Echo):
    """Echoes.

    Attributes:
      may_answer: whether One answers; it waits otherwise.
      has_request: whether One was called.
    """

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.has_request = asyncio.Event()

    async def One(self, request: BytesValue) -> Bytes:
        self.has_request.set()
        await self.may_answer.wait()
        return Bytes(request.value)

    async def Each(self, requests: AsyncIterator[BytesValue]) -> AsyncIterator[BytesValue]:
        async for request in requests:
            yield request


class Pair:
    """A server and a channel to it through a relay, whose first call has been made."""

    def __init__(self) -> None:
        self.service = Echoing()
        self.server = H2Server([self.service], "127.0.0.1:0")

    async def __aenter__(self) -> Pair:
        self.port = await self.server.start()
        (port,) = free_ports(1)
        self.relay = Relay(port, self.port)
        await self.relay.start()
        self.channel = H2Channel(f"127.0.0.1:{port}")
        self.stub = stub(Echo, self.channel)
        # Both have agreed by the end of the second.
        await self.stub.One(BytesValue(value=b"x"))
        await self.stub.One(BytesValue(value=b"x"))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.channel.close()
        await self.server.stop()
        self.relay.close()

    @property
    def socket_bytes(self) -> int:
        """How much of bodies went over the socket, both ways."""
        (server_link,) = self.server.links
        client_link = self.channel.link
        assert client_link is not None
        return server_link.core.data_bytes_sent + client_link.core.data_bytes_sent


async def test_large_bodies_do_not_cross_the_socket(pool: SegmentPool) -> None:
    async with Pair() as pair:
        before = pair.socket_bytes
        for size in (LEAST_BYTES, MIB, 20 * MIB):
            body = bytes([size & 0xFF ^ 0x5A]) * size
            assert (await pair.stub.One(BytesValue(value=body))).value == body
        assert pair.socket_bytes - before < 2000
        assert pool.held_bytes > 0


async def test_streams_carry_both_kinds_in_order(pool: SegmentPool) -> None:
    sizes = [3, MIB, 5, 2 * MIB, MIB, 0]

    async def requests() -> AsyncIterator[BytesValue]:
        for number, size in enumerate(sizes):
            yield BytesValue(value=bytes([number]) * size)

    async with Pair() as pair:
        before = pair.socket_bytes
        answers = [answer.value async for answer in pair.stub.Each(requests())]
        assert answers == [bytes([number]) * size for number, size in enumerate(sizes)]
        assert pair.socket_bytes - before < 2000


async def test_many_calls_at_once_get_their_own_bodies(pool: SegmentPool) -> None:
    async def one(number: int) -> None:
        body = bytes([number]) * (MIB + 1000 * number)
        answer = await pair.stub.One(BytesValue(value=body))
        assert answer.value == body

    async with Pair() as pair, asyncio.TaskGroup() as calls:
        for number in range(60):
            calls.create_task(one(number))
    assert pool.held_bytes <= 64 * MIB


async def test_beyond_the_limit_the_socket_takes_over(
    pool: SegmentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SegmentPool(4 * MIB)
    monkeypatch.setattr(shared_memory_link, "pool", lambda limit_bytes: small)
    async with Pair() as pair:
        before = pair.socket_bytes
        body = b"large" * (2 * MIB)
        assert (await pair.stub.One(BytesValue(value=body))).value == body
        assert pair.socket_bytes - before > 2 * len(body)
        assert small.held_bytes == 0
        assert (await pair.stub.One(BytesValue(value=body[:MIB]))).value == body[:MIB]
        assert pair.socket_bytes - before < 2 * len(body) + 10_000
    small.close()


async def test_a_server_limits_what_it_takes_by_either_way(pool: SegmentPool) -> None:
    async with Pair() as pair:
        pair.server.max_message_bytes = MIB
        with pytest.raises(errors.ResourceExhaustedError, match="larger than max"):
            await pair.stub.One(BytesValue(value=bytes(2 * MIB)))
        assert (await pair.stub.One(BytesValue(value=b"still here"))).value == b"still here"


async def test_a_stopping_server_waits_until_its_answers_are_taken(pool: SegmentPool) -> None:
    async with Pair() as pair:
        pair.service.may_answer.clear()
        pair.service.has_request.clear()
        call = asyncio.ensure_future(pair.stub.One(BytesValue(value=bytes(MIB))))
        await pair.service.has_request.wait()
        pair.relay.silence()
        (server_link,) = pair.server.links
        sent_bytes = server_link.core.data_bytes_sent
        pair.service.may_answer.set()
        async with asyncio.timeout(10):
            while server_link.core.data_bytes_sent == sent_bytes:
                await asyncio.sleep(0)
        stopping = asyncio.ensure_future(pair.server.stop())
        done, _ = await asyncio.wait([stopping], timeout=0.1)
        assert not done
        pair.relay.speak()
        assert len((await call).value) == MIB
        await stopping


async def test_it_can_be_switched_off(pool: SegmentPool, set_settings: Callable[..., None]) -> None:
    set_settings(shared_memory=False)
    async with Pair() as pair:
        before = pair.socket_bytes
        assert len((await pair.stub.One(BytesValue(value=bytes(MIB)))).value) == MIB
        assert pair.socket_bytes - before > 2 * MIB


def test_calls_without_the_loop_share_memory_as_well(pool: SegmentPool) -> None:
    pair = run_sync(Pair().__aenter__())
    try:
        blocking = pair.channel.blocking
        assert blocking is not None
        method = next(
            binding.spec for path, binding in pair.server.bindings.items() if path.endswith("/One")
        )
        body = b"blocking" * MIB
        for request in (b"x", b"x", body):
            answer = blocking.unary(method, BytesValue(value=request))
            assert isinstance(answer, Bytes)
            assert answer.value == request
        assert pool.held_bytes >= 8 * MIB
        sent = sum(link.core.data_bytes_sent for link in pair.server.links)
        assert sent < 2000
    finally:
        run_sync(pair.__aexit__())


async def test_grpcio_notices_nothing(pool: SegmentPool) -> None:
    grpc = pytest.importorskip("grpc")
    async with Pair() as pair:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{pair.port}", options) as channel:
            call = channel.unary_unary("/tideflow.test.SharedEcho/One")
            request = BytesValue(value=b"plain" * MIB).SerializeToString()
            assert await call(request) == request
    assert pool.held_bytes == 0
