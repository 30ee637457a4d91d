"""What a peer may cost a server: its budgets, its memory, its descriptors."""

from __future__ import annotations

import os
import resource
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from real_time import within
from tideflow.transport.admission import RefusedError
from tideflow.transport.h2 import frames
from tideflow.transport.h2.crowding import make_room
from tideflow.transport.h2.faults import ErrorCode
from tideflow.transport.h2.limits import BudgetsByPeer, Limits
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.room import held_bytes, limit_room, require_room
from tideflow.wire.tensor_codec import decode_tensor
from transport.raw_peer import call_block, data, frame, headers, raw_peer
from transport.test_hostile_clients import serving


@pytest.fixture
def no_room() -> Iterator[None]:
    """The process holds all that it may."""
    lift = limit_room(held_bytes())
    yield
    lift()


def initial_windows(count: int) -> bytes:
    """Return one SETTINGS frame that sets the initial window again and again."""
    payload = b"".join(struct.pack(">HL", 4, 65535 + i % 2) for i in range(count))
    return frame(frames.SETTINGS, 0, 0, payload)


@pytest.mark.real_time
async def test_settings_on_many_streams_do_not_keep_the_loop() -> None:
    async with serving() as served, raw_peer(served.port) as peer:
        opened = b"".join(headers(1 + 2 * i, call_block("Count")) for i in range(20_000))
        await peer.send(opened)
        await served.require_healthy()
        await peer.send(initial_windows(400))
        with within(1.0):
            await served.require_healthy()
        # Frames instead of settings count as what they cost.
        await peer.send(b"".join(initial_windows(1 + i % 2) for i in range(100)))
        with within(1.0):
            await served.require_healthy()
        assert (await served.read_given_up(peer)).code is ErrorCode.ENHANCE_YOUR_CALM


async def test_small_pieces_of_a_message_are_counted() -> None:
    async with serving(Limits(pieces=100)) as served, raw_peer(served.port) as peer:
        await peer.send(headers(1, call_block("Echo")) + data(1, b"\0\0\1\0\0"))
        for _ in range(200):
            await peer.send(data(1, b"."))
        assert (await served.read_given_up(peer)).code is ErrorCode.ENHANCE_YOUR_CALM


def test_budgets_are_those_of_a_peer_however_often_it_connects() -> None:
    now_s = [0.0]
    budgets = BudgetsByPeer(Limits(resets=100), lambda: now_s[0])
    assert budgets.of("10.0.0.1").resets.take(100)
    again = budgets.of("10.0.0.1").resets
    assert not again.take()
    assert budgets.of("10.0.0.2").resets.take()
    # A crowd of others does not make it whole.
    for i in range(1000):
        budgets.of(f"10.1.{i // 250}.{i % 250}")
    assert not budgets.of("10.0.0.1").resets.take()
    now_s[0] = 10.0
    assert again.take(10)
    assert not again.take()


def test_a_tensor_that_is_said_in_few_bytes_takes_room(no_room: None) -> None:
    few = pb.TensorProto(dtype=dtypes.float32.number, float_val=[1.0])
    few.tensor_shape.dim.add(size=1 << 30)
    with pytest.raises(errors.ResourceExhaustedError, match=r"4294\d+ bytes; this process"):
        decode_tensor(few)
    require_room(1 << 20, "what is small")


def test_without_a_server_nothing_is_refused() -> None:
    require_room(1 << 60, "a giant")


async def test_a_request_without_room_is_refused_and_others_go_on(no_room: None) -> None:
    async with serving() as served, raw_peer(served.port) as peer:
        promised = b"\0" + (8 << 20).to_bytes(4, "big")
        await peer.send(headers(1, call_block("Echo")) + data(1, promised))
        fields, _ = await peer.read_answer(1)
        assert fields[b"grpc-status"] == b"8"
        assert b"this process holds" in fields[b"grpc-message"]
        await served.require_healthy()


@dataclass
class Connected:
    """A connection as crowding sees it."""

    peer: str
    is_limited: bool
    since_s: float
    has_calls: bool = False
    dismissed: str = ""

    def dismiss(self, reason: str) -> None:
        self.dismissed = reason


def test_idle_strangers_go_before_descriptors_run_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    newcomer = Connected("new", False, 9.0)
    others = [
        Connected("own", False, 0.0),
        Connected("busy stranger", True, 1.0, has_calls=True),
        Connected("young stranger", True, 3.0),
        Connected("old stranger", True, 2.0),
    ]
    with open(os.devnull) as file:
        make_room(newcomer, file, others)
        assert not any(one.dismissed for one in others)
        monkeypatch.setattr(resource, "getrlimit", lambda _: (file.fileno(), file.fileno()))
        make_room(newcomer, file, others)
        with pytest.raises(RefusedError, match="none of them is idle"):
            make_room(newcomer, file, others[1:2])
    assert [bool(one.dismissed) for one in others] == [False, False, False, True]
    assert "the idle connection of old stranger is closed" in caplog.text
