"""Peers that say nothing: waited for while they are there."""

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

from cluster.servers import suspend
from loop_monitor import watching_path
from real_time import eventually

_ROOT = Path(__file__).parents[2]
_SILENCE_S = 1.0


@contextlib.contextmanager
def running(*arguments: str, memory: str = "on") -> Iterator[subprocess.Popen[str]]:
    """Run two_hosts_peer.py; without shared memory connections are of TCP."""
    script = str(_ROOT / "tests" / "transport" / "two_hosts_peer.py")
    environment = {
        "PYTHONPATH": watching_path(),
        "TIDEFLOW_SILENCE_S": str(_SILENCE_S),
        "TIDEFLOW_SHARED_MEMORY": memory,
    }
    with subprocess.Popen(
        [sys.executable, script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask(process: subprocess.Popen[str], question: str = "") -> str:
    assert process.stdin is not None
    process.stdin.write(f"{question}\n")
    process.stdin.flush()
    return line_of(process)


def wait_for_logged(process: subprocess.Popen[str], words: str) -> None:
    """Read what a process logs until it says some words."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    pytest.fail(f"it never said {words!r}")


@pytest.mark.processes
@pytest.mark.parametrize("memory", ["on", "off"])
def test_a_stopped_server_is_waited_for_and_the_log_says_so(memory: str) -> None:
    with running("serve", "127.0.0.1", memory=memory) as server:
        with running("wait", f"127.0.0.1:{line_of(server)}", memory=memory) as client:
            assert line_of(client) == "waiting"
            assert wait_blocked(server, 2)
            suspend(server)
            for _ in range(4):  # the second time at what peers could once be silent at most
                wait_for_logged(client, "it is waited for")
            server.send_signal(signal.SIGCONT)
            wait_for_logged(client, "answers again")
            assert wait_blocked(server, 2)
            server.kill()
            assert json.loads(line_of(client)) == ["UnavailableError", "UnavailableError"]


@pytest.mark.processes
@pytest.mark.parametrize("memory", ["on", "off"])
def test_a_server_that_was_killed_is_given_up_though_its_child_lives(memory: str) -> None:
    with running("serve", "127.0.0.1", memory=memory) as server:
        with running("wait", f"127.0.0.1:{line_of(server)}", memory=memory) as client:
            assert line_of(client) == "waiting"
            assert wait_blocked(server, 2)
            assert ask(server, "fork") == "2"
            server.kill()
            assert json.loads(line_of(client)) == ["UnavailableError", "UnavailableError"]


@pytest.mark.processes
def test_a_server_waits_for_a_stopped_client_but_not_for_one_that_was_killed() -> None:
    with running("serve", "127.0.0.1") as server:
        address = f"127.0.0.1:{line_of(server)}"
        with running("wait", address) as client, running("wait", address) as stopped:
            assert (line_of(client), line_of(stopped)) == ("waiting", "waiting")
            assert wait_blocked(server, 4)
            suspend(stopped)
            for _ in range(2):
                wait_for_logged(server, "it is waited for")
            assert wait_blocked(server, 4)
            stopped.send_signal(signal.SIGCONT)
            wait_for_logged(server, "answers again")
            stopped.kill()
            assert wait_blocked(server, 2)


@pytest.mark.processes
@pytest.mark.parametrize("memory", ["on", "off"])
def test_a_stopped_server_can_be_connected_to(memory: str) -> None:
    with running("serve", "127.0.0.1", memory=memory) as server:
        address = f"127.0.0.1:{line_of(server)}"
        suspend(server)
        with running("first", address, memory=memory) as client:
            for _ in range(2):
                wait_for_logged(client, "has said nothing")
            server.send_signal(signal.SIGCONT)
            assert json.loads(line_of(client)) == [True, True]


def wait_blocked(server: subprocess.Popen[str], count: int) -> bool:
    """Wait until as many calls wait at a server; False if that takes too long."""
    return eventually(lambda: int(ask(server)) == count, f"{count} blocked calls")
