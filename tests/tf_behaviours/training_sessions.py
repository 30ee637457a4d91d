"""Sessions that last, their hooks, managers and supervisors."""

# ruff: noqa: B023 - programs are written as users write them

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error


def _of(name: str) -> Any:
    return functools.partial(behaviour, f"python/training/{name}_test.py")


monitored = _of("monitored_session")
managers = _of("session_manager")
supervisors = _of("supervisor")
hooks = _of("basic_session_run_hooks")


# ---- managers


@managers("A manager restores or initializes, and says which it did.")
def recovered_sessions(tf: Any, folder: str) -> Any:
    v = tf.Variable([6.0, 7.0], name="v")
    ready = tf.report_uninitialized_variables()
    manager = tf.train.SessionManager(ready_op=ready)
    saver = tf.train.Saver({"v": v})
    session, is_restored = manager.recover_session("", saver=saver, checkpoint_dir=folder)
    found = [is_restored]
    session.run(v.initializer)
    session.run(v.assign([1.0, 1.0]))
    saver.save(session, os.path.join(folder, "m"))
    session.close()
    session, is_restored = manager.recover_session("", saver=saver, checkpoint_dir=folder)
    found += [is_restored, session.run(v)]
    session.close()
    session = manager.prepare_session("", init_op=v.initializer)
    return [*found, session.run(v), error(lambda: session.run(ready))]


@managers("Init functions and feeds are used; what stays uninitialized is told.")
def prepared_sessions(tf: Any) -> Any:
    x = tf.placeholder(tf.float32)
    v = tf.Variable(x, name="v", validate_shape=False)
    w = tf.Variable(1.0, name="w")
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    init = tf.global_variables_initializer()
    session = manager.prepare_session("", init_op=init, init_feed_dict={x: [5.0]})
    found = [session.run([v, w])]
    session = manager.prepare_session("", init_op=None, init_fn=lambda s: s.run(init, {x: [6.0]}))
    found.append(session.run(v))
    found.append(error(lambda: manager.prepare_session("", init_op=w.initializer), "not ready"))
    found.append(error(lambda: manager.prepare_session(""), "Model is not initialized"))
    return found


@managers("Local variables are initialized once the others are ready.")
def local_init(tf: Any) -> Any:
    v = tf.Variable(1.0, name="v")
    w = tf.Variable(v + 1.0, name="w", collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
    manager = tf.train.SessionManager(
        ready_op=tf.report_uninitialized_variables(),
        ready_for_local_init_op=tf.report_uninitialized_variables(tf.global_variables()),
        local_init_op=w.initializer,
    )
    session = manager.prepare_session("", init_op=v.initializer)
    return [session.run([v, w]), session.run(tf.report_uninitialized_variables())]


@managers("Who waits for another to initialize gives up in time.")
def waiting_sessions(tf: Any) -> Any:
    tf.Variable(1.0, name="v")
    manager = tf.train.SessionManager(
        ready_op=tf.report_uninitialized_variables(), recovery_wait_secs=1
    )
    server = tf.train.Server.create_local_server()
    return error(lambda: manager.wait_for_session(server.target, max_wait_secs=0.1))


# ---- sessions that last


@monitored("A session initializes, finalizes its graph, runs until it should stop, and closes.")
def monitored_sessions(tf: Any, folder: str) -> Any:
    step = tf.train.get_or_create_global_step()
    count = tf.assign_add(step, 1)
    seen = []
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=folder,
        hooks=[tf.train.StopAtStepHook(last_step=3)],
        log_step_count_steps=None,
    ) as session:
        while not session.should_stop():
            seen.append(int(session.run(count)))
        finalized = tf.get_default_graph().finalized
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=folder, log_step_count_steps=None
    ) as again:
        restored = again.run(step)
    return [seen, finalized, restored, error(lambda: session.run(step))]


@monitored("OutOfRangeError and StopIteration end the block silently, others do not.")
def ends_of_sessions(tf: Any) -> Any:
    x = tf.constant(1)
    found = []
    for raised in (
        tf.errors.OutOfRangeError(None, None, "end"),
        StopIteration(),
        RuntimeError("bad"),
        KeyError("bad"),
    ):

        def program() -> Any:
            with tf.train.MonitoredSession() as session:
                session.run(x)
                raise raised
            return session.should_stop()

        found.append(error(program))
    return found


@monitored("Hooks are called in order: begin, session, before and after each run, end.")
def orders_of_hooks(tf: Any) -> Any:
    calls: list[str] = []

    class Hook(tf.train.SessionRunHook):  # type: ignore[name-defined,misc]
        def __init__(self, name: str) -> None:
            self.name = name

        def begin(self) -> None:
            calls.append(f"{self.name} begin")

        def after_create_session(self, session: Any, coord: Any) -> None:
            calls.append(f"{self.name} session")

        def before_run(self, run_context: Any) -> Any:
            calls.append(f"{self.name} before {run_context.original_args.fetches is fetch}")
            return tf.train.SessionRunArgs(extra, {place: 3.0} if self.name == "a" else None)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            calls.append(f"{self.name} after {run_values.results}")
            if self.name == "b":
                run_context.request_stop()

        def end(self, session: Any) -> None:
            calls.append(f"{self.name} end")

    place = tf.placeholder_with_default(2.0, [])
    fetch, extra = place * 1.0, place * 10.0
    with tf.train.MonitoredSession(hooks=[Hook("a"), Hook("b")]) as session:
        found = session.run(fetch)
        stop = session.should_stop()
    return [calls, found, stop]


@monitored("Two hooks may not feed the same, nor may a hook what the caller feeds.")
def conflicting_feeds(tf: Any) -> Any:
    x = tf.placeholder_with_default(1.0, [])

    def hook(feeds: Any) -> Any:
        made = tf.train.SessionRunHook()
        made.before_run = lambda context: tf.train.SessionRunArgs(None, feeds)
        return made

    def run(hooks_given: Any, feeds: Any) -> Any:
        def program() -> Any:
            with tf.train.MonitoredSession(hooks=hooks_given) as session:
                return session.run(x, feeds)

        return error(program)

    return [
        run([hook({x: 1.0}), hook({x: 2.0})], None),
        run([hook({x: 1.0})], {x: 2.0}),
        run([hook({x: 5.0})], None),
    ]


@monitored("An error of a worker that went away makes a new session, up from the checkpoint.")
def recovering_sessions(tf: Any, folder: str) -> Any:
    step = tf.train.get_or_create_global_step()
    count = tf.assign_add(step, 1)
    raised = [
        tf.errors.AbortedError(None, None, "gone"),
        tf.errors.UnavailableError(None, None, "x"),
    ]

    class Failing(tf.train.SessionRunHook):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.created = 0

        def after_create_session(self, session: Any, coord: Any) -> None:
            self.created += 1

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if raised and run_values.results is None and run_context.session.run(step) == 2:
                raise raised.pop()

    failing = Failing()
    scaffold = tf.train.Scaffold()
    saves = tf.train.CheckpointSaverHook(folder, save_steps=1, scaffold=scaffold)
    creator = tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=folder)
    with tf.train.MonitoredSession(creator, hooks=[failing, saves]) as session:
        found = [int(session.run(count)) for _ in range(4)]
    return [found, failing.created]


@monitored("run_step_fn gives a function the bare session, and a way to stop.")
def step_functions(tf: Any) -> Any:
    v = tf.Variable(0, name="v")
    add = v.assign_add(1)

    def step(step_context: Any) -> Any:
        first = step_context.session.run(add)
        second = step_context.run_with_hooks(add)
        if second >= 4:
            step_context.request_stop()
        return [int(first), int(second)]

    found = []
    with tf.train.MonitoredSession() as session:
        while not session.should_stop():
            found.append(session.run_step_fn(step))
            refused = error(lambda: session.run_step_fn(lambda: 1))
            other = error(lambda: session.run_step_fn(lambda x, y: 1))
    return [found, refused, other]


@monitored("A scaffold is filled from the graph's collections, once, and keeps what it was given.")
def scaffolds(tf: Any) -> Any:
    tf.Variable(1, name="v")
    given = tf.constant(5)
    scaffold = tf.train.Scaffold(ready_op=given, init_feed_dict={"a": 1})
    before = scaffold.init_op
    scaffold.finalize()
    found = error(lambda: tf.train.Scaffold().finalize())
    return [
        before,
        found[0],
        scaffold.init_op.name,
        scaffold.ready_op is given,
        scaffold.init_feed_dict,
        scaffold.local_init_op is not None,
        scaffold.summary_op,
        type(scaffold.saver).__name__,
        tf.get_default_graph().finalized,
    ]


@monitored("A session of one graph only: a closed one, or one without a graph's ops, is refused.")
def refused_sessions(tf: Any) -> Any:
    x = tf.constant(1)
    session = tf.train.SingularMonitoredSession()
    found = [session.run(x), type(session.raw_session()).__name__]
    session.close()
    with tf.Graph().as_default():
        other = tf.constant(2)
    with tf.train.MonitoredSession() as one:
        return [*found, error(lambda: one.run(other)), error(lambda: session.run(x))]


# ---- hooks


def _stepping(tf: Any, given: Any, steps: int = 6) -> Any:
    """Return the steps that a monitored session makes with hooks."""
    step = tf.train.get_or_create_global_step()
    count = tf.assign_add(step, 1)
    seen = []
    with tf.train.MonitoredSession(hooks=given) as session:
        while not session.should_stop() and len(seen) < steps:
            seen.append(int(session.run(count)))
    return seen


@hooks("Stopping is by the last step or by their number, not by both.")
def stopping_hooks(tf: Any) -> Any:
    return [
        _stepping(tf, [tf.train.StopAtStepHook(last_step=3)]),
        _stepping(tf, [tf.train.StopAtStepHook(num_steps=2)]),
        error(lambda: tf.train.StopAtStepHook(num_steps=1, last_step=2)),
        error(lambda: tf.train.StopAtStepHook()),
    ]


@hooks("A timer of steps or seconds triggers at once, and then in its distance.")
def timers(tf: Any) -> Any:
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    found = [timer.last_triggered_step(), timer.should_trigger_for_step(1)]
    timer.update_last_triggered_step(1)
    found += [timer.should_trigger_for_step(step) for step in (1, 2, 3, 4)]
    elapsed, steps = timer.update_last_triggered_step(4)
    never = tf.train.SecondOrStepTimer(every_secs=1000.0)
    never.update_last_triggered_step(1)
    return [
        *found,
        steps,
        elapsed is not None and elapsed >= 0,
        timer.last_triggered_step(),
        never.should_trigger_for_step(5),
        error(lambda: tf.train.SecondOrStepTimer(every_secs=1.0, every_steps=1)),
        error(lambda: tf.train.SecondOrStepTimer()),
    ]


@hooks("A NaN loss stops, or raises.")
def nan_hooks(tf: Any) -> Any:
    found = []
    for fails in (True, False):
        with tf.Graph().as_default():
            loss = tf.constant(np.float32("nan"))
            nothing = tf.no_op()

            def program() -> Any:
                hook = tf.train.NanTensorHook(loss, fail_on_nan_loss=fails)
                with tf.train.MonitoredSession(hooks=[hook]) as session:
                    session.run(nothing)
                    return session.should_stop()

            found.append(error(program))
    return found


@hooks("Tensors are logged by names, in steps or seconds, or at the end; not in none or both.")
def logging_hooks(tf: Any) -> Any:
    x = tf.constant(42.0, name="x")
    shown: list[Any] = []
    hook = tf.train.LoggingTensorHook(
        {"X": x.name}, every_n_iter=2, formatter=lambda values: shown.append(dict(values)) or "text"
    )
    seen = _stepping(tf, [hook], 5)
    return [
        seen,
        [{k: float(v) for k, v in values.items()} for values in shown],
        error(lambda: tf.train.LoggingTensorHook([x])),
        error(lambda: tf.train.LoggingTensorHook([x], every_n_iter=1, every_n_secs=1.0)),
        error(lambda: tf.train.LoggingTensorHook([x], every_n_iter=0)),
        error(lambda: tf.train.LoggingTensorHook([x], every_n_iter=-1)),
    ]


@hooks("Checkpoints are written in the beginning, each so many steps, and at the end.")
def checkpoint_hooks(tf: Any, folder: str) -> Any:
    calls: list[Any] = []

    class Listener(tf.train.CheckpointSaverListener):  # type: ignore[name-defined,misc]
        def begin(self) -> None:
            calls.append("begin")

        def before_save(self, session: Any, step: int) -> None:
            calls.append(["before", int(step)])

        def after_save(self, session: Any, step: int) -> Any:
            calls.append(["after", int(step)])
            return step >= 5

        def end(self, session: Any, step: int) -> None:
            calls.append(["end", int(step)])

    tf.train.get_or_create_global_step()
    scaffold = tf.train.Scaffold()
    hook = tf.train.CheckpointSaverHook(
        folder, save_steps=2, scaffold=scaffold, listeners=[Listener()]
    )
    step = tf.train.get_global_step()
    count = tf.assign_add(step, 1)
    creator = tf.train.ChiefSessionCreator(scaffold)
    seen = []
    with tf.train.MonitoredSession(creator, hooks=[hook]) as session:
        while not session.should_stop() and len(seen) < 8:
            seen.append(int(session.run(count)))
    return [
        seen,
        calls,
        os.path.basename(tf.train.latest_checkpoint(folder)),
        error(lambda: tf.train.CheckpointSaverHook(folder, save_secs=1, save_steps=1)),
        error(lambda: tf.train.CheckpointSaverHook(folder)),
    ]


@hooks("Feeds and a final look at tensors come from hooks of their own.")
def feeding_hooks(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [])
    y = x * 2.0
    final = tf.train.FinalOpsHook({"y": y}, final_ops_feed_dict={x: 7.0})
    feed = tf.train.FeedFnHook(lambda: {x: 3.0})
    with tf.train.MonitoredSession(hooks=[feed, final]) as session:
        found = session.run(y)
    return [found, final.final_ops_values]


@hooks("Who waits for a global step goes on once it is there.")
def waiting_hooks(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    hook = tf.train.GlobalStepWaiterHook(wait_until_step=0)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        return session.run(step)


@hooks("Summaries are written each so many steps, with the first.")
def summary_hooks(tf: Any, folder: str) -> Any:
    tf.summary.scalar("one", tf.constant(1.0))
    step = tf.train.get_or_create_global_step()
    hook = tf.train.SummarySaverHook(
        save_steps=2, output_dir=folder, summary_op=tf.summary.merge_all()
    )
    seen = _stepping(tf, [hook], 5)
    (path,) = list(Path(folder).iterdir())
    events = [
        [int(event.step), [value.tag for value in event.summary.value]]
        for event in tf.train.summary_iterator(str(path))
        if event.summary.value
    ]
    return [
        seen,
        events,
        step.name,
        error(lambda: tf.train.SummarySaverHook(save_steps=1, output_dir=folder)),
        error(lambda: tf.train.SummarySaverHook(output_dir=folder, summary_op=tf.constant(b""))),
    ]


@hooks("A hook's steps are only counted where there is a global step.")
def missing_global_steps(tf: Any, folder: str) -> Any:
    nothing = tf.no_op()

    def run(hook: Any) -> Any:
        def program() -> Any:
            with tf.train.MonitoredSession(hooks=[hook]) as session:
                session.run(nothing)

        return error(program)

    return [
        run(tf.train.StopAtStepHook(num_steps=1)),
        run(tf.train.StepCounterHook(output_dir=folder)),
        run(tf.train.CheckpointSaverHook(folder, save_steps=1, saver=object())),
        run(tf.train.GlobalStepWaiterHook(3)),
    ]


# ---- supervisors


@supervisors("A supervisor initializes, restores, and stops at the request of any thread.")
def supervised(tf: Any, folder: str) -> Any:
    v = tf.Variable(3.0, name="v")
    supervisor = tf.train.Supervisor(logdir=folder, save_model_secs=0, save_summaries_secs=0)
    with supervisor.managed_session("") as session:
        found = [session.run(v), supervisor.should_stop(), supervisor.is_chief]
        supervisor.saver.save(session, supervisor.save_path)
        supervisor.request_stop()
        found.append(supervisor.should_stop())
    return [*found, supervisor.save_path, tf.train.latest_checkpoint(folder)]


@supervisors("Errors of the block are raised; the end of the input is not.")
def errors_of_supervisors(tf: Any) -> Any:
    tf.Variable(1.0)
    found = []
    for raised in (RuntimeError("bad"), tf.errors.OutOfRangeError(None, None, "end")):

        def program() -> Any:
            with tf.Graph().as_default():
                tf.Variable(1.0)
                supervisor = tf.train.Supervisor(logdir=None)
                with supervisor.managed_session(""):
                    raise raised
                return "ended"

        found.append(error(program))
    return found


@supervisors("Who is not chief has no init op, and managers of the chief's are refused.")
def other_supervisors(tf: Any) -> Any:
    tf.Variable(1.0)
    chief = tf.train.Supervisor(logdir=None)
    with tf.Graph().as_default(), tf.device("/job:worker"):
        tf.Variable(1.0)
        other = tf.train.Supervisor(is_chief=False, logdir=None)
    return [
        chief.init_op is None,
        other.is_chief,
        other.global_step,
        chief.ready_op is None,
        chief.summary_op,
        error(lambda: other.summary_computed(None, None)),
    ]
