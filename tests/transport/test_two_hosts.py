"""Calls between two hosts, in network namespaces where this machine lets us make them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loop_monitor import watching_path
from transport.certificate_folder import LOOPBACK, Folder
from transport.two_hosts_peer import SIZES
from two_hosts import Host, NotPossible, two_hosts

pytestmark = pytest.mark.processes

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Host, Host]]:
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(two_hosts())
        except NotPossible as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield made


@contextlib.contextmanager
def running(host: Host, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run two_hosts_peer.py on a host, open to others unless the environment says more."""
    script = str(_ROOT / "tests" / "transport" / "two_hosts_peer.py")
    with subprocess.Popen(
        [*host.prefix, sys.executable, script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": watching_path(),
            "TIDEFLOW_SILENCE_S": "1",
            "TIDEFLOW_INSECURE": "on",
            **environment,
        },
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask(process: subprocess.Popen[str]) -> object:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return json.loads(line_of(process))


@pytest.fixture
def address(hosts: tuple[Host, Host]) -> Iterator[str]:
    """Where a server listens on the second host."""
    with running(hosts[1], "serve", hosts[1].address) as server:
        yield f"{hosts[1].address}:{line_of(server)}"


@pytest.mark.keeps_loop("how large a message of protobuf is shows when it is written")
def test_between_hosts_all_goes_by_tcp(hosts: tuple[Host, Host], address: str) -> None:
    with running(hosts[0], "call", address) as client:
        seen = json.loads(line_of(client))
    assert seen["lent"] == 0
    assert seen["sent"] > sum(SIZES)


@pytest.mark.keeps_loop("how large a message of protobuf is shows when it is written")
def test_on_the_server_s_own_host_it_does_not(hosts: tuple[Host, Host], address: str) -> None:
    with running(hosts[1], "call", address) as client:
        seen = json.loads(line_of(client))
    assert seen["lent"] > 0
    assert seen["sent"] < sum(SIZES)


def test_calls_end_when_the_cable_is_out_and_work_when_it_is_in_again(
    hosts: tuple[Host, Host], address: str
) -> None:
    with running(hosts[0], "wait", address) as client:
        assert line_of(client) == "waiting"
        hosts[1].plug("down")
        try:
            assert json.loads(line_of(client)) == ["UnavailableError", "UnavailableError"]
        finally:
            hosts[1].plug("up")
        assert ask(client) == [True, True]


def test_a_stopped_server_is_waited_for_until_the_cable_is_out(hosts: tuple[Host, Host]) -> None:
    with running(hosts[1], "serve", hosts[1].address) as server:
        where = f"{hosts[1].address}:{line_of(server)}"
        with running(hosts[0], "wait", where) as client:
            assert line_of(client) == "waiting"
            while ask(server) != 2:
                pass
            server.send_signal(signal.SIGSTOP)
            assert client.stderr is not None
            told = (line for line in client.stderr if "it is waited for" in line)
            assert [next(told), next(told), next(told), next(told)]
            hosts[1].plug("down")
            try:
                assert json.loads(line_of(client)) == ["UnavailableError", "UnavailableError"]
            finally:
                hosts[1].plug("up")


CLOSED = {"TIDEFLOW_INSECURE": "off"}


def test_between_hosts_only_certificates_are_answered(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    folder = Folder(tmp_path, hosts=(*LOOPBACK, hosts[1].address))
    other = Folder(tmp_path / "other")
    (tmp_path / "other" / "ps-0" / "ca.pem").write_bytes((tmp_path / "ca.pem").read_bytes())
    tls = {**CLOSED, "TIDEFLOW_TLS": folder.of("worker-0")}
    with running(hosts[1], "serve", hosts[1].address, **tls) as server:
        where = f"{hosts[1].address}:{line_of(server)}"

        def told(host: Host, tls: str) -> str:
            with running(host, "tell", where, **CLOSED, TIDEFLOW_TLS=tls) as client:
                return line_of(client)

        assert told(hosts[0], folder.of("ps-0")) == "answered"
        assert "does it want TLS" in told(hosts[0], "")
        assert "does it trust the authority" in told(hosts[0], other.of("ps-0"))
        assert "may not call" in told(hosts[0], folder.of("reader"))
        # On the server's own host its user needs none.
        assert told(hosts[1], "") == "answered"


def test_without_certificates_no_server_starts_where_others_reach_it(
    hosts: tuple[Host, Host],
) -> None:
    with running(hosts[1], "serve", hosts[1].address, **CLOSED) as server:
        assert server.stderr is not None
        assert any("is reached from other hosts" in line for line in server.stderr)
