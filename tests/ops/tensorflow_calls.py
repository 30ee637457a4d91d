"""Runs ops on TensorFlow for test_bad_inputs_oracle.py: lists of calls in, lists of outcomes out.

This process only loads TensorFlow; each list is for a child, which may be ended by a kernel.  A
process in which TensorFlow has already run anything could not be forked: its threads stay behind.
"""

from __future__ import annotations

import os
import pickle
import sys

import tensorflow as tf

from ops.outcomes import ABORTED, Call, Outcome, outcome


def on_tensorflow(calls: list[Call]) -> list[Outcome]:
    """Return how calls end on TensorFlow; None where the test cannot say it to TensorFlow."""
    found: dict[int, Outcome] = {}
    while len(found) < len(calls):
        read_end, write_end = os.pipe()
        child = os.fork()
        if not child:
            _answer(calls[len(found) :], read_end, write_end)
        os.close(write_end)
        with os.fdopen(read_end, "rb") as answers:
            while len(found) < len(calls):
                try:
                    found[len(found)] = pickle.load(answers)
                except (EOFError, pickle.UnpicklingError):
                    found[len(found)] = ABORTED
                    break
        os.waitpid(child, 0)
    return list(found.values())


def _answer(calls: list[Call], read_end: int, write_end: int) -> None:
    try:
        os.close(read_end)
        # What TensorFlow says when it ends the process is of no use here.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(write_end, "wb") as answers:
            for call in calls:
                try:
                    ended: Outcome = outcome(tf, call)
                except Exception:
                    ended = None
                pickle.dump(ended, answers)
                answers.flush()
    finally:
        os._exit(0)


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            calls = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(on_tensorflow(calls), answers)
        answers.flush()


if __name__ == "__main__":
    main()
