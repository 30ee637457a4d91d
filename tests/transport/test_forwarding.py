"""A proxy leads clients without TLS to a server with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from tideflow.platform.settings import Settings
from tideflow.transport import Proxy, stub
from tideflow.transport.h2 import H2Channel, H2Server
from tideflow.wire import errors
from transport.certificate_folder import Folder
from transport.contract import Probe
from transport.test_admission import as_root, stranger
from transport.test_identities import REQUEST, Witness, by_tcp


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("certificates"))


@contextlib.asynccontextmanager
async def led(
    folder: Folder, name: str = "ps-0", address: str = "127.0.0.1:0"
) -> AsyncIterator[tuple[H2Channel, Witness, Proxy]]:
    """Give a channel without TLS to a server with it."""
    witness = Witness()
    server = H2Server([witness], "127.0.0.1:0", settings=by_tcp(tls=folder.of("worker-0")))
    await server.start()
    proxy = Proxy(address, f"127.0.0.1:{server.port}", by_tcp(tls=folder.of(name)))
    await proxy.start()
    channel = H2Channel(proxy.address, settings=by_tcp())
    try:
        yield channel, witness, proxy
    finally:
        await channel.close()
        await proxy.stop()
        await server.stop()


@pytest.mark.parametrize("kind", ["port", "socket"])
async def test_calls_of_all_sizes_pass(kind: str, folder: Folder, tmp_path: Path) -> None:
    address = "127.0.0.1:0" if kind == "port" else f"unix:{tmp_path}/way"
    async with led(folder, address=address) as (channel, witness, _):
        if kind == "socket":
            assert stat.S_IMODE((tmp_path / "way").stat().st_mode) == 0o600
        requests = [BytesValue(value=os.urandom(size)) for size in (0, 10, 300_000, 9_000_000)]
        echo = stub(Probe, channel).Echo
        assert await asyncio.gather(*(echo(one, timeout_s=60) for one in requests)) == requests
    assert set(witness.callers) == {"the task ps:0"}


async def test_a_server_that_does_not_take_the_certificate_is_told_of(
    folder: Folder, tmp_path: Path
) -> None:
    other = Folder(tmp_path)
    (tmp_path / "ps-0" / "ca.pem").write_bytes((folder.path / "ca.pem").read_bytes())
    async with led(folder) as (_, witness, proxy):
        wrong = Proxy("127.0.0.1:0", proxy.target, by_tcp(tls=other.of("ps-0")))
        await wrong.start()
        channel = H2Channel(wrong.address, settings=by_tcp())
        with pytest.raises(errors.OpError):
            await stub(Probe, channel).Echo(REQUEST)
        await channel.close()
        await wrong.stop()
    assert witness.callers == []


async def test_an_absent_server_is_named(folder: Folder) -> None:
    proxy = Proxy("127.0.0.1:0", "127.0.0.1:1", by_tcp(tls=folder.of("ps-0")))
    await proxy.start()
    channel = H2Channel(proxy.address, settings=by_tcp())
    with pytest.raises(errors.OpError, match=r"cannot reach 127\.0\.0\.1:1"):
        await stub(Probe, channel).Echo(REQUEST)
    await channel.close()
    await proxy.stop()


@as_root
async def test_another_user_is_not_led(folder: Folder) -> None:
    async with led(folder) as (_, witness, proxy):
        said = await stranger("tcp", proxy.address.replace(":", " "))
    assert b"refused the user" in said
    assert witness.callers == []


async def test_it_listens_on_this_host_alone(folder: Folder) -> None:
    proxy = Proxy("0.0.0.0:0", "127.0.0.1:1", by_tcp(tls=folder.of("ps-0")))
    with pytest.raises(errors.FailedPreconditionError):
        await proxy.start()


def test_without_certificates_there_is_no_proxy() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="--tls DIR"):
        Proxy("127.0.0.1:0", "127.0.0.1:1", Settings())
