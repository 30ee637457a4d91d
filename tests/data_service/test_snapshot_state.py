"""Who writes which stream of a snapshot, and which split is next: decided without servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideflow.data_service.snapshot_state import GivenSplit, SnapshotState
from tideflow.ops.data.values import Splits
from tideflow.wire import errors


def _sources() -> list[Splits]:
    return [Splits([10, 11, 12], None), Splits([7], None)]


@pytest.fixture
def state() -> Iterator[SnapshotState]:
    made = SnapshotState(_sources())
    yield made
    made.validate()


def take(state: SnapshotState, worker: str, source: int = 0, repetition: int = 0) -> GivenSplit:
    stream = state.stream_of(worker)
    assert stream is not None
    split = state.next_split(worker, stream, source, repetition)
    state.take(stream, source, repetition, split)
    return split


def test_workers_share_the_splits_of_a_source(state: SnapshotState) -> None:
    assert (state.begin("a"), state.begin("b")) == (0, 1)
    assert [take(state, worker).key for worker in "abab"] == [10, 11, 12, None]
    assert take(state, "b", source=1).key == 7


def test_a_split_has_its_places_in_its_stream_and_among_all(state: SnapshotState) -> None:
    state.begin("a")
    state.begin("b")
    given = [take(state, worker) for worker in "aab"]
    assert [(split.local, split.overall) for split in given] == [(0, 0), (1, 1), (0, 2)]


def test_a_split_that_is_not_taken_is_given_again(state: SnapshotState) -> None:
    state.begin("a")
    assert state.next_split("a", 0, 0, 0) == state.next_split("a", 0, 0, 0)


def test_who_asks_for_a_later_repetition_ends_those_before(state: SnapshotState) -> None:
    state.begin("a")
    state.begin("b")
    take(state, "a")
    again = take(state, "a", repetition=2)
    assert (again.key, list(again.begun)) == (10, [1, 2])
    assert take(state, "b").key is None


def test_a_complete_stream_lets_no_new_ones_begin(state: SnapshotState) -> None:
    state.begin("a")
    state.begin("b")
    assert not state.finish(0)
    assert state.begin("c") is None
    assert (state.is_writing("a"), state.is_writing("b")) == (False, True)
    assert state.finish(1)
    assert state.is_over


def test_a_failed_stream_ends_the_snapshot(state: SnapshotState) -> None:
    state.begin("a")
    state.fail()
    assert state.begin("b") is None
    assert not state.is_writing("a")


def test_a_stream_of_another_worker_is_refused(state: SnapshotState) -> None:
    state.begin("a")
    state.begin("b")
    with pytest.raises(errors.InternalError, match="now assigned a different stream 1"):
        state.next_split("b", 0, 0, 0)
    with pytest.raises(errors.InternalError, match="no longer available"):
        state.next_split("c", 0, 0, 0)
    with pytest.raises(errors.InvalidArgumentError, match="2 sources; a split of source 5"):
        state.next_split("a", 0, 5, 0)


def test_a_restored_state_goes_on_where_it_was(state: SnapshotState) -> None:
    state.begin("a")
    first = take(state, "a"), take(state, "a", repetition=1)
    assert [split.key for split in first] == [10, 10]
    again = SnapshotState(_sources())
    again.restore("a", is_done=False, given=[{0: 1, 1: 1}, {}])
    again.validate()
    assert take(again, "a", repetition=1) == take(state, "a", repetition=1)
