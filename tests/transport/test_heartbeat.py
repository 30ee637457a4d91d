"""Peers that say nothing: asked for a sign of life, given up in time, and not before."""

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

from real_time import eventually, within
from tideflow.transport.h2.heartbeat import Finding, Heartbeat, silence_s
from tideflow.wire import errors

_ROOT = Path(__file__).parents[2]
_PATHS = os.pathsep.join([str(_ROOT / "src"), str(_ROOT / "tests")])
_SILENCE_S = 1.0


def frequent() -> Heartbeat:
    made = Heartbeat(310.0)
    made.is_frequent = True
    return made


def test_a_silent_peer_is_asked_once_and_given_up_after_twenty_looks() -> None:
    heartbeat = frequent()
    found = [heartbeat.look() for _ in range(21)]
    assert found == [Finding.PING, *[Finding.WAIT] * 19, Finding.GIVE_UP]
    assert 20 * heartbeat.next_s == silence_s() == 10.0


def test_a_peer_that_is_heard_of_is_not_asked() -> None:
    heartbeat = frequent()
    for _ in range(50):
        heartbeat.has_heard = True
        assert heartbeat.look() is Finding.WAIT


def test_one_that_answers_late_is_looked_at_anew() -> None:
    heartbeat = frequent()
    for _ in range(20):
        heartbeat.look()
    heartbeat.has_heard = True
    assert [heartbeat.look(), heartbeat.look()] == [Finding.WAIT, Finding.PING]


def test_a_plain_peer_is_asked_seldom() -> None:
    heartbeat = Heartbeat(310.0)
    assert heartbeat.next_s == 310.0
    assert heartbeat.look() is Finding.PING
    assert heartbeat.next_s == 20.0
    assert heartbeat.look() is Finding.GIVE_UP
    assert "within 20 s" in heartbeat.reason


@pytest.mark.parametrize("setting", ["soon", "0", "-1", "nan", "1e9"])
def test_an_odd_setting_is_refused(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEFLOW_SILENCE_S", setting)
    silence_s.cache_clear()
    try:
        with pytest.raises(errors.InvalidArgumentError, match="a number of seconds"):
            silence_s()
    finally:
        monkeypatch.undo()
        silence_s.cache_clear()


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run two_hosts_peer.py."""
    script = str(_ROOT / "tests" / "transport" / "two_hosts_peer.py")
    environment = {"PYTHONPATH": _PATHS, "TIDEFLOW_SILENCE_S": str(_SILENCE_S)}
    with subprocess.Popen(
        [sys.executable, script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
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


def ask(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return line_of(process)


@pytest.mark.processes
@pytest.mark.real_time
def test_a_stopped_server_is_given_up_and_found_again() -> None:
    with running("serve", "127.0.0.1") as server:
        with running("wait", f"127.0.0.1:{line_of(server)}") as client:
            assert line_of(client) == "waiting"
            server.send_signal(signal.SIGSTOP)
            with within(10 * _SILENCE_S):
                assert json.loads(line_of(client)) == ["UnavailableError", "UnavailableError"]
            server.send_signal(signal.SIGCONT)
            assert json.loads(ask(client)) == [True, True]


@pytest.mark.processes
def test_a_server_gives_up_the_calls_of_a_stopped_client_but_not_of_a_waiting_one() -> None:
    with running("serve", "127.0.0.1") as server:
        address = f"127.0.0.1:{line_of(server)}"
        with running("wait", address) as client, running("wait", address) as stopped:
            assert (line_of(client), line_of(stopped)) == ("waiting", "waiting")
            assert wait_blocked(server, 4)
            stopped.send_signal(signal.SIGSTOP)
            assert wait_blocked(server, 2)
            stopped.send_signal(signal.SIGCONT)
            assert json.loads(line_of(stopped)) == ["UnavailableError", "UnavailableError"]
            assert wait_blocked(server, 2)


def wait_blocked(server: subprocess.Popen[str], count: int) -> bool:
    """Wait until as many calls wait at a server; False if that takes too long."""
    return eventually(lambda: int(ask(server)) == count, f"{count} blocked calls")
