"""Programs that record what the training lifecycle does, for any library of TensorFlow's v1 API.

    LIFECYCLE_LIBRARY=tideflow.v1 PYTHONPATH=src:tests python -m train.lifecycle_programs

prints a JSON object: the record of each program by its name.  Only what both libraries must agree
on is recorded: the order of calls, values, error classes, names.
"""

from __future__ import annotations

import glob
import json
import os
import tempfile
import threading

from train import lifecycle_sessions as lifecycle_sessions
from train.lifecycle_recording import (
    PROGRAMS,
    Listener,
    Recorder,
    counter,
    error_of,
    event_kinds,
    program,
    tf,
)

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
