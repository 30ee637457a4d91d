"""Event files: what a program tells TensorBoard, as records of Event messages.

Events are written by a thread of the writer, so that training does not wait for a disk.  A disk
that fails is not passed over in silence: the next call says so.

Source: tensorflow/python/summary/writer/event_file_writer.py; core/util/events_writer.cc (names).
"""

from __future__ import annotations

import itertools
import os
import queue
import socket
import threading
import weakref
from typing import Any, BinaryIO

from tideflow.formats import file_errors, framed, open_file, permitted
from tideflow.platform import clock, threads, waits
from tideflow.wire import errors
from tideflow.wire import messages as pb

_FILE_VERSION = "brain.Event:2"
_WRITER = "tideflow.train.summaries.event_writer"


class _Flush:
    """Asks the thread to flush; done when it has."""

    def __init__(self) -> None:
        self.done = threading.Event()


class _EventFile:
    """One file and the thread that writes it."""

    def __init__(self, directory: str, max_queue: int, flush_s: float, suffix: str) -> None:
        self.path, self._file = _open_new(directory, suffix)
        self._events: queue.Queue[pb.Event | _Flush | None] = queue.Queue(max(1, max_queue))
        self._flush_s = flush_s
        self._problem: errors.OpError | None = None
        first = pb.Event(wall_time=clock.wall_s(), file_version=_FILE_VERSION)
        first.source_metadata.writer = _WRITER
        with file_errors("write", self.path):
            self._file.write(framed(first.SerializeToString()))
            self._file.flush()
        self._thread = threads.start(self._run, name="tideflow-events")

    def add(self, event_pb: pb.Event) -> None:
        self._complain()
        self._events.put(event_pb)

    def flush(self) -> None:
        asked = _Flush()
        self._events.put(asked)
        waits.until(asked.done.wait)
        self._complain()

    def close(self) -> None:
        self.end()
        waits.until(self._has_ended_in)
        self._complain()

    def _has_ended_in(self, slice_s: float) -> bool:
        self._thread.join(slice_s)
        return not self._thread.is_alive()

    def _complain(self) -> None:
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def end(self) -> None:
        """Let the thread write what is left and end."""
        self._events.put(None)

    def _run(self) -> None:
        next_flush = clock.monotonic_s() + self._flush_s
        while True:
            item: pb.Event | _Flush | None
            try:
                item = self._events.get(timeout=max(0.0, next_flush - clock.monotonic_s()))
            except queue.Empty:
                item = _Flush()
            try:
                with file_errors("write", self.path):
                    if isinstance(item, pb.Event):
                        self._file.write(framed(item.SerializeToString()))
                    elif item is None:
                        self._file.close()
                    else:
                        next_flush = clock.monotonic_s() + self._flush_s
                        self._file.flush()
            except errors.OpError as error:
                self._problem = error
            if item is None:
                return
            if isinstance(item, _Flush):
                item.done.set()


def _open_new(directory: str, suffix: str) -> tuple[str, BinaryIO]:
    """Open a file that is not there yet; readers take files in the order of their names."""
    with file_errors("make the directory", directory):
        os.makedirs(permitted(directory or os.curdir), exist_ok=True)
    # A second file of a second is called as if it came later.
    for second in itertools.count(int(clock.wall_s())):
        name = f"events.out.tfevents.{second:010d}.{socket.gethostname()}{suffix}"
        path = os.path.join(directory, name)
        try:
            return path, open_file(path, "xb")
        except FileExistsError:
            continue
        except OSError:
            with file_errors("make", path):
                raise
    raise AssertionError("counting does not end")


class EventFileWriter:
    """Writes events to a new file of a directory, which is made if it is not there.

    Args:
      max_queue: how many events wait to be written before add_event waits.
      flush_secs: how often what was written is handed to the operating system.
      filename_suffix: end of the file's name.
    Raises: what the operating system says of the file; of what failed behind the scenes the next
    call tells.
    """

    def __init__(
        self,
        logdir: str,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str | None = None,
    ) -> None:
        self._logdir: str = os.fspath(logdir)
        self._options = (max_queue, float(flush_secs), filename_suffix or "")
        self._file: _EventFile | None = _EventFile(self._logdir, *self._options)

    def get_logdir(self) -> str:
        """Return the directory."""
        return self._logdir

    @property
    def path(self) -> str | None:
        """The file that is being written, None once closed."""
        return None if self._file is None else self._file.path

    def add_event(self, event: Any) -> None:
        """Add an event; a closed writer drops it."""
        if self._file is not None:
            self._file.add(_own_event(event))

    def close_when_dropped(self) -> None:
        """Let the file be closed once nobody holds this writer."""
        if self._file is not None:
            weakref.finalize(self, self._file.end)

    def flush(self) -> None:
        """Wait until all events are handed to the operating system."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Write what is left and close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def reopen(self) -> None:
        """Go on in a new file, if closed."""
        if self._file is None:
            self._file = _EventFile(self._logdir, *self._options)


def _own_event(event: Any) -> pb.Event:
    """Return an event of this library; another's message is converted."""
    if isinstance(event, pb.Event):
        return event
    return pb.Event.FromString(event.SerializeToString())
