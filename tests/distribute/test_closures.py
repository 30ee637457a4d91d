"""The queue of what a coordinator has workers do, when it is closed."""

from __future__ import annotations

import threading

import pytest

from tideflow.distribute.closures import Closure, ClosureQueue
from tideflow.wire import errors


def closure() -> Closure:
    return Closure(lambda: 1, (), {})


def test_what_waits_in_a_queue_that_is_closed_is_cancelled() -> None:
    queue, waiting = ClosureQueue(), closure()
    queue.put(waiting)
    queue.close()
    with pytest.raises(errors.CancelledError, match="is cancelled"):
        waiting.result.fetch()
    assert queue.take() is None
    queue.join()


def test_what_is_given_to_a_closed_queue_is_cancelled() -> None:
    queue, late = ClosureQueue(), closure()
    queue.close()
    queue.put(late)
    with pytest.raises(errors.CancelledError):
        late.result.fetch()
    assert queue.is_done()


def test_what_comes_back_to_a_closed_queue_is_cancelled() -> None:
    queue, lost = ClosureQueue(), closure()
    queue.put(lost)
    taken = queue.take()
    assert taken is not None
    queue.close()
    queue.put_back(*taken)
    with pytest.raises(errors.CancelledError):
        lost.result.fetch()
    queue.join()


def test_what_runs_when_a_queue_is_closed_still_gives_its_result() -> None:
    queue, running = ClosureQueue(), closure()
    queue.put(running)
    taken = queue.take()
    assert taken is not None
    queue.close()
    queue.end(taken[0], 5, taken[1])
    assert running.result.fetch() == 5


def test_whoever_waits_for_all_to_end_hears_of_the_close() -> None:
    queue = ClosureQueue()
    queue.put(closure())
    joining = threading.Thread(target=queue.join, daemon=True)
    joining.start()
    queue.close()
    joining.join(10)
    assert not joining.is_alive()
