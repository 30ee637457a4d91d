"""Programs that record what the training lifecycle does, for any library of TensorFlow's v1 API.

    python lifecycle_programs.py tideflow.v1

prints a JSON object: the record of each program by its name.  Only what both libraries must agree
on is recorded: the order of calls, values, error classes, names.
"""

from __future__ import annotations

import glob
import importlib
import json
import os
import sys
import tempfile
import threading

import numpy as np

tf = importlib.import_module(sys.argv[1] if __name__ == "__main__" else "tideflow.v1")
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


# ---- the order of calls


@program
def order_of_calls():
    op, _ = counter()
    log = []
    hooks = [Recorder("a", log), Recorder("b", log)]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        values = [int(session.run(op)) for _ in range(2)]
        log.append("body ends")
    return log, values


@program
def order_of_calls_singular():
    op, _ = counter()
    log = []
    with tf.train.SingularMonitoredSession(hooks=[Recorder("a", log)]) as session:
        session.run(op)
        raw = session.raw_session()
        log.append(isinstance(raw, tf.Session))
    calls = list(log)
    return (
        calls,
        error_of(session.run, op) is not None,
        session.should_stop(),
        error_of(session.close),
    )


@program
def an_error_in_the_body_skips_end():
    op, _ = counter()
    log = []

    def body():
        with tf.train.MonitoredSession(hooks=[Recorder("a", log)]) as session:
            session.run(op)
            raise KeyError("mine")

    return error_of(body), log


@program
def the_end_of_the_input_is_silent():
    op, _ = counter()
    limited = tf.Variable(0, name="limited").count_up_to(2)
    log = []
    with tf.train.MonitoredSession(hooks=[Recorder("a", log)]) as session:
        while not session.should_stop():
            log.append(int(session.run([limited, op])[0]))
    log.append("after")
    return log


@program
def a_hook_that_is_aborted_makes_a_new_session():
    op, _ = counter()
    log, seen = [], []

    def once(context, values):
        if len(seen) == 1:
            seen.append("raised")
            raise tf.errors.AbortedError(None, None, "lost")
        seen.append("ok")

    directory = tempfile.mkdtemp()
    hooks = [
        tf.train.CheckpointSaverHook(directory, save_steps=1, scaffold=None),
        Recorder("a", log, after_run=once),
    ]
    scaffold = tf.train.Scaffold()
    hooks[0] = tf.train.CheckpointSaverHook(directory, save_steps=1, scaffold=scaffold)
    creator = tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=directory)
    with tf.train.MonitoredSession(creator, hooks) as session:
        values = [int(session.run(op)) for _ in range(3)]
    return log, values


@program
def a_hook_that_is_aborted_in_a_singular_session():
    op, _ = counter()
    log = []

    def fail(context):
        raise tf.errors.AbortedError(None, None, "lost")

    def body():
        with tf.train.SingularMonitoredSession([Recorder("a", log, before_run=fail)]) as session:
            session.run(op)

    return error_of(body), log


@program
def a_hook_that_fails_in_after_create_session_with_unavailable():
    op, _ = counter()
    log, times = [], []

    def fail_once(session, coord):
        times.append(1)
        if len(times) == 1:
            raise tf.errors.UnavailableError(None, None, "away")

    with tf.train.MonitoredSession(hooks=[Recorder("a", log, after_create_session=fail_once)]) as s:
        log.append(int(s.run(op)))
    return log


@program
def stop_requests():
    op, _ = counter()
    log = []
    stop = Recorder("a", log, after_run=lambda context, values: context.request_stop())
    with tf.train.MonitoredSession(hooks=[stop]) as session:
        log.append(session.should_stop())
        session.run(op)
        log.append(session.should_stop())
        log.append(error_of(session.run, op))
    return log


@program
def a_coordinated_thread_stops_or_fails_the_session():
    counter()
    found = []

    def stop(session, coord):
        coord.request_stop()

    with tf.train.MonitoredSession(hooks=[Recorder("a", [], after_create_session=stop)]) as s:
        found.append(s.should_stop())

    def body(kind):
        def fail(session, coord):
            def thread():
                with coord.stop_on_exception():
                    raise kind("in a thread")

            made = threading.Thread(target=thread)
            coord.register_thread(made)
            made.start()
            made.join()

        with tf.train.MonitoredSession(hooks=[Recorder("a", [], after_create_session=fail)]) as s:
            found.append(s.should_stop())

    found.append(error_of(body, ValueError))
    return found


# ---- what hooks and users ask for


@program
def results_and_feeds():
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.placeholder_with_default(1.0, [], name="y")
    total = x + y
    log = []

    def ask(context):
        log.append(sorted(context.original_args._fields))
        log.append(context.original_args.feed_dict == {x: 2.0})
        return tf.train.SessionRunArgs({"total": total, "pair": [x, y]}, feed_dict={y: 10.0})

    def look(context, values):
        log.append(float(values.results["total"]))
        log.append([float(v) for v in values.results["pair"]])

    hook = Recorder("a", [], before_run=ask, after_run=look)
    silent = Recorder("b", [], after_run=lambda context, values: log.append(values.results))
    with tf.train.MonitoredSession(hooks=[hook, silent]) as session:
        log.append(float(session.run(total, feed_dict={x: 2.0})))
        log.append([float(v) for v in session.run({"k": [x, total]}, {x: 2.0})["k"]])
    return log


@program
def a_tensor_may_be_fed_once():
    x = tf.placeholder(tf.float32, [], name="x")
    feed = tf.train.SessionRunArgs(None, feed_dict={x: 1.0})
    one = Recorder("a", [], before_run=lambda context: feed)
    two = Recorder("b", [], before_run=lambda context: feed)
    found = []
    with tf.train.MonitoredSession(hooks=[one, two]) as session:
        found.append(error_of(session.run, x))
    with tf.train.MonitoredSession(hooks=[one]) as session:
        found.append(error_of(session.run, x, {x: 2.0}))
        found.append(float(session.run(x)))
    return found


@program
def run_options_are_merged():
    op, _ = counter()
    log = []

    def ask(level, timeout_ms):
        options = tf.RunOptions(trace_level=level, timeout_in_ms=timeout_ms)
        return lambda context: tf.train.SessionRunArgs(None, options=options)

    def look(context, values):
        log.append([values.options.trace_level, values.options.timeout_in_ms])
        log.append(len(values.run_metadata.step_stats.dev_stats) > 0)

    hooks = [
        Recorder("a", [], before_run=ask(0, 60_000)),
        Recorder("b", [], before_run=ask(3, 30_000), after_run=look),
    ]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        session.run(op)
        session.run(op, options=tf.RunOptions(timeout_in_ms=90_000))
    return log


@program
def step_functions():
    op, _ = counter()
    log, calls = [], []

    def step_fn(step_context):
        calls.append(type(step_context.session).__name__)
        return int(step_context.run_with_hooks(op)) + int(step_context.session.run(op)) * 100

    def stop_fn(step_context):
        step_context.request_stop()

    class Owner:
        def method(self, step_context):
            return int(step_context.run_with_hooks(op))

    with tf.train.MonitoredSession(hooks=[Recorder("a", log)]) as session:
        log.append(session.run_step_fn(step_fn))
        log.append(session.run_step_fn(Owner().method))
        log.append(error_of(session.run_step_fn, lambda: 1))
        log.append(error_of(session.run_step_fn, lambda other: 1))
        session.run_step_fn(stop_fn)
        log.append("not reached")
    log.append("after")
    return log, calls


# ---- hooks


@program
def stop_at_step():
    op, _ = counter()
    found = []
    for arguments in ({"num_steps": 3}, {"last_step": 2}, {"num_steps": 1}):
        with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(**arguments)]) as session:
            steps = 0
            while not session.should_stop():
                session.run(op)
                steps += 1
        found.append(steps)
    return found


@program
def constructors_refuse():
    train = tf.train
    _, step = counter()
    calls = {
        "stop none": lambda: train.StopAtStepHook(),
        "stop both": lambda: train.StopAtStepHook(num_steps=1, last_step=2),
        "timer none": lambda: train.SecondOrStepTimer(),
        "timer both": lambda: train.SecondOrStepTimer(every_secs=1, every_steps=2),
        "log none": lambda: train.LoggingTensorHook([step]),
        "log both": lambda: train.LoggingTensorHook([step], every_n_iter=1, every_n_secs=2),
        "log zero": lambda: train.LoggingTensorHook([step], every_n_iter=0),
        "log end": lambda: train.LoggingTensorHook([step], at_end=True),
        "saver both": lambda: train.CheckpointSaverHook(
            tempfile.mkdtemp(), save_secs=1, saver=1, scaffold=train.Scaffold()
        ),
        "saver no interval": lambda: train.CheckpointSaverHook(tempfile.mkdtemp()),
        "summary none": lambda: train.SummarySaverHook(save_steps=1),
        "summary both": lambda: train.SummarySaverHook(
            save_steps=1, scaffold=train.Scaffold(), summary_op=1
        ),
        "summary no interval": lambda: train.SummarySaverHook(summary_op=1),
        "counter both": lambda: train.StepCounterHook(every_n_steps=1, every_n_secs=1),
        "counter none": lambda: train.StepCounterHook(every_n_steps=None),
        "scaffold": lambda: train.Scaffold(copy_from_scaffold=1),
        "looper": lambda: train.LooperThread(None, 1),
        "looper args": lambda: train.LooperThread(train.Coordinator(), 1, args=(1,)),
        "manager": lambda: train.SessionManager(ready_for_local_init_op=step),
    }
    return {name: error_of(call) for name, call in calls.items()}


@program
def hooks_need_a_global_step():
    found = {}
    directory = tempfile.mkdtemp()
    for hook in (
        tf.train.StopAtStepHook(num_steps=1),
        tf.train.CheckpointSaverHook(directory, save_steps=1, scaffold=tf.train.Scaffold()),
        tf.train.SummarySaverHook(save_steps=1, summary_op=1),
        tf.train.StepCounterHook(),
        tf.train.GlobalStepWaiterHook(1),
        tf.train.ProfilerHook(save_steps=1, output_dir=directory),
    ):
        found[type(hook).__name__] = error_of(hook.begin)
    return found


@program
def logged_values():
    op, step = counter()
    seen = tf.identity(step, name="seen")
    log = []

    def formatter(values):
        log.append({str(key): int(value) for key, value in values.items()})
        return "formatted"

    hooks = [
        tf.train.LoggingTensorHook({"b": seen, "a": "seen"}, 2, formatter=formatter),
        tf.train.LoggingTensorHook([seen.name], at_end=True, formatter=formatter),
    ]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        for _ in range(5):
            session.run(op)
    return [sorted(entry) for entry in log], log[-1]


@program
def not_a_number():
    op, _ = counter()
    bad = tf.placeholder(tf.float32, [], name="loss")
    found = []

    def body(fail):
        with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(bad, fail)]) as session:
            session.run(op, {bad: 1.0})
            found.append(session.should_stop())
            session.run(op, {bad: float("nan")})
            found.append(session.should_stop())

    found.append(error_of(body, True))
    found.append(error_of(body, False))
    return found, str(tf.train.NanLossDuringTrainingError())


@program
def final_and_feeding_hooks():
    op, step = counter()
    x = tf.placeholder(tf.float32, [], name="x")
    fed = iter([1.0, 2.0, 3.0])
    final = tf.train.FinalOpsHook({"step": step, "x": 2 * x}, {x: 4.0})
    hooks = [tf.train.FeedFnHook(lambda: {x: next(fed)}), final]
    values = []
    with tf.train.MonitoredSession(hooks=hooks) as session:
        values.append(final.final_ops_values)
        for _ in range(2):
            values.append(float(session.run([x, op])[0]))
    found = final.final_ops_values
    return values, int(found["step"]), float(found["x"])


@program
def timers():
    timer = tf.train.SecondOrStepTimer(every_steps=3)
    found = []
    for step in range(8):
        is_time = timer.should_trigger_for_step(step)
        elapsed = timer.update_last_triggered_step(step)[1] if is_time else None
        found.append([is_time, elapsed, timer.last_triggered_step()])
    timer.reset()
    found.append(timer.should_trigger_for_step(7))
    return found


@program
def checkpoints():
    op, _ = counter()
    directory = tempfile.mkdtemp()
    log = []
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=directory, save_checkpoint_steps=3, log_step_count_steps=None
    ) as session:
        for _ in range(7):
            session.run(op)
    scaffold = tf.train.Scaffold()
    saver_hook = tf.train.CheckpointSaverHook(
        directory, save_steps=2, scaffold=scaffold, listeners=[Listener(log, stop_at=10)]
    )
    creator = tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=directory)
    with tf.train.MonitoredSession(creator, [saver_hook]) as session:
        while not session.should_stop():
            log.append(int(session.run(op)))
    files = sorted(os.path.basename(f) for f in glob.glob(directory + "/*"))
    # A checkpoint of the same name as one before may have its data elsewhere.
    files = [name for name in files if "tfevents" not in name and ".data-" not in name]
    state = tf.train.get_checkpoint_state(directory)
    kept = [os.path.basename(path) for path in state.all_model_checkpoint_paths]
    return log, files, kept


@program
def events():
    op, step = counter()
    tf.summary.scalar("step", step)
    directory = tempfile.mkdtemp()
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=directory,
        save_checkpoint_steps=4,
        save_summaries_steps=2,
        log_step_count_steps=3,
    ) as session:
        for _ in range(7):
            session.run(op)
    return event_kinds(directory)


@program
def profiles():
    op, _ = counter()
    directory = tempfile.mkdtemp()
    hook = tf.train.ProfilerHook(save_steps=2, output_dir=directory)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(6):
            session.run(op)
    names = sorted(os.path.basename(f) for f in glob.glob(directory + "/timeline*"))
    with open(os.path.join(directory, names[0])) as file:
        trace = json.load(file)
    return names, "traceEvents" in trace, {"X", "M"} <= {e["ph"] for e in trace["traceEvents"]}


# ---- scaffolds and sessions


def names_of(scaffold):
    return {
        "init_op": scaffold.init_op.name,
        "ready_op": scaffold.ready_op.name,
        "ready_for_local_init_op": scaffold.ready_for_local_init_op.name,
        "local_init_op": scaffold.local_init_op.name,
        "summary_op": scaffold.summary_op.name,
        "filename": scaffold.saver.saver_def.filename_tensor_name,
        "save": scaffold.saver.saver_def.save_tensor_name,
        "restore": scaffold.saver.saver_def.restore_op_name,
    }


@program
def names_of_a_scaffold():
    counter()
    tf.get_variable("v", [2])
    tf.get_variable("local", [2], collections=[tf.GraphKeys.LOCAL_VARIABLES])
    tf.summary.scalar("s", tf.constant(1.0))
    scaffold = tf.train.Scaffold().finalize()
    keys = ["init_op", "ready_op", "ready_for_local_init_op", "local_init_op", "summary_op"]
    graph = tf.get_default_graph()
    sizes = [len(graph.get_collection(key)) for key in [*keys, "savers"]]
    return names_of(scaffold), sizes, graph.finalized


@program
def names_of_hooks():
    counter()
    with tf.train.MonitoredSession(hooks=[tf.train.StopAtStepHook(num_steps=1)]) as session:
        read = session.graph.get_collection("global_step_read_op_cache")
        found = [tensor.name for tensor in read]
    return found, tf.get_default_graph().finalized


@program
def values_of_ready_ops():
    _, step = counter()
    v = tf.get_variable("v", [2])
    scaffold = tf.train.Scaffold().finalize()
    found = []
    with tf.Session() as session:
        for op in (None, step.initializer, v.initializer):
            if op is not None:
                session.run(op)
            missing = session.run(scaffold.ready_op)
            found.append([name.decode() for name in missing])
    return found


@program
def scaffolds_use_collections():
    counter()
    graph = tf.get_default_graph()
    mine = tf.no_op(name="mine")
    graph.add_to_collection(tf.GraphKeys.INIT_OP, mine)
    scaffold = tf.train.Scaffold()
    found = [scaffold.init_op is None]
    scaffold.finalize()
    found.append(scaffold.init_op is mine)
    copied = tf.train.Scaffold(summary_op="given", copy_from_scaffold=scaffold)
    found.append([copied.init_op is mine, copied.summary_op])
    graph._unsafe_unfinalize()
    graph.add_to_collection(tf.GraphKeys.INIT_OP, tf.no_op())
    found.append(error_of(tf.train.Scaffold().finalize))
    default = tf.train.Scaffold.get_or_default("x", "none yet", lambda: "made")
    found.append([default, graph.get_collection("none yet")])
    return found


@program
def init_functions():
    counter()
    v = tf.get_variable("v", initializer=1.0)
    x = tf.placeholder(tf.float32, [])
    set_v = v.assign(x)
    log = []

    def init_fn(scaffold, session):
        log.append(isinstance(scaffold, tf.train.Scaffold))
        session.run(set_v, {x: 5.0})

    with tf.train.MonitoredSession(
        tf.train.ChiefSessionCreator(tf.train.Scaffold(init_fn=init_fn))
    ) as session:
        log.append(float(session.run(v)))
    w = tf.get_variable("w", initializer=lambda: 3.0 * tf.identity(x))
    scaffold = tf.train.Scaffold(init_op=tf.global_variables_initializer(), init_feed_dict={x: 2.0})
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold)) as session:
        log.append(float(session.run(w)))
    nothing = tf.train.Scaffold(init_op=tf.no_op())
    log.append(error_of(tf.train.MonitoredSession, tf.train.ChiefSessionCreator(nothing)))
    return log


@program
def session_managers():
    v = tf.get_variable("v", initializer=1.0)
    init = tf.global_variables_initializer()
    ready = tf.report_uninitialized_variables()
    manager = tf.train.SessionManager(ready_op=ready, recovery_wait_secs=1)
    found = [error_of(manager.prepare_session, ""), error_of(manager.wait_for_session, "", None, 0)]
    with manager.prepare_session("", init_op=init) as session:
        found.append(float(session.run(v)))
    directory = tempfile.mkdtemp()
    saver = tf.train.Saver()
    with manager.prepare_session("", init_op=init) as session:
        session.run(v.assign(4.0))
        saver.save(session, os.path.join(directory, "m"), global_step=3)
    with manager.prepare_session("", init, saver, directory) as session:
        found.append(float(session.run(v)))
    session, is_recovered = manager.recover_session("", saver, directory)
    found.append([is_recovered, float(session.run(v))])
    session.close()
    session, is_recovered = manager.recover_session("", saver, tempfile.mkdtemp())
    session.close()
    found.append(is_recovered)
    both = {"checkpoint_dir": "a", "checkpoint_filename_with_path": "b"}
    found.append(error_of(manager.prepare_session, "", **both))
    return found


@program
def graphs_are_open_again():
    counter()
    graph = tf.get_default_graph()
    with tf.train.MonitoredSession() as session:
        inside = [graph.finalized, session.graph is graph, error_of(tf.no_op)]
    after = [graph.finalized, session.graph is None]
    graph.finalize()
    with tf.train.MonitoredSession() as session:
        pass
    return inside, after, graph.finalized


# ---- Supervisor, threads, input


@program
def supervisors():
    op, step = counter()
    tf.summary.scalar("step", step)
    directory = tempfile.mkdtemp()
    # Without a thread that saves at some moment, too.
    supervisor = tf.train.Supervisor(logdir=directory, save_model_secs=0)
    facts = [
        supervisor.is_chief,
        supervisor.save_model_secs,
        supervisor.save_summaries_secs,
        os.path.basename(supervisor.save_path),
        supervisor.init_op.name,
        supervisor.ready_op.name.split("/")[0],
        supervisor.summary_op.name,
        supervisor.ready_for_local_init_op,
        supervisor.should_stop(),
    ]
    with supervisor.managed_session() as session:
        for _ in range(3):
            session.run(op)
        supervisor.summary_computed(session, b"", 7)
        supervisor.saver.save(session, supervisor.save_path, step)
    facts.append(supervisor.should_stop())
    facts.append(error_of(session.run, op))
    with supervisor.managed_session() as session:
        facts.append(int(session.run(step)))
    facts.append(tf.get_default_graph().finalized)
    return facts, sorted({os.path.basename(f).split(".")[0] for f in glob.glob(directory + "/*")})


@program
def supervisors_and_errors():
    op, _ = counter()
    supervisor = tf.train.Supervisor()
    found = []

    def body(kind, *arguments):
        with supervisor.managed_session() as session:
            session.run(op)
            raise kind(*arguments)

    found.append(error_of(body, KeyError, "mine"))
    found.append(error_of(body, tf.errors.OutOfRangeError, None, None, "over"))

    def in_a_thread():
        with supervisor.managed_session():

            def fail():
                raise ValueError("in a thread")

            supervisor.loop(None, fail)
            supervisor.wait_for_stop()

    found.append(error_of(in_a_thread))
    found.append(error_of(supervisor.summary_computed, None, b""))
    with tf.Graph().as_default():
        tf.get_variable("v", [1], use_resource=False)
        found.append(error_of(tf.train.Supervisor, is_chief=False))
    with tf.Graph().as_default():
        with tf.device("/cpu:0"):
            tf.get_variable("v", [1], use_resource=False)
        worker = tf.train.Supervisor(is_chief=False, logdir="/nowhere")
        found.append([worker.save_path, worker.save_model_secs, worker.summary_writer])
        found.append(error_of(worker.start_standard_services, None))
    return found


@program
def coordinators():
    found = []
    for kind in (ValueError("x"), tf.errors.OutOfRangeError(None, None, "x"), None):
        coord = tf.train.Coordinator()
        try:
            if kind is not None:
                raise kind
        except Exception as error:
            coord.request_stop(error)
        else:
            coord.request_stop()
        found.append([coord.should_stop(), error_of(coord.join), coord.joined])
        found.append(error_of(coord.raise_requested_exception))
        coord.clear_stop()
        found.append([coord.should_stop(), coord.joined])
    return found


@program
def input_pipelines():
    names = ["a", "b", "c"]
    found = []

    def read(tensors):
        rows = []
        with tf.train.MonitoredSession() as session:
            while not session.should_stop():
                rows.append(np.asarray(session.run(tensors)).tolist())
        return json.loads(json.dumps(rows, default=lambda item: item.decode()))

    with tf.Graph().as_default():
        queue = tf.train.string_input_producer(names, num_epochs=2, shuffle=False)
        found.append(read(queue.dequeue()))
        found.append(queue.name)
    with tf.Graph().as_default():
        rows = tf.train.slice_input_producer(
            [[1, 2, 3, 4, 5], [10, 20, 30, 40, 50]], num_epochs=1, shuffle=False
        )
        batch = tf.train.batch(rows, 2, allow_smaller_final_batch=True)
        found.append([[t.name for t in batch], [t.shape.as_list() for t in batch]])
        found.append(read(tf.stack(batch)))
    with tf.Graph().as_default():
        number = tf.train.range_input_producer(10, num_epochs=1, shuffle=False).dequeue()
        even = tf.equal(number % 2, 0)
        found.append(read(tf.train.maybe_batch([number], even, 2)))
    with tf.Graph().as_default():
        number = tf.train.range_input_producer(20, num_epochs=1).dequeue()
        mixed = tf.train.shuffle_batch([number], 4, 50, 5)
        rows = read(mixed)
        found.append(sorted(number for row in rows for number in row))
    with tf.Graph().as_default():
        number = tf.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
        many = tf.train.batch({"n": tf.range(number), "m": number}, 2, dynamic_pad=True)
        found.append(sorted(many))
        found.append(read(many["n"])[0])
    with tf.Graph().as_default():
        sources = [[tf.constant([1, 2])], [tf.constant([3, 4])]]
        joined = tf.train.batch_join(sources, 4, enqueue_many=True)
        found.append(joined.shape.as_list())
        found.append(error_of(tf.train.string_input_producer, []))
        found.append(error_of(tf.train.limit_epochs, tf.constant(1), 0))
        found.append(error_of(tf.train.shuffle_batch, [tf.constant(1)], 2, 5, 5))
        found.append(error_of(tf.train.batch, [tf.placeholder(tf.int32)], 2))
        found.append(error_of(tf.train.slice_input_producer, []))
        found.append(error_of(tf.train.input_producer, tf.placeholder(tf.int32, [None, None])))
        found.append(len(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)))
    return found


@program
def synchronous_replicas():
    step = tf.train.get_or_create_global_step()
    dense = tf.get_variable("dense", initializer=[1.0, 2.0])
    table = tf.get_variable("table", initializer=[[1.0], [2.0], [3.0]])
    loss = tf.reduce_sum(dense * dense) + tf.reduce_sum(tf.nn.embedding_lookup(table, [0, 2]))
    optimizer = tf.train.SyncReplicasOptimizer(
        tf.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=1
    )
    errors = [
        error_of(optimizer.get_chief_queue_runner),
        error_of(optimizer.get_init_tokens_op),
        error_of(optimizer.apply_gradients, []),
        error_of(optimizer.minimize, loss),
        error_of(optimizer.make_session_run_hook(True).begin),
    ]
    train_op = optimizer.minimize(loss, global_step=step)
    errors.append(optimizer.get_init_tokens_op(0).name)
    nodes = tf.get_default_graph().as_graph_def().node
    shared = sorted(
        n.attr["shared_name"].s.decode()
        for n in nodes
        if "grad_accum" in str(n.attr) or "token_q" in n.name
    )
    steps = []
    hooks = [optimizer.make_session_run_hook(True)]
    # Without this TensorFlow waits for two minutes for the thread that waits for gradients.
    with tf.train.MonitoredSession(hooks=hooks, stop_grace_period_secs=1) as session:
        for _ in range(4):
            session.run(train_op)
            steps.append(int(session.run(step)))
        values = [session.run(v).tolist() for v in (dense, table)]
    local = [v.name for v in tf.local_variables()]
    return errors, [name for name in shared if name], steps[-1] >= 3, local, len(values)


def main():
    found = {}
    for name, function in PROGRAMS.items():
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            try:
                found[name] = function()
            except Exception as error:
                found[name] = f"raised {type(error).__name__}: {error}"
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    if hasattr(tf, "disable_v2_behavior"):
        tf.disable_v2_behavior()
    main()
