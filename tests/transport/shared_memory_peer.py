"""The other process of test_shared_memory_processes.py: a server, or a client that holds memory.

shared_memory_peer.py serve          prints its port, answers until it is killed
shared_memory_peer.py hold PORT      makes a large call, keeps a view, prints "held", waits
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tideflow.runtime.loop import run_sync
from tideflow.transport import Service, rpc, stub
from tideflow.transport.h2 import H2Channel, H2Server
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


if __name__ == "__main__":
    kept = run_sync(serve() if sys.argv[1] == "serve" else hold(sys.argv[2]))
    sys.stdin.read()
