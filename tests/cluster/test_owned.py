"""Resources that end in several ways at once end once."""

from __future__ import annotations

import asyncio

import pytest

from tideflow.cluster.owned import Owned


class Thing:
    """Ends when it may, and counts how often it was told to."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.ends = 0
        self.error: Exception | None = None

    async def close(self) -> None:
        self.ends += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error


async def test_who_closes_a_thing_that_ends_already_waits_for_its_end():
    owned, thing = Owned(Thing.close), Thing()
    owned.add("a", thing)
    first = asyncio.ensure_future(owned.close("a"))
    await asyncio.sleep(0)
    assert "a" not in owned
    others = [asyncio.ensure_future(end) for end in (owned.close("a"), owned.close_all())]
    await asyncio.sleep(0)
    assert not any(one.done() for one in others)
    thing.may_end.set()
    await asyncio.gather(first, *others)
    assert thing.ends == 1
    await owned.close("a")
    assert thing.ends == 1


async def test_the_end_goes_on_when_its_caller_is_cancelled():
    owned, thing = Owned(Thing.close), Thing()
    owned.add("a", thing)
    first = asyncio.ensure_future(owned.close("a"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    thing.may_end.set()
    await owned.close("a")
    assert thing.ends == 1


async def test_collecting_goes_on_after_a_close_meanwhile_and_after_an_error():
    abandoned: set[str] = set()
    owned: Owned[str, Thing] = Owned(
        Thing.close, lambda kept: [(key, "unused") for key in kept if key in abandoned], 0.001
    )
    things = {key: Thing() for key in "abc"}
    for key, thing in things.items():
        owned.add(key, thing)
    things["a"].error = ValueError("cannot end")
    abandoned |= {"a", "b"}
    async with asyncio.timeout(10):
        while not things["a"].ends or not things["b"].ends:
            await asyncio.sleep(0)
        closing = asyncio.ensure_future(owned.close("b"))  # while it is being collected
        for key in "ab":
            things[key].may_end.set()
        await closing
        abandoned.add("c")
        things["c"].may_end.set()
        while owned:
            await asyncio.sleep(0)
        # It begins again with the next thing.
        things["d"] = Thing()
        things["d"].may_end.set()
        abandoned.add("d")
        owned.add("d", things["d"])
        while not things["d"].ends:
            await asyncio.sleep(0)
    assert [thing.ends for thing in things.values()] == [1, 1, 1, 1]
    await owned.stop()


async def test_all_end_though_one_fails_and_its_error_is_told():
    owned = Owned(Thing.close)
    things = [Thing() for _ in range(3)]
    things[0].error = ValueError("cannot end")
    for number, thing in enumerate(things):
        thing.may_end.set()
        owned.add(number, thing)
    with pytest.raises(ValueError, match="cannot end"):
        await owned.stop()
    assert [thing.ends for thing in things] == [1, 1, 1]
