"""The collector's pause: it begins, overlaps and ends."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from tideflow.graph.collection import collection_paused


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_the_collector_rests_until_the_last_pause_ends():
    assert gc.isenabled()
    with collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error():
    @collection_paused()
    def fail():
        assert not gc.isenabled()
        raise KeyError("as asked")

    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_garbage_of_the_pause_is_found_later():
    with collection_paused():
        knot = weakref.ref(Knot())
        assert knot() is not None
    gc.collect()
    assert knot() is None


_AGES = """
import gc
from tideflow.graph.collection import collection_paused

def is_old(count, frozen):
    gc.collect()
    (gc.freeze if frozen else gc.unfreeze)()
    with collection_paused():
        made = [[number] for number in range(count)]
    return any(one is made for one in gc.get_objects(generation=2))

print(is_old(100_000, False), is_old(10, False), is_old(100_000, True))
print(gc.get_freeze_count() > 0)
"""


@pytest.mark.processes
def test_only_what_is_many_grows_old_at_once_and_what_a_program_froze_stays_frozen():
    done = subprocess.run(
        [sys.executable, "-c", _AGES], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["True", "False", "False", "True"], done.stderr
