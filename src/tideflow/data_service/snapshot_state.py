"""Who writes which stream of a snapshot, and which split is next.

Rule 1: each worker writes one stream at most, and keeps it when it comes back.
Rule 2: once a stream has ended there are no new ones: its worker saw the end of the splits.
Rule 3: the snapshot is complete with its last stream, and over with the first error.

Source: tensorflow/core/data/service/snapshot/snapshot_manager.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tideflow.ops.data import Splits
from tideflow.wire import errors


@dataclass(eq=False, slots=True)
class Stream:
    """A part of a snapshot.  given: how many splits of each source it has had."""

    worker: str
    given: list[int]
    is_done: bool = False


@dataclass(eq=False, slots=True)
class Source:
    """Where a source of the dataset is."""

    splits: Splits
    repetition: int = 0
    taken: int = 0


@dataclass(frozen=True, slots=True)
class GivenSplit:
    """A split for a worker; key: None where there are no more in the repetition.

    Attributes:
      local, overall: its place among the splits of its stream and source, and among all.
      begun: the repetitions that began with it.
    """

    key: int | None
    local: int
    overall: int
    begun: Sequence[int] = field(default=())


class SnapshotState:
    """What a dispatcher knows of a snapshot that is being written."""

    def __init__(self, sources: Sequence[Splits]) -> None:
        self.sources = [Source(splits) for splits in sources]
        self.streams: list[Stream] = []
        self.overall = 0
        self.is_over = False
        self._is_ending = False

    # ---- streams

    def stream_of(self, worker: str) -> int | None:
        """Return the stream that a worker has or had."""
        found = [i for i, stream in enumerate(self.streams) if stream.worker == worker]
        return found[0] if found else None

    def is_writing(self, worker: str) -> bool:
        """Whether a worker has a stream to write."""
        index = self.stream_of(worker)
        return not self.is_over and index is not None and not self.streams[index].is_done

    def check(self, worker: str, stream: int) -> Stream:
        """Return the stream that a worker says it writes.  Raises: InternalError for another."""
        index = self.stream_of(worker)
        if index is None:
            raise errors.InternalError(
                f"tf.data snapshot worker {worker} was assigned stream {stream}, but the "
                "assignment is no longer available."
            )
        if index != stream:
            raise errors.InternalError(
                f"tf.data snapshot worker {worker} was assigned stream {stream} but is now "
                f"assigned a different stream {index}"
            )
        return self.streams[index]

    def begin(self, worker: str) -> int | None:
        """Return a new stream for a worker, None where there are to be no more."""
        if self._is_ending or self.is_over:
            return None
        self.streams.append(Stream(worker, [0] * len(self.sources)))
        return len(self.streams) - 1

    def finish(self, stream: int) -> bool:
        """Take note that a stream is complete; return whether the snapshot is."""
        self._is_ending = True
        self.streams[stream].is_done = True
        self.is_over = all(one.is_done for one in self.streams)
        return self.is_over

    def fail(self) -> None:
        """Take note that a stream has failed."""
        self.is_over = True

    # ---- splits

    def next_split(self, worker: str, stream: int, source: int, repetition: int) -> GivenSplit:
        """Return the next split of a repetition of a source; `take` it once it is written down.

        Who asks for a later repetition ends those before.
        Raises: InternalError for a stream that is not the worker's, InvalidArgumentError for a
        source that is not there.
        """
        local_of = self.check(worker, stream).given
        if not 0 <= source < len(self.sources):
            raise errors.InvalidArgumentError(
                f"the snapshot has {len(self.sources)} sources; a split of source {source} is "
                "asked for"
            )
        found = self.sources[source]
        key, begun = None, range(found.repetition + 1, repetition + 1)
        taken = 0 if begun else found.taken
        if repetition >= found.repetition and taken < len(found.splits.keys):
            key = found.splits.keys[taken]
        return GivenSplit(key, local_of[source], self.overall, begun)

    def take(self, stream: int, source: int, repetition: int, split: GivenSplit) -> None:
        """Take note that a split was given."""
        found = self.sources[source]
        if repetition > found.repetition:
            found.repetition, found.taken = repetition, 0
        if split.key is not None:
            found.taken += 1
            self.overall += 1
            self.streams[stream].given[source] += 1

    # ---- after a restart

    def restore(self, worker: str, is_done: bool, given: Sequence[dict[int, int]]) -> None:
        """Take note of a stream that was begun before: how many splits each repetition gave it."""
        self.streams.append(Stream(worker, [sum(one.values()) for one in given], is_done))
        self._is_ending = self._is_ending or is_done
        for source, counts in zip(self.sources, given):
            for repetition, count in sorted(counts.items()):
                if repetition > source.repetition:
                    source.repetition, source.taken = repetition, 0
                if repetition == source.repetition:
                    source.taken += count
                self.overall += count

    # ---- for tests

    def validate(self) -> None:
        """Check what must hold at all times."""
        workers = [stream.worker for stream in self.streams]
        assert len(set(workers)) == len(workers), "a worker writes one stream"
        assert all(len(stream.given) == len(self.sources) for stream in self.streams)
        assert self.overall == sum(sum(stream.given) for stream in self.streams)
        assert self._is_ending or not any(stream.is_done for stream in self.streams)
        assert all(0 <= one.taken <= len(one.splits.keys) for one in self.sources)
