from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from transport.contract import Pair, run_pair
from transport.ways import InProcess


@pytest.fixture
def pair() -> Iterator[Pair]:
    yield from run_pair(InProcess)


async def test_the_handler_gets_the_caller_s_own_message(pair: Pair) -> None:
    request = BytesValue(value=b"same")
    assert await pair.stub.Echo(request) is request
