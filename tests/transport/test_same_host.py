"""The Unix socket beside a TCP port: who comes in by it, and who does not."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator

import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from tideflow.platform.settings import Settings
from tideflow.runtime.loop import run_sync
from tideflow.transport import stub
from tideflow.transport.h2 import H2Channel, H2Server, same_host
from tideflow.transport.h2.shared_memory_limit import is_possible
from tideflow.transport.peer_user import user_of_unix_peer
from tideflow.transport.service import bind
from tideflow.wire import errors
from transport.certificates import certificates
from transport.contract import Probe, Prober

pytestmark = pytest.mark.skipif(not is_possible(), reason="abstract sockets are of Linux")

REQUEST = BytesValue(value=b"by which way?")


@contextlib.asynccontextmanager
async def served(address: str = "127.0.0.1:0", **options: object) -> AsyncIterator[H2Server]:
    server = H2Server([Prober()], address, **options)  # type: ignore[arg-type]
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def families(server: H2Server) -> set[socket.AddressFamily | None]:
    """Return by which kinds of sockets peers have come in."""
    return {link.socket_family for link in server.links}


async def way_to(
    server: H2Server, host: str = "127.0.0.1", **options: object
) -> set[socket.AddressFamily | None]:
    """Return by which kind of socket a channel comes in that was given the TCP address."""
    channel = H2Channel(f"{host}:{server.port}", **options)  # type: ignore[arg-type]
    try:
        assert await stub(Probe, channel).Echo(REQUEST) == REQUEST
        return families(server)
    finally:
        await channel.close()


def own_address() -> str:
    """Return an address of this host that other hosts may know it by; skip where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this host has no network")
        return str(asked.getsockname()[0])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_peer_of_this_host_comes_by_the_unix_socket(host: str) -> None:
    async with served() as server:
        assert await way_to(server, host) == {socket.AF_UNIX}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "own"])
async def test_so_it_does_where_the_server_listens_at_all_addresses(host: str) -> None:
    host = own_address() if host == "own" else host
    async with served(listen_all=True, settings=Settings(insecure=True)) as server:
        assert await way_to(server, host) == {socket.AF_UNIX}


def test_so_does_a_call_without_the_loop() -> None:
    async def start() -> tuple[H2Server, H2Channel]:
        server = H2Server([Prober()], "127.0.0.1:0")
        return server, H2Channel(f"localhost:{await server.start()}")

    server, channel = run_sync(start())
    assert channel.blocking is not None
    spec = bind([Prober()])["/tideflow.test.Probe/Echo"].spec
    assert channel.blocking.unary(spec, REQUEST) == REQUEST
    assert families(server) == {socket.AF_UNIX}
    run_sync(channel.close())
    run_sync(server.stop())


async def test_with_tls_everybody_comes_by_tcp() -> None:
    made = certificates()
    async with served(tls=made.server_context()) as server:
        assert await way_to(server, tls=made.client_context()) == {socket.AF_INET}


async def test_it_is_switched_off_with_shared_memory() -> None:
    without = Settings(shared_memory=False)
    async with served() as server:
        assert await way_to(server, settings=without) == {socket.AF_INET}
        assert await way_to(server) == {socket.AF_UNIX}
    async with served(settings=without) as server:
        assert await way_to(server) == {socket.AF_INET}


async def test_a_socket_of_another_user_is_not_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_host, "user_of_unix_peer", lambda connection: 12345)
    async with served() as server:
        assert await way_to(server) == {socket.AF_INET}


def test_the_kernel_tells_whose_a_socket_is() -> None:
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as connection:
        listening.bind(b"\0tideflow.test " + str(id(listening)).encode())
        listening.listen()
        connection.connect(listening.getsockname())
        assert user_of_unix_peer(connection) == os.geteuid()


async def test_a_peer_that_hangs_up_at_once_leaves_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A socket that were left would close, when it is collected, whatever has its number by then.
    connected = []

    async def connect_to_nobody(host: str, port: int) -> socket.socket:
        near, far = socket.socketpair()
        far.close()
        connected.append(near)
        return near

    monkeypatch.setattr(same_host, "connect", connect_to_nobody)
    channel = H2Channel("127.0.0.1:9")
    with pytest.raises(errors.UnavailableError):
        await stub(Probe, channel).Echo(REQUEST)
    await channel.close()
    assert [near.fileno() for near in connected] == [-1] * len(connected) != []


async def test_where_the_name_is_taken_peers_come_by_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held, socket.socket(socket.AF_UNIX) as taken:
        port = held.getsockname()[1]
        taken.bind(same_host.socket_name("127.0.0.1", port))
        held.close()
        async with served(f"127.0.0.1:{port}") as server:
            # Nobody listens at it.
            assert await way_to(server) == {socket.AF_INET}


async def test_servers_at_one_port_of_two_addresses_are_told_apart() -> None:
    async with served("127.0.0.2:0") as first, served(f"127.0.0.3:{first.port}") as second:
        assert await way_to(second, "127.0.0.3") == {socket.AF_UNIX}
        assert families(first) == set()


async def test_the_socket_ends_with_its_server_and_comes_with_the_next() -> None:
    async with served() as server:
        port = server.port
        channel = H2Channel(f"127.0.0.1:{port}")
        assert await stub(Probe, channel).Echo(REQUEST) == REQUEST
    assert await same_host.connect("127.0.0.1", port) is None
    with pytest.raises(errors.UnavailableError):
        await stub(Probe, channel).Echo(REQUEST)
    async with served(f"127.0.0.1:{port}") as server:
        assert await way_to(server) == {socket.AF_UNIX}
    await channel.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
async def test_a_port_of_all_addresses_here_is_not_taken_for_one_elsewhere(host: str) -> None:
    async with served(listen_all=True, settings=Settings(insecure=True)) as server:
        assert await same_host.connect(host, server.port) is None
        assert families(server) == set()


async def test_a_host_without_a_name_is_an_error_as_ever() -> None:
    channel = H2Channel("no-such-host.invalid:1")
    with pytest.raises(errors.UnavailableError, match=r"no-such-host\.invalid"):
        await stub(Probe, channel).Echo(REQUEST)
    await channel.close()
