"""The parts of a server end before one deadline, whatever each of them does."""

from __future__ import annotations

import asyncio

from tideflow.cluster.stopping import stop_in_turn
from tideflow.wire import errors


async def test_parts_that_do_not_end_are_cut_off_before_one_deadline():
    began, cut_off = [], []

    def part(name: str):
        async def stop() -> None:
            began.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                cut_off.append(name)

        return stop

    async with asyncio.timeout(5):  # the promise; each of them alone would take a third of it
        await stop_in_turn(0.5, {name: part(name) for name in "abcde"})
    assert began == cut_off == list("abcde")


async def test_a_part_may_use_what_those_before_it_have_left():
    ended = []

    async def quick() -> None:
        ended.append("quick")

    async def failing() -> None:
        ended.append("failing")
        raise errors.UnavailableError("away")

    await stop_in_turn(60.0, {"one": quick, "two": failing, "three": quick})
    assert ended == ["quick", "failing", "quick"]
