"""Runs ops on TensorFlow for the tests of bad inputs: lists of calls in, lists of outcomes out.

With each list comes how many seconds a call may take, and whether a new child is to run it.  Some
kernels never end on bad input: the process is ended then, as if they had aborted.

This process only loads TensorFlow; the calls are for a child, which may be ended by a kernel: then
another child goes on.  A process in which TensorFlow has already run anything could not be forked,
since its threads stay behind.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from typing import Any

import tensorflow as tf

from ops.bad_inputs.programs import Program
from ops.outcomes import ABORTED, Outcome, outcome


class _Child:
    """A process that answers calls until one of them ends it."""

    def __init__(self) -> None:
        calls_end, calls = os.pipe()
        answers, answers_end = os.pipe()
        self._id = os.fork()
        if not self._id:
            os.close(calls)
            os.close(answers)
            _answer(calls_end, answers_end)
        os.close(calls_end)
        os.close(answers_end)
        self._calls, self._answers = os.fdopen(calls, "wb"), os.fdopen(answers, "rb")

    def ask(self, calls: list[Any], limit_s: int) -> tuple[list[Outcome], bool]:
        """Return how calls end, and whether the child has ended at the last of these."""
        found: list[Outcome] = []
        try:
            pickle.dump((calls, limit_s), self._calls)
            self._calls.flush()
            while len(found) < len(calls):
                found.append(pickle.load(self._answers))
        except Exception:  # what a child leaves that has destroyed its memory may be anything
            self.end()
            return [*found, ABORTED], True
        return found, False

    def end(self) -> None:
        """Let the process end, and wait for that."""
        with contextlib.suppress(BrokenPipeError):
            self._calls.close()
        self._answers.close()
        os.waitpid(self._id, 0)


def _answer(calls_end: int, answers_end: int) -> None:
    try:
        # What TensorFlow says when it ends the process is of no use here.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(calls_end, "rb") as given, os.fdopen(answers_end, "wb") as answers:
            while True:
                calls, limit_s = pickle.load(given)
                for call in calls:
                    signal.alarm(limit_s)
                    try:
                        ended: Any = (
                            call.end(tf) if isinstance(call, Program) else outcome(tf, call)
                        )
                    except Exception:
                        ended = None
                    signal.alarm(0)
                    pickle.dump(ended, answers)
                    answers.flush()
    finally:
        os._exit(0)


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    child = _Child()
    while True:
        try:
            calls, limit_s, is_fresh = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        if is_fresh:
            child.end()
            child = _Child()
        found: list[Outcome] = []
        while len(found) < len(calls):
            more, has_ended = child.ask(calls[len(found) :], limit_s)
            found += more
            if has_ended:
                child = _Child()
        pickle.dump(found, answers)
        answers.flush()


if __name__ == "__main__":
    main()
