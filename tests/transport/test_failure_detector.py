"""What is decided about silent peers: facts in, instructions out."""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import sys

import pytest

from tideflow.transport.h2.failure_detector import (
    LOOKS,
    Evidence,
    FailureDetector,
    GiveUp,
    Instruction,
    Look,
    Ping,
    TcpFacts,
    TcpPath,
    TellBack,
    TellSlow,
)
from tideflow.transport.h2.kernel_view import read_tcp_info, view_of

SILENCE_S, PLAIN_S, PING_S = 10.0, 310.0, 20.0


def detector(*, is_tideflow: bool = True) -> FailureDetector:
    made = FailureDetector(SILENCE_S, PLAIN_S, PING_S)
    made.is_tideflow = is_tideflow
    return made


def silent(made: FailureDetector, evidence: Evidence, looks: int) -> list[Instruction]:
    """Return all that a detector says in looks at a silent peer."""
    found: list[Instruction] = []
    for _ in range(looks):
        found += made.look(Look(False, evidence))
        made.validate()
    return found


def test_a_silent_peer_whose_host_is_there_is_waited_for_and_spoken_of() -> None:
    made = detector()
    found = silent(made, Evidence.ALIVE, 60 * LOOKS)
    assert found[:3] == [Ping(), TellSlow(5.0), TellSlow(10.0)]
    assert all(type(one) is TellSlow for one in found[1:])
    assert len(found) < 10  # it is told of ever more seldom
    assert made.look(Look(True, Evidence.ALIVE)) == [TellBack(600.0)]
    assert made.look(Look(True, Evidence.ALIVE)) == []
    assert silent(made, Evidence.ALIVE, 1) == [Ping()]


def test_a_peer_that_is_heard_of_is_not_asked() -> None:
    made = detector()
    assert not [one for _ in range(50) for one in made.look(Look(True, Evidence.ALIVE))]
    assert LOOKS * made.next_s == SILENCE_S


@pytest.mark.parametrize(
    ("evidence", "text"),
    [(Evidence.CUT_OFF, "acknowledged nothing for 10 s"), (Evidence.ENDED, "has ended")],
)
def test_what_the_kernel_knows_to_be_gone_is_given_up_at_once(
    evidence: Evidence, text: str
) -> None:
    (found,) = detector().look(Look(False, evidence))
    assert isinstance(found, GiveUp)
    assert text in found.reason


def test_a_last_word_counts_though_its_sender_has_ended() -> None:
    assert detector().look(Look(True, Evidence.ENDED)) == []


def test_where_the_kernel_cannot_tell_twenty_silent_looks_are_enough() -> None:
    found = silent(detector(), Evidence.NONE, LOOKS + 1)
    assert found[0] == Ping()
    assert [type(one) for one in found].index(GiveUp) == len(found) - 1


def test_plain_peers_are_asked_only_where_the_kernel_cannot_tell_and_then_seldom() -> None:
    made = detector(is_tideflow=False)
    assert silent(made, Evidence.ALIVE, 100) == []
    assert made.next_s == SILENCE_S / LOOKS
    blind = detector(is_tideflow=False)
    assert blind.look(Look(True, Evidence.NONE)) == []
    assert blind.next_s == PLAIN_S
    assert silent(blind, Evidence.NONE, 1) == [Ping()]
    assert blind.next_s == PING_S
    (found,) = silent(blind, Evidence.NONE, 1)
    assert isinstance(found, GiveUp)
    assert "within 20 s" in found.reason


# ---- TCP


def judged(facts: list[TcpFacts]) -> list[Evidence]:
    path = TcpPath()
    found = []
    for one in facts:
        found.append(path.note(one))
        path.validate()
    return found


def test_a_host_that_acknowledges_nothing_while_it_is_asked_is_cut_off() -> None:
    found = judged([TcpFacts(0, 0, 9), *(TcpFacts(1, at // 4, 9) for at in range(40))])
    first = found.index(Evidence.CUT_OFF)
    assert LOOKS < first < LOOKS + 3
    assert set(found[:first]) == {Evidence.ALIVE}


def test_one_that_was_asked_too_seldom_is_not() -> None:
    # Its process is stopped with full buffers: the kernel asks every minute, and once in vain.
    assert Evidence.CUT_OFF not in judged([TcpFacts(0, 7, 9)] + [TcpFacts(0, 8, 9)] * 100)


def test_answers_without_progress_are_signs_of_life() -> None:
    full = [TcpFacts(3, at, 9 + at // 10) for at in range(300)]
    assert set(judged(full)) == {Evidence.ALIVE}


def test_an_idle_connection_says_nothing_against_its_peer() -> None:
    assert set(judged([TcpFacts(0, 0, 9)] * 100)) == {Evidence.ALIVE}


def test_a_kernel_that_does_not_count_cannot_tell() -> None:
    assert judged([TcpFacts(1, 5, 0)] * 30) == [Evidence.NONE] * 30
    assert read_tcp_info(bytes(104)) is None


def test_any_order_of_facts_keeps_the_state_sound() -> None:
    chance = random.Random(13)
    path, made = TcpPath(), detector()
    for _ in range(3000):
        facts = TcpFacts(chance.randrange(3), chance.randrange(8), chance.randrange(1, 4))
        instructions = made.look(Look(chance.random() < 0.1, path.note(facts)))
        path.validate()
        if any(type(one) is GiveUp for one in instructions):
            made.rest()
        made.validate()


# ---- what the kernel says


@pytest.mark.skipif(sys.platform != "linux", reason="another kernel")
def test_the_kernel_of_this_machine_tells_of_a_peer_that_does_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with socket.create_connection(listening.getsockname()) as client:
            view = view_of(client)
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                while True:
                    client.send(bytes(1 << 16))
            assert view() is view() is Evidence.ALIVE
            client.close()
            assert view() is Evidence.NONE


@pytest.mark.skipif(sys.platform != "linux", reason="another kernel")
def test_a_process_at_a_unix_socket_that_was_killed_is_known_to_have_ended(
    tmp_path: object,
) -> None:
    path = f"{tmp_path}/socket"
    program = (
        "import os, socket, sys\n"
        "listening = socket.socket(socket.AF_UNIX); listening.bind(sys.argv[1])\n"
        "listening.listen(); print('listens', flush=True)\n"
        "kept = listening.accept()\n"
        "is_child = not os.fork()\n"  # it holds the socket, too
        "is_child or print('forked', flush=True)\n"
        "os.read(0, 1)\n"
    )
    command = [sys.executable, "-c", program, path]
    pipe = subprocess.PIPE  # the end of its input ends the child, too
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "listens\n"
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                view = view_of(client)
                assert server.stdout.readline() == "forked\n"
                assert view() is Evidence.ALIVE
                server.kill()
                server.wait()
                assert view() is Evidence.ENDED
        finally:
            server.kill()


def test_the_fields_of_tcp_info_are_where_they_are_in_linux() -> None:
    data = bytearray(240)
    data[2], data[3] = 5, 2
    struct.pack_into("=I", data, 24, 7)
    struct.pack_into("=I", data, 140, 41)
    assert read_tcp_info(bytes(data)) == TcpFacts(7, 7, 41)
