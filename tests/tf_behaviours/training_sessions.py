"""Sessions that last, their hooks and managers, threads, inputs, device setters and servers."""

# ruff: noqa: B023 - programs are written as users write them

from __future__ import annotations

import functools
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error


def _of(name: str) -> Any:
    return functools.partial(behaviour, f"python/training/{name}_test.py")


servers = _of("server_lib")
setters = _of("device_setter")
monitored = _of("monitored_session")
managers = _of("session_manager")
supervisors = _of("supervisor")
runners = _of("queue_runner")
coordinators = _of("coordinator")
inputs = _of("input")
hooks = _of("basic_session_run_hooks")
syncs = _of("sync_replicas_optimizer")
loops = _of("basic_loops")


def _cluster(tf: Any, **jobs: int) -> Any:
    return {job: [f"{job}{i}:2222" for i in range(count)] for job, count in jobs.items()}


# ---- servers and clusters


@servers("A local server runs steps for sessions, which see each other's variables.")
def local_servers(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    v = tf.Variable([1.0, 2.0], name="shared")
    with tf.Session(server.target) as one:
        one.run(v.initializer)
        one.run(v.assign_add([1.0, 1.0]))
        with tf.Session(server.target) as two:
            found = two.run(v)
    return [
        found,
        server.server_def.job_name,
        server.server_def.task_index,
        server.server_def.protocol,
        server.target.startswith("grpc://localhost:"),
    ]


@servers("A session's variables may live in a container of its own.")
def containers(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    with tf.container("mine"):
        v = tf.Variable(1.0, name="v")
    first = tf.Session(server.target)
    first.run(v.initializer)
    tf.Session.reset(server.target, ["mine"])
    with tf.Session(server.target) as session:
        found = error(lambda: session.run(v))
        session.run(v.initializer)
        return [found, session.run(v)]


@servers("What a step gives is gone after it; an error leaves the session usable.")
def errors_of_steps(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    x = tf.placeholder(tf.float32)
    y = tf.check_numerics(x, "bad")
    with tf.Session(server.target) as session:
        return [
            error(lambda: session.run(y, {x: np.nan}), "bad"),
            session.run(y, {x: 1.0}),
            error(lambda: session.run(y), "must feed a value for placeholder"),
        ]


@servers("A cluster is made of a dict, a message or another cluster, and tells its tasks.")
def cluster_specs(tf: Any) -> Any:
    spec = tf.train.ClusterSpec({"worker": ["w0:1", "w1:1"], "ps": {3: "p3:1", 1: "p1:1"}})
    again = tf.train.ClusterSpec(spec.as_cluster_def())
    return [
        spec.jobs,
        spec.num_tasks("ps"),
        spec.task_indices("ps"),
        spec.task_address("ps", 3),
        spec.job_tasks("ps"),
        spec.as_dict(),
        again == spec,
        bool(tf.train.ClusterSpec({})),
        spec != tf.train.ClusterSpec({"worker": ["w0:1"]}),
        tf.train.ClusterSpec(spec).as_dict() == spec.as_dict(),
    ]


@servers("Jobs and tasks that are not there, and what is no cluster, are refused.")
def refused_clusters(tf: Any) -> Any:
    spec = tf.train.ClusterSpec({"worker": ["w0:1"]})
    return [
        error(lambda: spec.num_tasks("ps")),
        error(lambda: spec.task_indices("ps")),
        error(lambda: spec.task_address("worker", 1)),
        error(lambda: spec.task_address("ps", 0)),
        error(lambda: spec.job_tasks("ps")),
        error(lambda: tf.train.ClusterSpec(3)),
        error(lambda: tf.train.ClusterSpec({"a": 3})),
        error(lambda: tf.train.ClusterSpec({"a": [3]})),
        error(lambda: tf.train.ClusterSpec({"a": {"x": "h:1"}})),
    ]


@servers("A server needs to know which task it is.")
def refused_servers(tf: Any) -> Any:
    both = {"a": ["localhost:0"], "b": ["localhost:0"]}
    return [
        error(lambda: tf.train.Server(both)),
        error(lambda: tf.train.Server({"a": ["localhost:0", "localhost:0"]}, job_name="a")),
        error(lambda: tf.train.Server({"a": ["localhost:0"]}, job_name="c", task_index=0)),
        error(lambda: tf.train.Server(3)),
    ]


# ---- device setters


@setters("Variables go to the parameter servers in turn, all else to the worker.")
def in_turn(tf: Any) -> Any:
    with tf.device(tf.train.replica_device_setter(cluster=_cluster(tf, ps=2, worker=3))):
        v = tf.Variable([1, 2])
        w = tf.Variable([2, 1])
        x = tf.Variable([3])
        a = v + w
    return [v.device, v.initializer.device, w.device, x.device, a.device]


@setters("The job of the servers, their number and the worker's device may be said.")
def said_jobs(tf: Any) -> Any:
    found = []
    for arguments in (
        {"ps_tasks": 2, "ps_device": "/job:sun"},
        {"ps_tasks": 1, "worker_device": "/job:w/cpu:0", "ps_device": "/job:p/cpu:0"},
        {"cluster": tf.train.ClusterSpec(_cluster(tf, sun=3, moon=1)), "ps_device": "/job:sun"},
        {"ps_tasks": 2, "merge_devices": False},
    ):
        with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(**arguments)):
            v, w = tf.Variable([1]), tf.Variable([2])
            found.append([v.device, w.device, (v + w).device])
    return found


@setters("Without parameter servers nothing is set; a strategy and op types may be given.")
def own_strategies(tf: Any) -> Any:
    setter = tf.train.replica_device_setter(ps_tasks=2, ps_ops=["Const"], ps_strategy=lambda op: 1)
    with tf.device(setter):
        c, v = tf.constant(1.0), tf.Variable(2.0)
    return [
        c.device,
        v.device,
        tf.train.replica_device_setter(ps_tasks=0),
        error(lambda: tf.train.replica_device_setter(cluster=3)),
        error(lambda: tf.train.replica_device_setter(ps_tasks=1, ps_strategy=3)),
    ]


@setters("The device in force is merged with that of the setter.")
def merged_devices(tf: Any) -> Any:
    with tf.device(tf.train.replica_device_setter(cluster=_cluster(tf, ps=2, worker=1))):
        with tf.device("/gpu:0"):
            v = tf.Variable([1, 2])
            a = v + v
        with tf.device("/job:other/task:3"):
            w = tf.Variable([2])
    return [v.device, a.device, w.device]


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


# ---- threads


@runners("A runner's threads put until the input ends, and then close the queue.")
def run_to_the_end(tf: Any) -> Any:
    count = tf.Variable(0)
    queue = tf.FIFOQueue(10, tf.float32)
    up = count.count_up_to(3)
    runner = tf.train.QueueRunner(queue, [up])
    with tf.Session() as session:
        session.run(count.initializer)
        threads = runner.create_threads(session)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [
            session.run(count),
            runner.exceptions_raised,
            error(lambda: session.run(queue.dequeue()), "is closed"),
            sorted(t.daemon for t in threads),
        ]


@runners("Other errors of threads are kept, or told to the coordinator.")
def errors_of_runners(tf: Any) -> Any:
    x = tf.placeholder(tf.float32)
    queue = tf.FIFOQueue(10, tf.float32)
    bad = tf.check_numerics(np.float32("nan"), "bad")
    with tf.Session() as session:
        runner = tf.train.QueueRunner(queue, [bad])
        for thread in runner.create_threads(session, start=True):
            thread.join()
        found = [[type(e).__name__ for e in runner.exceptions_raised]]
        coordinator = tf.train.Coordinator()
        runner = tf.train.QueueRunner(queue, [bad])
        threads = runner.create_threads(session, coord=coordinator, start=True)
        found.append(error(lambda: coordinator.join(threads), "bad"))
        found.append(error(lambda: tf.train.QueueRunner(queue, [])))
        found.append(error(lambda: tf.train.QueueRunner(None, [bad])))
        return [*found, x.op.type]


@runners("All runners of a graph are started, and none outside of a session.")
def started_runners(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, tf.float32, shapes=[[]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue((2.0,))] * 2)
    tf.train.add_queue_runner(runner)
    tf.train.add_queue_runner(runner, collection="other")
    found = [error(lambda: tf.train.start_queue_runners()), runner.name == queue.name]
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        found += [len(threads), session.run(queue.dequeue())]
        coordinator.request_stop()
        coordinator.join(threads)
        found.append(len(tf.train.start_queue_runners(session, start=False, collection="none")))
    made = tf.train.QueueRunner.from_proto(runner.to_proto())
    return [*found, len(made.enqueue_ops), made.queue.name == queue.name]


@coordinators("A coordinator stops once, raises what a thread raised, and may be cleared.")
def coordinated(tf: Any) -> Any:
    coordinator = tf.train.Coordinator()
    found = [coordinator.should_stop(), coordinator.wait_for_stop(0.0)]

    def work() -> None:
        with coordinator.stop_on_exception():
            raise RuntimeError("First")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    found += [coordinator.should_stop(), error(lambda: coordinator.join([thread]), "First")]
    coordinator.clear_stop()
    found += [coordinator.should_stop(), coordinator.joined]
    coordinator.request_stop()
    coordinator.request_stop()
    return [*found, coordinator.join([]), coordinator.should_stop()]


@coordinators("The end of an input is no error; what joins late is told, and threads register.")
def quiet_coordinators(tf: Any) -> Any:
    coordinator = tf.train.Coordinator()
    coordinator.request_stop(tf.errors.OutOfRangeError(None, None, "end"))
    found = [coordinator.join([]), coordinator.joined]
    own = tf.train.Coordinator(clean_stop_exception_types=(ValueError,))
    own.request_stop(ValueError("fine"))
    found.append(own.join([]))
    late = tf.train.Coordinator()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, daemon=True)
    late.register_thread(thread)
    thread.start()
    late.request_stop()
    found.append(error(lambda: late.join(stop_grace_period_secs=0.05)))
    found.append(late.join(stop_grace_period_secs=0.05, ignore_live_threads=True))
    stop.set()
    thread.join()
    return found


@coordinators("A thread that loops calls its target until it is asked to stop.")
def looping_threads(tf: Any) -> Any:
    coordinator = tf.train.Coordinator()
    calls: list[int] = []

    def work(most: int, step: int = 1) -> None:
        calls.append(step)
        if len(calls) >= most:
            coordinator.request_stop()

    thread = tf.train.LooperThread.loop(coordinator, None, work, (3,), {"step": 2})
    coordinator.join([thread])
    broken = tf.train.Coordinator()

    def fail() -> None:
        raise ValueError("broken")

    failing = tf.train.LooperThread.loop(broken, None, fail)
    return [
        calls,
        error(lambda: broken.join([failing]), "broken"),
        error(lambda: tf.train.LooperThread("x", 1)),
    ]


# ---- inputs


def _drained(tf: Any, fetches: Any, most: int = 50) -> Any:
    """Return what a pipeline gives until it ends."""
    found = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while len(found) < most:
                found.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            found.append("end")
        finally:
            coordinator.request_stop()
            coordinator.join(threads)
    return found


@inputs("Names, numbers and slices come as often as epochs say, in order unless shuffled.")
def producers(tf: Any) -> Any:
    return [
        _drained(tf, tf.train.string_input_producer(["a", "b"], 2, shuffle=False).dequeue()),
        _drained(tf, tf.train.range_input_producer(3, 1, shuffle=False).dequeue()),
        _drained(
            tf, tf.train.slice_input_producer([[1, 2], ["x", "y"]], num_epochs=1, shuffle=False)
        ),
        _drained(tf, tf.train.input_producer([[1], [2]], [1], 1, shuffle=False).dequeue_many(2)),
        sorted(
            x.decode()
            for x in _drained(
                tf, tf.train.string_input_producer(["a", "b", "c"], 1, seed=1).dequeue()
            )[:-1]
        ),
    ]


@inputs("An empty list and what has no rows are refused; epochs end.")
def refused_producers(tf: Any) -> Any:
    x = tf.placeholder(tf.string)
    empty = tf.train.string_input_producer(x).dequeue()

    def run() -> Any:
        with tf.Session() as session:
            coordinator = tf.train.Coordinator()
            session.run(tf.no_op())
            threads = tf.train.start_queue_runners(session, coordinator)
            coordinator.join(threads)

    return [
        error(lambda: tf.train.string_input_producer([])),
        error(lambda: tf.train.slice_input_producer([])),
        error(lambda: tf.train.input_producer(tf.constant(1))),
        error(lambda: tf.train.limit_epochs(tf.constant(1), num_epochs=0)),
        empty.dtype.name,
    ]


@inputs("Epochs are counted by a local variable, which ends what it limits.")
def limited_epochs(tf: Any) -> Any:
    limited = tf.train.limit_epochs(tf.constant("seven"), num_epochs=2)
    unlimited = tf.train.limit_epochs(tf.constant(7))
    names = [v.name for v in tf.local_variables()]
    return [_drained(tf, limited), unlimited.op.type, names]


@inputs("Batches are of equal size, but for the last where that is allowed.")
def batches(tf: Any) -> Any:
    def run(**options: Any) -> Any:
        with tf.Graph().as_default():
            rows = tf.train.range_input_producer(5, 1, shuffle=False).dequeue()
            batch = tf.train.batch([rows, tf.as_string(rows)], 2, **options)
            return [_drained(tf, batch), [x.shape.as_list() for x in batch]]

    return [run(), run(allow_smaller_final_batch=True), run(num_threads=1, capacity=3)]


@inputs("Batches of dicts, of many rows at once, of padded rows, and of some rows only.")
def kinds_of_batches(tf: Any) -> Any:
    found = []
    for make in (
        lambda x: tf.train.batch({"a": x, "b": [x, x]}, 2),
        lambda x: tf.train.batch([tf.stack([x, x + 10])], 2, enqueue_many=True),
        lambda x: tf.train.batch([tf.range(x)], 2, dynamic_pad=True),
        lambda x: tf.train.maybe_batch([x], tf.equal(x % 2, 0), 1),
        lambda x: tf.train.batch_join([[x]], 2),
        lambda x: (
            tf.train.batch([tf.sparse.from_dense([x, 0, x])], 2)[0].values
            if False
            else tf.train.batch([x], 4, allow_smaller_final_batch=True)
        ),
    ):
        with tf.Graph().as_default():
            rows = tf.train.range_input_producer(4, 1, shuffle=False).dequeue()
            found.append(_drained(tf, make(rows)))
    return found


@inputs("Shuffled batches have all rows once; a seed repeats their order.")
def shuffled_batches(tf: Any) -> Any:
    def run(seed: int) -> list[int]:
        with tf.Graph().as_default():
            rows = tf.train.range_input_producer(8, 1, shuffle=False).dequeue()
            batch = tf.train.shuffle_batch([rows], 2, 8, 4, seed=seed)
            return [int(x) for part in _drained(tf, batch)[:-1] for x in part]

    def bad() -> Any:
        return tf.train.shuffle_batch([tf.constant(1)], 0, 8, 4)

    return [sorted(run(1)), len(run(2)), error(bad)[0] == "nothing was raised"]


@inputs("A batch of tensors of unknown rank, or of none, is refused.")
def refused_batches(tf: Any) -> Any:
    unknown = tf.placeholder(tf.int32)
    return [
        error(lambda: tf.train.batch([unknown], 2)),
        error(lambda: tf.train.batch([], 2)),
        error(lambda: tf.train.batch_join([[unknown]], 2)),
        error(lambda: tf.train.batch_join([], 2)),
        error(lambda: tf.train.batch([tf.constant(1)], 2, shapes=[[1]])),
    ]


@inputs("Files are matched once, as a variable.")
def matched_files(tf: Any, folder: str) -> Any:
    for name in ("a1", "a2", "b"):
        Path(folder, name).touch()
    found = tf.train.match_filenames_once(os.path.join(folder, "a*"))
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        first = sorted(os.path.basename(x).decode() for x in session.run(found))
        Path(folder, "a3").touch()
        return [first, len(session.run(found)), found.dtype.name]


# ---- replicas in step


@syncs("The chief has a runner that applies what replicas gave, once they have given it.")
def replicas_in_step(tf: Any) -> Any:
    step = tf.train.get_or_create_global_step()
    v = tf.Variable([1.0, 2.0], name="v", use_resource=False)
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(1.0), replicas_to_aggregate=1, total_num_replicas=1
    )
    unready = error(optimizer.get_chief_queue_runner)
    train = optimizer.apply_gradients([(tf.constant([0.5, 0.5]), v)], global_step=step)
    return [
        unready,
        train.op.name,
        len(optimizer.get_chief_queue_runner().enqueue_ops),
        optimizer.get_slot_names(),
        type(optimizer.chief_init_op).__name__,
        error(lambda: optimizer.apply_gradients([(tf.constant([0.5, 0.5]), v)])),
        error(lambda: optimizer.apply_gradients([])),
    ]


@syncs("Slots and gradients are those of the optimizer within.")
def wrapped_optimizers(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0], name="v")
    inner = tf.train.AdamOptimizer(1.0)
    optimizer = tf.train.SyncReplicasOptimizer(inner, 2, 3)
    pairs = optimizer.compute_gradients(tf.reduce_sum(v * v))
    optimizer.apply_gradients(pairs, global_step=tf.train.get_or_create_global_step())
    return [
        len(pairs),
        optimizer.get_slot_names(),
        optimizer.get_slot(v, "m").name,
        error(lambda: optimizer.get_init_tokens_op(0)),
        optimizer.get_init_tokens_op().type,
        [x.name for x in optimizer.variables()],
    ]


@loops("A loop calls a function with the session until it raises, or the supervisor stops.")
def basic_loops(tf: Any) -> Any:
    tf.Variable(1.0)
    calls: list[Any] = []

    def train(session: Any, a: int, b: int = 0) -> None:
        calls.append([a, b])
        if len(calls) == 3:
            supervisor.request_stop()

    supervisor = tf.train.Supervisor(logdir=None)
    tf.train.basic_train_loop(supervisor, train, args=(1,), kwargs={"b": 2})
    return calls
