"""The other process of test_shared_memory_processes.py: a server, or a client that holds memory.

shared_memory_peer.py serve          prints its port, answers until it is killed
shared_memory_peer.py hold PORT      makes a large call, keeps a view, prints "held", waits
shared_memory_peer.py fork PORT      forks while it holds views; prints what came of them
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from tideflow.runtime.loop import run_sync
from tideflow.transport import Service, rpc, stub
from tideflow.transport.h2 import H2Channel, H2Server
from tideflow.transport.service import bind
from tideflow.wire.tensor_reply import TensorReply

COUNT = 1 << 20


class Tensors(Service, name="tideflow.test.Tensors"):
    """Each way a tensor that the receiver views where it arrived."""

    @rpc
    async def Echo(self, request: TensorReply) -> TensorReply: ...

    @rpc
    async def Keep(self, request: TensorReply) -> TensorReply: ...


class Keeper(Tensors):
    def __init__(self) -> None:
        self.kept: list[Any] = []

    async def Echo(self, request: TensorReply) -> TensorReply:
        return request

    async def Keep(self, request: TensorReply) -> TensorReply:
        self.kept.append(request.value)
        return TensorReply(np.int64(len(self.kept)))


def numbers() -> Any:
    return np.arange(COUNT, dtype=np.float64)


async def serve() -> H2Server:
    server = H2Server([Keeper()], "127.0.0.1:0")
    print(await server.start(), flush=True)
    return server


async def hold(port: str) -> list[Any]:
    tensors = stub(Tensors, H2Channel(f"127.0.0.1:{port}"))
    for _ in range(2):
        await tensors.Echo(TensorReply(np.float32(1)))
    held = [(await tensors.Echo(TensorReply(numbers()))).value for _ in range(2)]
    await tensors.Keep(TensorReply(numbers()))
    print("held", flush=True)
    return held


def echo_by_thread(channel: H2Channel, value: Any) -> Any:
    """Make a call without the loop, which a forked child does not have."""
    assert channel.blocking is not None
    spec = bind([Keeper()])["/tideflow.test.Tensors/Echo"].spec
    answer = channel.blocking.unary(spec, TensorReply(value))
    assert isinstance(answer, TensorReply)
    return answer.value


async def make_channel(port: str) -> H2Channel:
    return H2Channel(f"127.0.0.1:{port}")


def fork(port: str) -> str:
    """Return "same" if what this process and its fork hold stays as it was in both."""
    channel = run_sync(make_channel(port))
    for _ in range(2):
        echo_by_thread(channel, np.float32(1))
    first, second = echo_by_thread(channel, numbers()), echo_by_thread(channel, 2 * numbers())
    goes_on, dropped = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        del second
        os.write(dropped[1], b"x")
        os.read(goes_on[0], 1)
        os._exit(0 if np.array_equal(first, numbers()) else 1)
    del first
    os.read(dropped[0], 1)
    later = [echo_by_thread(channel, -numbers()) for _ in range(4)]
    is_same = np.array_equal(second, 2 * numbers()) and len(later) == 4
    os.write(goes_on[1], b"x")
    _, status = os.waitpid(child, 0)
    return "same" if is_same and status == 0 else f"changed: {is_same}, {status}"


def main(word: str, *arguments: str) -> Any:
    if word == "serve":
        return run_sync(serve())
    if word == "hold":
        return run_sync(hold(*arguments))
    print(fork(*arguments), flush=True)
    return None


if __name__ == "__main__":
    kept = main(*sys.argv[1:])
    sys.stdin.read()
