"""Who may speak to a server of this host: its own user and root, before a byte is read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from tideflow.platform.settings import Settings
from tideflow.transport import current_caller, peer_user, stub
from tideflow.transport.h2 import H2Channel, H2Server, same_host
from tideflow.transport.identity import Kind
from tideflow.transport.limited_log import LimitedLog
from tideflow.transport.network import SocketTable
from tideflow.transport.peer_user import ends_of, user_in_table, user_of_tcp_peer
from tideflow.wire import errors
from transport.certificate_folder import Folder
from transport.contract import Probe, Prober
from transport.raw_peer import HELLO, whole_call

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other kernels tell nothing")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")

OTHER_USER = 41234
REQUEST = BytesValue(value=b"who am I?")

# A peer that needs nothing of ours, so that any user can run it.
STRANGER = f"""
import os, socket, sys
os.setgroups([])
os.setgid({OTHER_USER})
os.setuid({OTHER_USER})
"""
STRANGER += """
kind, where, words = sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3])
if kind == "unix":
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(bytes.fromhex(where))
else:
    host, port = where.rsplit(" ", 1)
    family = socket.AF_INET6 if kind == "mapped" or ":" in host else socket.AF_INET
    peer = socket.socket(family)
    peer.connect(("::ffff:" + host if kind == "mapped" else host, int(port)))
peer.settimeout(20)
found = b""
try:
    peer.sendall(words)
except BrokenPipeError:
    pass
try:
    while (data := peer.recv(65536)):
        found += data
        if b"echoed" in found:
            break
except ConnectionResetError:
    pass
print(found.hex())
"""


class Witness(Prober):
    """Remembers who called."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: list[Kind] = []

    async def Echo(self, request: BytesValue) -> BytesValue:
        caller = current_caller()
        assert caller is not None
        assert caller.identity is not None
        self.callers.append(caller.identity.kind)
        return request


@contextlib.asynccontextmanager
async def served(
    address: str = "127.0.0.1:0", **settings: object
) -> AsyncIterator[tuple[H2Server, Witness]]:
    witness = Witness()
    server = H2Server([witness], address, settings=Settings(**settings))  # type: ignore[arg-type]
    await server.start()
    try:
        yield server, witness
    finally:
        await server.stop()


async def stranger(kind: str, where: str) -> bytes:
    """Make a call as another user of this host; return all that the server says."""
    words = HELLO + whole_call(1, REQUEST.SerializeToString().replace(b"who am I?", b"echoed!!!"))
    command = [sys.executable, "-I", "-S", "-c", STRANGER]

    def run() -> bytes:
        done = subprocess.run(
            [*command, kind, where, words.hex()],
            check=True,
            capture_output=True,
            text=True,
        )
        return bytes.fromhex(done.stdout)

    return await asyncio.to_thread(run)


def ways_in(server: H2Server) -> dict[str, tuple[str, str]]:
    port = server.port
    return {
        "tcp": ("tcp", f"127.0.0.1 {port}"),
        "mapped": ("mapped", f"127.0.0.1 {port}"),
        "beside": ("unix", same_host.socket_name("127.0.0.1", port).hex()),
    }


@as_root
@pytest.mark.parametrize("way", ["tcp", "mapped", "beside"])
@pytest.mark.parametrize("kernel_answers", [True, False])
async def test_another_user_is_sent_away_unread(
    way: str,
    kernel_answers: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(peer_user, "kernel_answers", lambda: kernel_answers)
    async with served() as (server, witness):
        said = await stranger(*ways_in(server)[way])
    assert f"refused the user {OTHER_USER} of this host".encode() in said
    assert b"echoed" not in said
    assert witness.callers == []
    (line,) = [one.getMessage() for one in caplog.records if "refused" in one.getMessage()]
    assert f"the user {OTHER_USER}" in line
    assert "--allow-local-users" in line


@as_root
@pytest.mark.parametrize("way", ["tcp", "beside"])
async def test_a_server_may_be_open_to_the_users_of_its_host(way: str) -> None:
    async with served(local_users=True) as (server, witness):
        assert b"echoed" in await stranger(*ways_in(server)[way])
    assert witness.callers == [Kind.UNPROVEN]


@as_root
async def test_a_socket_file_is_no_way_around() -> None:
    name = f"/tmp/tideflow-test-{os.getpid()}"
    async with served(f"unix:{name}") as (_, witness):
        os.chmod(name, 0o777)
        said = await stranger("unix", name.encode().hex())
    assert f"the user {OTHER_USER}".encode() in said
    assert witness.callers == []


@pytest.mark.parametrize("kernel_answers", [True, False])
@pytest.mark.parametrize("shared_memory", [True, False])
async def test_the_servers_own_user_is_let_in(
    kernel_answers: bool, shared_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_user, "kernel_answers", lambda: kernel_answers)
    async with served(shared_memory=shared_memory) as (server, witness):
        channel = H2Channel(
            f"127.0.0.1:{server.port}", settings=Settings(shared_memory=shared_memory)
        )
        large = BytesValue(value=bytes(3 << 20))
        for request in (REQUEST, large):
            assert await stub(Probe, channel).Echo(request) == request
        await channel.close()
    assert witness.callers == [Kind.LOCAL_USER] * 2


async def test_a_client_is_told_that_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as (server, _):
        other = os.geteuid() + 1
        for name in ("user_of_tcp_peer", "user_of_unix_peer"):
            monkeypatch.setattr(f"tideflow.transport.admission.{name}", lambda *_: other)
        channel = H2Channel(f"127.0.0.1:{server.port}")
        with pytest.raises(errors.PermissionDeniedError, match="--allow-local-users"):
            await stub(Probe, channel).Echo(REQUEST)
        assert channel.blocking is not None
        spec = next(one.spec for path, one in server.bindings.items() if path.endswith("/Echo"))
        with pytest.raises(errors.PermissionDeniedError, match=f"the user {other}"):
            await asyncio.to_thread(channel.blocking.unary, spec, REQUEST)
        await channel.close()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
async def test_beyond_loopback_a_server_without_tls_does_not_start(address: str) -> None:
    server = H2Server([Prober()], address, settings=Settings())
    with pytest.raises(errors.FailedPreconditionError, match=r"--tls DIR.*--insecure"):
        await server.start()


async def test_insecure_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async with served("0.0.0.0:0", insecure=True) as (server, witness):
        channel = H2Channel(f"127.0.0.1:{server.port}")
        assert await stub(Probe, channel).Echo(REQUEST) == REQUEST
        await channel.close()
    assert witness.callers == [Kind.UNPROVEN]
    assert "anybody there can run code" in caplog.text


# ---- what the kernel says


@contextlib.contextmanager
def connected(listening: str, caller: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    families = [socket.AF_INET6 if ":" in one else socket.AF_INET for one in (listening, caller)]
    with socket.socket(families[0]) as door, socket.socket(families[1]) as near:
        if families[0] == socket.AF_INET6:
            door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        door.bind((listening, 0))
        door.listen()
        near.connect((caller, door.getsockname()[1]))
        far, _ = door.accept()
        with far:
            yield near, far


@pytest.fixture
def table() -> Iterator[SocketTable]:
    made = SocketTable()
    yield made
    made.close()


FAMILIES = [
    ("127.0.0.1", "127.0.0.1"),
    ("::1", "::1"),
    ("127.0.0.1", "::ffff:127.0.0.1"),
    ("::", "127.0.0.1"),
]


@pytest.mark.parametrize(("listening", "caller"), FAMILIES)
def test_the_kernel_knows_the_holder_of_a_connection(
    table: SocketTable, listening: str, caller: str
) -> None:
    with connected(listening, caller) as (near, far):
        names = far.getsockname(), far.getpeername()
        ends = ends_of(*names)
        assert peer_user.user_in_tables(ends) == os.geteuid()
        if peer_user.kernel_answers():
            assert user_of_tcp_peer(*names, table) == os.geteuid()
        # The kernel names user 0 as the owner of what nobody holds.
        near.close()
        assert peer_user.user_in_tables(ends) is None
        assert user_of_tcp_peer(*names, table) is None


def test_a_table_without_the_connection_names_nobody(table: SocketTable) -> None:
    names = ("127.0.0.1", 1), ("127.0.0.1", 2)
    assert user_in_table("sl local_address rem_address\n", ends_of(*names)) is None
    assert user_of_tcp_peer(*names, table) is None


def test_a_flood_of_refusals_leaves_the_log_readable(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    log = LimitedLog(logging.getLogger("test"), lambda: now_s[0])
    for number in range(1000):
        log.warning("refused %d", number)
    assert len(caplog.records) == 20
    now_s[0] = 5.0
    log.warning("refused %d", 1000)
    assert caplog.records[-1].getMessage() == "refused 1000 (and 980 more that the log leaves out)"


# ---- networks without TLS


async def test_a_network_without_tls_is_let_in_beside_one_with_it(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    witness = Witness()
    networks = "127.0.0.8/29"
    settings = Settings(shared_memory=False, tls=folder.of("worker-0"), insecure_peers=networks)
    server = H2Server([witness], "127.0.0.1:0", settings=settings)
    await server.start()
    channel = H2Channel(
        f"127.0.0.1:{server.port}", settings=Settings(shared_memory=False, tls=folder.of("ps-0"))
    )
    for request in (REQUEST, BytesValue(value=bytes(3 << 20))):
        assert await stub(Probe, channel).Echo(request) == request
    await channel.close()
    answer = await asyncio.to_thread(call_from, "127.0.0.9", server.port)
    assert b"echoed!!!" in answer
    assert b"echoed!!!" not in await asyncio.to_thread(call_from, "127.0.0.1", server.port)
    await server.stop()
    assert witness.callers == [Kind.TASK, Kind.TASK, Kind.LOCAL_USER]


def call_from(address: str, port: int) -> bytes:
    """Make a call without TLS from an address of this host; return what the server says."""
    words = HELLO + whole_call(1, BytesValue(value=b"echoed!!!").SerializeToString())
    said = b""
    with socket.create_connection(("127.0.0.1", port), 20, (address, 0)) as peer:
        with contextlib.suppress(ConnectionError):
            peer.sendall(words)
            while b"echoed!!!" not in said and (data := peer.recv(65536)):
                said += data
    return said


async def test_a_channel_does_without_tls_where_a_network_does(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    async with served(shared_memory=False) as (server, _):
        settings = Settings(
            shared_memory=False, tls=folder.of("ps-0"), insecure_peers="127.0.0.0/8"
        )
        channel = H2Channel(f"localhost:{server.port}", settings=settings)
        assert await stub(Probe, channel).Echo(REQUEST) == REQUEST
        await channel.close()


@pytest.mark.parametrize("networks", ["10.0.0.1/8", "here", "10.0.0.0/8,"])
def test_a_network_that_is_none_is_refused(networks: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"10\.0\.0\.0/24"):
        Settings(insecure_peers=networks)


def test_a_token_is_not_for_networks_without_tls() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="do not go together"):
        H2Server([], "127.0.0.1:0", settings=Settings(token="x" * 20, insecure_peers="10.0.0.0/8"))
