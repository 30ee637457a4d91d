"""Who may call what, by certificates and tokens, over real sockets; and how certificates change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from real_time import eventually
from tideflow.cli.authority import open_authority
from tideflow.cluster.collectives.service import CollectiveService
from tideflow.cluster.coordination.service import CoordinationService
from tideflow.cluster.peers.service import PeerService
from tideflow.cluster.services import EagerService, MasterService, WorkerService
from tideflow.cluster.status import StatusService
from tideflow.data_service.services import DataWorkerService, DispatcherService
from tideflow.platform.settings import Settings
from tideflow.transport import Service, current_caller, stub
from tideflow.transport.credentials import credentials_of, find_files, reload_all
from tideflow.transport.h2 import H2Channel, H2Server
from tideflow.transport.roles import WHO_MAY_CALL
from tideflow.transport.service import bind
from tideflow.wire import errors
from transport.certificate_folder import Folder, now
from transport.contract import Probe, Prober

TOKEN = "0123456789abcdef-of-a-test"
REQUEST = BytesValue(value=b"who am I?")
SERVICES: tuple[type[Service], ...] = (
    MasterService, WorkerService, EagerService, CoordinationService, PeerService,
    CollectiveService, StatusService, DispatcherService, DataWorkerService,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("certificates"))


class Witness(Prober):
    """Remembers who called."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: list[str] = []

    async def Echo(self, request: BytesValue) -> BytesValue:
        caller = current_caller()
        assert caller is not None
        self.callers.append(str(caller.identity))
        return request


def by_tcp(**values: Any) -> Settings:
    """Settings with which peers of this host come by TCP, as those of others do."""
    return Settings(shared_memory=False, **values)


@contextlib.asynccontextmanager
async def served(services: list[Any], settings: Settings) -> AsyncIterator[H2Server]:
    server = H2Server(services, "127.0.0.1:0", settings=settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def channel_to(
    server: H2Server, settings: Settings, peer_name: str | None = None
) -> AsyncIterator[H2Channel]:
    made = H2Channel(f"127.0.0.1:{server.port}", peer_name=peer_name, settings=settings)
    try:
        yield made
    finally:
        await made.close()


async def refused_paths(server: H2Server, settings: Settings) -> set[str]:
    """Return the methods that are not the caller's; nobody has an answer to the others."""
    found = set()
    async with channel_to(server, settings) as channel:
        for path, binding in server.bindings.items():
            spec = binding.spec
            try:
                if spec.streaming:
                    async for _ in channel.stream(spec, _nothing(), timeout_s=20):
                        pass
                else:
                    await channel.unary(spec, spec.request_type(), timeout_s=20)
            except errors.PermissionDeniedError:
                found.add(path)
            except errors.UnimplementedError:
                pass
    return found


async def _nothing() -> AsyncIterator[Any]:
    nothing: tuple[Any, ...] = ()
    for one in nothing:
        yield one


# ---- roles


def test_every_service_is_in_the_table() -> None:
    assert {f"/{one.service_name}" for one in SERVICES} <= WHO_MAY_CALL.keys()
    methods = bind([one() for one in SERVICES])
    assert {path for path in WHO_MAY_CALL if path.count("/") == 2} <= methods.keys()


def services_of(paths: set[str]) -> set[str]:
    return {path.split("/")[1] for path in paths}


async def test_each_identity_may_call_what_is_its_own(folder: Folder) -> None:
    services = [one() for one in SERVICES]
    async with served(services, by_tcp(tls=folder.of("worker-0"))) as server:
        refused = {
            name: await refused_paths(server, by_tcp(tls=folder.of(name)))
            for name in ("ps-0", "client", "reader")
        }
    every = set(bind(services))
    assert refused["ps-0"] == set()
    assert {f"/{one.service_name}" for one in (CoordinationService, CollectiveService)} == {
        f"/{name}"
        for name in services_of(refused["client"])
        if not {p for p in every if name in p} - refused["client"]
    }
    assert "/tensorflow.WorkerService/RunGraph" in refused["client"]
    assert "/tensorflow.MasterService/RunStep" not in refused["client"]
    assert every - refused["reader"] == {
        "/tensorflow.MasterService/ListDevices",
        "/tensorflow.WorkerService/GetStatus",
        "/tideflow.Status/GetServerStatus",
    }


async def test_a_refusal_names_who_which_and_why(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    async with served([MasterService()], by_tcp(tls=folder.of("worker-0"))) as server:
        async with channel_to(server, by_tcp(tls=folder.of("reader"))) as channel:
            spec = server.bindings["/tensorflow.MasterService/RunStep"].spec
            words = r"a reader with a certificate \(reader\) may not call .*RunStep.*tasks and cl"
            with pytest.raises(errors.PermissionDeniedError, match=words):
                await channel.unary(spec, spec.request_type())
    assert "a reader with a certificate (reader) may not call" in caplog.text


# ---- certificates


async def test_a_server_knows_the_task_that_calls(folder: Folder) -> None:
    witness = Witness()
    async with served([witness], by_tcp(tls=folder.of("worker-0"))) as server:
        async with channel_to(server, by_tcp(tls=folder.of("ps-0"))) as channel:
            assert await stub(Probe, channel).Echo(REQUEST) == REQUEST
    assert witness.callers == ["the task ps:0"]


@pytest.mark.parametrize("uri", ["spiffe://example.org/tideflow/ps/3", "tideflow://ps/3"])
async def test_other_authorities_name_tasks_as_well(
    uri: str, folder: Folder, tmp_path: Path
) -> None:
    folder.issue("another", uri)
    for old, new in (("cert.pem", "tls.crt"), ("key.pem", "tls.key"), ("ca.pem", "ca.crt")):
        shutil.copy(folder.path / "another" / old, tmp_path / new)
    (tmp_path / "tls.key").chmod(0o600)
    witness = Witness()
    async with served([witness], by_tcp(tls=folder.of("worker-0"))) as server:
        async with channel_to(server, by_tcp(tls=str(tmp_path))) as channel:
            await stub(Probe, channel).Echo(REQUEST)
    assert witness.callers == ["the task ps:3"]


Make = Callable[[Folder, Path], str]


def none(folder: Folder, path: Path) -> str:
    return f"::{folder.path / 'ca.pem'}"


def of_another_authority(folder: Folder, path: Path) -> str:
    other = Folder(path)
    # It trusts the server, which does not trust it.
    trusted = folder.path / "ca.pem"
    return f"{other.path}/client/cert.pem:{other.path}/client/key.pem:{trusted}"


def run_out(folder: Folder, path: Path) -> str:
    return folder.issue("old", "tideflow://client", days=1, since=now() - timedelta(days=3))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (none, "wants a certificate, and none was shown: give --tls DIR"),
        (of_another_authority, "does it trust the authority that signed our certificate"),
        (run_out, "our certificate .* has run out"),
    ],
)
async def test_a_client_without_a_good_certificate_is_told_what_it_lacks(
    make: Make, words: str, folder: Folder, tmp_path: Path
) -> None:
    async with served([Witness()], by_tcp(tls=folder.of("worker-0"))) as server:
        async with channel_to(server, by_tcp(tls=make(folder, tmp_path))) as channel:
            with pytest.raises(errors.OpError, match=words):
                await stub(Probe, channel).Echo(REQUEST)


async def test_without_tls_nothing_is_said_to_a_server_with_it(folder: Folder) -> None:
    async with served([Witness()], by_tcp(tls=folder.of("worker-0"))) as server:
        async with channel_to(server, by_tcp()) as channel:
            with pytest.raises(errors.UnavailableError, match="TLS"):
                await stub(Probe, channel).Echo(REQUEST)


async def test_a_task_that_shows_anothers_certificate_is_not_called(folder: Folder) -> None:
    witness = Witness()
    async with served([witness], by_tcp(tls=folder.of("worker-0"))) as server:
        settings = by_tcp(tls=folder.of("ps-0"))
        name = "/job:worker/replica:0/task:1"
        async with channel_to(server, settings, name) as channel:
            words = "worker:1 presented a certificate for worker:0"
            with pytest.raises(errors.PermissionDeniedError, match=words):
                await stub(Probe, channel).Echo(REQUEST)
        async with channel_to(server, settings, "/job:worker/replica:0/task:0") as channel:
            await stub(Probe, channel).Echo(REQUEST)
    assert len(witness.callers) == 1


async def test_a_client_does_not_pass_for_a_task(folder: Folder) -> None:
    async with served([Witness()], by_tcp(tls=folder.of("client"))) as server:
        settings = by_tcp(tls=folder.of("ps-0"))
        async with channel_to(server, settings, "/job:worker/task:1") as channel:
            with pytest.raises(errors.PermissionDeniedError, match="which names no task"):
                await stub(Probe, channel).Echo(REQUEST)


async def test_on_one_host_and_user_tls_costs_nothing(folder: Folder) -> None:
    witness = Witness()
    async with served([witness], Settings(tls=folder.of("worker-0"))) as server:
        async with channel_to(server, Settings(tls=folder.of("client"))) as channel:
            assert await stub(Probe, channel).Echo(REQUEST) == REQUEST
            assert {link.socket_family for link in server.links} == {socket.AF_UNIX}
            assert channel.blocking is not None
            assert await asyncio.to_thread(lambda: channel.blocking and channel.blocking.has_room)
            spec = server.bindings["/tideflow.test.Probe/Echo"].spec
            assert await asyncio.to_thread(channel.blocking.unary, spec, REQUEST) == REQUEST
    assert len(witness.callers) == 2
    assert all("user" in caller for caller in witness.callers)


async def test_calls_without_the_loop_leave_tls_to_it(folder: Folder) -> None:
    async with served([Witness()], by_tcp(tls=folder.of("worker-0"))) as server:
        async with channel_to(server, Settings(tls=folder.of("client"))) as channel:
            assert channel.blocking is not None
            assert not await asyncio.to_thread(
                lambda: channel.blocking and channel.blocking.has_room
            )


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="no certificate for worker-7"):
        find_files(str(tmp_path), "worker-7")
    with pytest.raises(errors.InvalidArgumentError, match="tideflow certs"):
        credentials_of(str(tmp_path))


def test_a_key_that_others_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Folder(tmp_path)
    (tmp_path / "client" / "key.pem").chmod(0o644)
    credentials_of(made.of("client"))
    assert "chmod 600" in caplog.text


# ---- certificates that change


async def test_certificates_change_under_load_and_no_call_fails(tmp_path: Path) -> None:
    made = Folder(tmp_path)
    witness = Witness()
    stop = asyncio.Event()

    async def load(server: H2Server) -> int:
        """Call on connections that come and go; return how many calls were answered."""
        count = 0
        while not stop.is_set():
            async with channel_to(server, by_tcp(tls=made.of("ps-0"))) as channel:
                for _ in range(5):
                    assert await stub(Probe, channel).Echo(REQUEST) == REQUEST
                    count += 1
        return count

    async with served([witness], by_tcp(tls=made.of("worker-0"))) as server:
        loads = [asyncio.create_task(load(server)) for _ in range(3)]
        for _ in range(3):
            # A new authority: for a while both are trusted.
            made.authority = open_authority(tmp_path, now(), renew=True)
            for name in ("worker-0", "ps-0"):
                bundle = made.authority.trusted_pem
                (tmp_path / name / "ca.pem").write_bytes(bundle)
            reload_all()
            await asyncio.sleep(0)
            for name in ("worker-0", "ps-0"):
                made.issue(name, f"tideflow://{name.replace('-', '/')}")
                reload_all()
            before = len(witness.callers)
            while len(witness.callers) < before + 30 and not any(one.done() for one in loads):
                await asyncio.sleep(0)
        stop.set()
        counts = await asyncio.gather(*loads)
    assert sum(counts) == len(witness.callers) >= 90


async def test_files_in_the_middle_of_a_change_leave_what_there_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Folder(tmp_path)
    async with served([Witness()], by_tcp(tls=made.of("worker-0"))) as server:
        (tmp_path / "worker-0" / "cert.pem").write_text("half of it")
        reload_all()
        assert "go on with the old certificate" in caplog.text
        async with channel_to(server, by_tcp(tls=made.of("ps-0"))) as channel:
            await stub(Probe, channel).Echo(REQUEST)


async def test_a_connection_ends_with_its_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    made = Folder(tmp_path)
    since = now() - timedelta(days=1)
    short_s = 1.5
    lasts = made.issue("short", "tideflow://ps/0", since=since, days=1 + short_s / 86400)
    witness = Witness()
    async with served([witness], by_tcp(tls=made.of("worker-0"))) as server:
        async with channel_to(server, by_tcp(tls=lasts)) as channel:
            await stub(Probe, channel).Echo(REQUEST)
            link = channel.link
            assert link is not None
            await asyncio.to_thread(eventually, lambda: link.core.is_going_away, "GOAWAY")
            # The same channel goes on with the next certificate.
            made.issue("short", "tideflow://ps/0")
            reload_all()
            await stub(Probe, channel).Echo(REQUEST)
            assert channel.link is not link
    assert len(witness.callers) == 2
    assert "has run out" in caplog.text


# ---- tokens


@pytest.mark.parametrize("client_token", [TOKEN, "", "another secret, as long as it is"])
async def test_a_token_stands_for_a_certificate_over_tls(
    client_token: str, folder: Folder, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    witness = Witness()
    settings = by_tcp(tls=folder.of("worker-0"), token_file=str(file))
    async with served([witness], settings) as server:
        mine = by_tcp(tls=none(folder, tmp_path), token=client_token)
        async with channel_to(server, mine) as channel:
            if client_token == TOKEN:
                await stub(Probe, channel).Echo(REQUEST)
            else:
                with pytest.raises(errors.PermissionDeniedError, match="no token that holds"):
                    await stub(Probe, channel).Echo(REQUEST)
    assert witness.callers == ["a holder of the cluster's token"] * (client_token == TOKEN)


async def test_a_token_opens_one_call_not_the_connection(folder: Folder) -> None:
    settings = by_tcp(tls=folder.of("worker-0"), token=TOKEN)
    witness = Witness()
    async with served([witness], settings) as server:
        async with channel_to(server, by_tcp(tls=none(folder, folder.path))) as channel:
            spec = server.bindings["/tideflow.test.Probe/Echo"].spec
            proof = (("authorization", f"Bearer {TOKEN}"),)
            assert await channel.unary(spec, REQUEST, metadata=proof) == REQUEST
            with pytest.raises(errors.PermissionDeniedError):
                await channel.unary(spec, REQUEST)
    assert len(witness.callers) == 1


def test_a_token_is_never_sent_where_others_can_read_it() -> None:
    with pytest.raises(errors.PermissionDeniedError, match="without TLS"):
        H2Channel("192.0.2.1:1", settings=Settings(token=TOKEN))


def test_a_short_token_is_no_secret() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="16 printable characters"):
        H2Channel("127.0.0.1:1", settings=Settings(token="secret"))


def test_a_token_is_not_shown() -> None:
    settings = Settings(token=TOKEN)
    assert TOKEN not in repr(settings)
    assert TOKEN not in repr(settings.described())


# ---- grpcio at the other end


async def test_grpcio_calls_with_a_certificate(folder: Folder) -> None:
    witness = Witness()
    async with served([witness], by_tcp(tls=folder.of("worker-0"))) as server:
        place = folder.path / "ps-0"
        credentials = grpc.ssl_channel_credentials(
            (place / "ca.pem").read_bytes(),
            (place / "key.pem").read_bytes(),
            (place / "cert.pem").read_bytes(),
        )

        def call() -> bytes:
            with grpc.secure_channel(f"localhost:{server.port}", credentials) as channel:
                method = channel.unary_unary("/tideflow.test.Probe/Echo")
                answer: bytes = method(REQUEST.SerializeToString(), timeout=30)
                return answer

        assert await asyncio.to_thread(call) == REQUEST.SerializeToString()
    assert witness.callers == ["the task ps:0"]


async def test_we_call_a_server_of_grpcio_with_a_certificate(folder: Folder) -> None:
    place = folder.path / "worker-0"
    pems = [(place / name).read_bytes() for name in ("key.pem", "cert.pem", "ca.pem")]
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(_echo)
    methods = {"Echo": handler}
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("tideflow.test.Probe", methods),)
    )
    credentials = grpc.ssl_server_credentials([(pems[0], pems[1])], pems[2], True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    for name, is_right in (("/job:worker/task:0", True), ("/job:worker/task:1", False)):
        channel = H2Channel(
            f"127.0.0.1:{port}", peer_name=name, settings=by_tcp(tls=folder.of("client"))
        )
        if is_right:
            assert await stub(Probe, channel).Echo(REQUEST) == REQUEST
        else:
            with pytest.raises(errors.PermissionDeniedError, match="for worker:0"):
                await stub(Probe, channel).Echo(REQUEST)
        await channel.close()
    await server.stop(None)


async def _echo(data: bytes, context: Any) -> bytes:
    return data
