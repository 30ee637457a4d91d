"""Shared memory between processes: what is received stays, and a kill leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest

from loop_monitor import watching_path
from tideflow.transport import stub
from tideflow.transport.h2 import H2Channel, shared_memory
from tideflow.transport.h2.shared_memory_limit import is_possible, most_shared_bytes
from tideflow.wire import errors
from tideflow.wire.tensor_reply import TensorReply
from transport.shared_memory_peer import Tensors, numbers

pytestmark = pytest.mark.skipif(not is_possible(), reason="shared memory is for Linux")

_ROOT = Path(__file__).parents[2]
_SOON_S = 30


@contextlib.asynccontextmanager
async def process(
    *arguments: str, **environment: str
) -> AsyncIterator[tuple[subprocess.Popen[str], str]]:
    """Yield a process of shared_memory_peer.py and its first line."""
    # The loop's own way to start one forks, which a process with threads had better not do.
    with subprocess.Popen(
        [sys.executable, str(_ROOT / "tests" / "transport" / "shared_memory_peer.py"), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": watching_path(), **environment},
    ) as made:
        try:
            assert made.stdout is not None
            async with asyncio.timeout(_SOON_S):
                line = await asyncio.to_thread(made.stdout.readline)
            yield made, line.strip()
        finally:
            made.kill()


def segments_of(pid: int) -> set[int]:
    """Return the inodes of the large segments that a process has mapped."""
    found = set()
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if "/memfd:tideflow" in line:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if end - begin > 1 << 20:
                found.add(int(line.split()[4]))
    return found


async def until(condition: Callable[[], bool], tensors: Tensors) -> None:
    """Make small calls until something is so."""
    async with asyncio.timeout(_SOON_S):
        while not condition():
            with contextlib.suppress(errors.UnavailableError):
                await tensors.Echo(TensorReply(np.float32(1)))
            gc.collect()


async def test_tensors_pass_between_processes_where_they_lie() -> None:
    async with process("serve") as (server, port):
        channel = H2Channel(f"127.0.0.1:{port}")
        tensors = stub(Tensors, channel)
        for _ in range(2):
            await tensors.Echo(TensorReply(np.float32(1)))
        before = segments_of(os.getpid())
        received = [(await tensors.Echo(TensorReply(numbers()))).value for _ in range(3)]
        for value in received:
            np.testing.assert_array_equal(value, numbers())
            assert value.ctypes.data % 64 == 0
        assert segments_of(os.getpid()) & segments_of(server.pid) - before
        link = channel.link
        assert link is not None
        assert link.core.data_bytes_sent < 2000
        await channel.close()


async def test_a_killed_server_leaves_nothing_but_what_is_held() -> None:
    before = segments_of(os.getpid())
    async with process("serve") as (server, port):
        channel = H2Channel(f"127.0.0.1:{port}")
        tensors = stub(Tensors, channel)
        for _ in range(2):
            await tensors.Echo(TensorReply(np.float32(1)))
        await tensors.Keep(TensorReply(numbers()))
        held = (await tensors.Echo(TensorReply(numbers()))).value
        assert len(segments_of(os.getpid()) - before) >= 2
        server.send_signal(signal.SIGKILL)
        server.wait()
        with pytest.raises(errors.UnavailableError):
            await tensors.Echo(TensorReply(numbers()))
        np.testing.assert_array_equal(held, numbers())
        assert shared_memory.pool(most_shared_bytes(True)).lent_count == 0
        del held
        gc.collect()
        # Free segments of our own are kept for the next peer; of the killed one nothing is left.
        shared_memory.pool(most_shared_bytes(True)).trim(unused_s=0.0)
        assert not segments_of(os.getpid()) - before
        await channel.close()


async def test_a_killed_client_leaves_nothing() -> None:
    async with (
        process("serve") as (server, port),
        process("hold", port) as (client, word),
    ):
        assert word == "held"
        theirs = segments_of(client.pid)
        assert theirs & segments_of(server.pid)
        client.send_signal(signal.SIGKILL)
        client.wait()
        channel = H2Channel(f"127.0.0.1:{port}")
        # All but the one that the server was asked to keep.
        await until(lambda: len(theirs & segments_of(server.pid)) <= 1, stub(Tensors, channel))
        await channel.close()


async def test_what_two_processes_view_after_a_fork_stays_as_it_was() -> None:
    async with process("serve") as (_, port), process("fork", port) as (_, word):
        assert word == "same"


async def test_a_peer_that_shares_nothing_gets_all_by_the_socket() -> None:
    async with process("serve", TIDEFLOW_SHARED_MEMORY="off") as (server, port):
        channel = H2Channel(f"127.0.0.1:{port}")
        tensors = stub(Tensors, channel)
        for _ in range(3):
            value = (await tensors.Echo(TensorReply(numbers()))).value
            np.testing.assert_array_equal(value, numbers())
        assert not segments_of(server.pid)
        link = channel.link
        assert link is not None
        assert link.core.data_bytes_sent > 3 * numbers().nbytes
        await channel.close()
