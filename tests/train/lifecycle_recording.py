"""How the lifecycle's programs record what a library does, ours or TensorFlow's."""

from __future__ import annotations

import glob
import importlib
import os

tf = importlib.import_module(os.environ.get("LIFECYCLE_LIBRARY", "tideflow.v1"))
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


class Recorder(tf.train.SessionRunHook):
    """Writes down each call."""

    def __init__(self, name, log, **actions):
        self.name, self.log, self.actions = name, log, actions

    def note(self, what, *args):
        self.log.append(f"{self.name}.{what}")
        if what in self.actions:
            return self.actions[what](*args)
        return None

    def begin(self):
        self.note("begin")

    def after_create_session(self, session, coord):
        self.note("after_create_session", session, coord)

    def before_run(self, run_context):
        return self.note("before_run", run_context)

    def after_run(self, run_context, run_values):
        self.note("after_run", run_context, run_values)

    def end(self, session):
        self.note("end", session)


class Listener(tf.train.CheckpointSaverListener):
    """Writes down each call, with the step."""

    def __init__(self, log, stop_at=None):
        self.log, self.stop_at = log, stop_at

    def begin(self):
        self.log.append("begin")

    def before_save(self, session, global_step_value):
        self.log.append(f"before {global_step_value}")

    def after_save(self, session, global_step_value):
        self.log.append(f"after {global_step_value}")
        return self.stop_at is not None and global_step_value >= self.stop_at

    def end(self, session, global_step_value):
        self.log.append(f"end {global_step_value}")


def counter():
    """Return a train op that increments the global step, and the step."""
    step = tf.train.get_or_create_global_step()
    return tf.assign_add(step, 1), step


def error_of(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return None


def event_kinds(directory):
    """Return what each event of a directory's files is, with its step."""
    kinds = []
    for path in sorted(glob.glob(os.path.join(directory, "events*"))):
        for event in tf.train.summary_iterator(path):
            what = event.WhichOneof("what")
            if what == "session_log":
                what += f" {event.session_log.status}"
            if what == "summary":
                what += " " + ",".join(value.tag for value in event.summary.value)
            # How often the graph is written is nobody's business.
            if not (what.endswith("graph_def") and f"0: {what}" in kinds):
                kinds.append(f"{event.step}: {what}")
    return kinds
