"""What runs on the two hosts of test_two_hosts.py, and in test_heartbeat.py.

two_hosts_peer.py serve ADDRESS     prints its port, answers until it is killed; for each line it
                                    prints how many calls wait; the line "fork" makes a child that
                                    stays until its input ends
two_hosts_peer.py call ADDRESS      makes calls of all sizes and ways, and prints what it saw
two_hosts_peer.py wait ADDRESS      waits for answers that do not come, and prints how that ended;
                                    then, for each line, whether calls work
two_hosts_peer.py first ADDRESS     makes the first calls, and prints whether they work
two_hosts_peer.py tell ADDRESS      makes one call, and prints how it ended
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import BytesValue

from tideflow.runtime.loop import run_sync
from tideflow.transport import MethodSpec
from tideflow.transport.h2 import H2Channel, H2Server
from tideflow.transport.h2.shared_memory import pool
from tideflow.transport.h2.shared_memory_limit import most_shared_bytes
from tideflow.transport.service import bind
from tideflow.wire import errors
from transport.contract import Prober

METHODS = {path.rpartition("/")[2]: one.spec for path, one in bind([Prober()]).items()}
SIZES = (0, 4, 300_000, 20_000_000)


async def serve(address: str, prober: Prober) -> H2Server:
    server = H2Server([prober], f"{address}:0")
    print(await server.start(), flush=True)
    return server


async def make_channel(address: str, **options: Any) -> H2Channel:
    return H2Channel(address, **options)


def ways(channel: H2Channel) -> list[Callable[[MethodSpec, Message], Message]]:
    assert channel.blocking is not None
    return [lambda spec, request: run_sync(channel.unary(spec, request)), channel.blocking.unary]


def call(address: str) -> None:
    channel = run_sync(make_channel(address))
    for way in ways(channel):
        for size in SIZES:
            request = BytesValue(value=b"?" * size)
            assert way(METHODS["Echo"], request) == request
    link = channel.link
    assert link is not None
    seen = {"sent": link.core.data_bytes_sent, "lent": pool(most_shared_bytes(True)).held_bytes}
    print(json.dumps(seen), flush=True)


def wait(address: str) -> None:
    channel = run_sync(make_channel(address))

    async def both() -> list[str]:
        assert channel.blocking is not None
        print("waiting", flush=True)
        ended = await asyncio.gather(
            channel.unary(METHODS["Block"], Empty()),
            asyncio.to_thread(channel.blocking.unary, METHODS["Block"], Empty()),
            return_exceptions=True,
        )
        return [type(one).__name__ for one in ended]

    for way in ways(channel):
        way(METHODS["Echo"], BytesValue())
    print(json.dumps(run_sync(both())), flush=True)
    for _ in sys.stdin:
        print(json.dumps([succeeds(way) for way in ways(channel)]), flush=True)


def first(address: str) -> None:
    """Make one call in each way, once, over a connection that is new."""
    channel = run_sync(make_channel(address))
    with ThreadPoolExecutor() as threads:
        calls = [threads.submit(way, METHODS["Echo"], BytesValue()) for way in ways(channel)]
        print(json.dumps([call.result() == BytesValue() for call in calls]), flush=True)


def tell(address: str) -> None:
    async def once() -> str:
        channel = await make_channel(address)
        try:
            await channel.unary(METHODS["Echo"], BytesValue(value=bytes(3_000_000)))
            return "answered"
        except errors.OpError as error:
            return f"{type(error).__name__}: {error.message}"
        finally:
            await channel.close()

    print(run_sync(once()), flush=True)


def succeeds(way: Callable[[MethodSpec, Message], Message]) -> bool:
    """Whether a call comes through within a while, made again as sessions do."""
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        try:
            way(METHODS["Echo"], BytesValue())
            return True
        except errors.UnavailableError:
            time.sleep(0.05)
    return False


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        answering = Prober()
        kept = run_sync(serve(sys.argv[2], answering))
        for line in sys.stdin:
            if line == "fork\n" and not os.fork():
                os.read(0, 1)  # until the test is over
                os._exit(0)
            print(answering.blocked_count, flush=True)
    else:
        {"call": call, "wait": wait, "first": first, "tell": tell}[sys.argv[1]](sys.argv[2])
