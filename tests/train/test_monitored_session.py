"""Monitored sessions: hooks around runs, lost tasks, and ends that come in time.

What they share with TensorFlow's is compared in test_hooks_oracle.py.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading

import pytest

import tideflow.v1 as tf
from clocks import manual_clock
from cluster.servers import ServerProcess, make_environment, make_spec, suspend
from real_time import within
from train.lifecycle_programs import PROGRAMS
from train.lifecycle_recording import Recorder

CLOSING_S = 5.0
# A machine that is busy with other tests gives a process that ends its time late.
SLACK_S = 15.0


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_that_are_compared_with_tensorflow_run(name):
    found = PROGRAMS[name]()
    assert found


def counter():
    step = tf.train.get_or_create_global_step()
    return tf.assign_add(step, 1), step


class Flaky(tf.train.SessionCreator):
    """Makes sessions, but for the first few times."""

    max_wait_secs = 0.5

    def __init__(self, failures):
        self.failures = failures

    def create_session(self):
        if self.failures:
            self.failures -= 1
            raise tf.errors.UnavailableError(None, None, "/job:ps/task:0 at host:1 is away")
        session = tf.Session()
        session.run(tf.get_default_graph().get_collection("init")[0])
        return session


def test_a_session_that_cannot_be_made_is_tried_again(capsys):
    op, step = counter()
    tf.add_to_collection("init", step.initializer)
    with tf.train.MonitoredSession(Flaky(2)) as session:
        assert session.run(op) == 1
    told = capsys.readouterr().err
    assert "the session was lost: UnavailableError: /job:ps/task:0 at host:1 is away" in told


def test_after_its_time_the_error_goes_to_the_caller():
    always = 10**9
    flaky = Flaky(always)
    with pytest.raises(tf.errors.UnavailableError, match="host:1 is away"):
        tf.train.MonitoredSession(flaky)
    assert flaky.failures <= always - 2


def test_a_run_that_always_fails_is_given_up_too():
    op, step = counter()
    tf.add_to_collection("init", step.initializer)

    def fail(context):
        raise tf.errors.AbortedError(None, None, "again")

    with pytest.raises(tf.errors.AbortedError, match="again"):
        with tf.train.MonitoredSession(Flaky(0), [Recorder("a", [], before_run=fail)]) as session:
            session.run(op)


def test_the_graph_is_open_again_when_no_session_could_be_made(graph):
    counter()
    scaffold = tf.train.Scaffold(init_op=tf.no_op())
    with pytest.raises(RuntimeError, match="did not make model ready"):
        tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold))
    assert not graph.finalized


def test_a_timer_is_not_misled_by_a_clock_that_jumps():
    with manual_clock() as clock:
        timer = tf.train.SecondOrStepTimer(every_secs=3600)
        timer.update_last_triggered_step(1)
        clock.wall_lead_s += 1e9
        assert not timer.should_trigger_for_step(2)
        clock.wall_lead_s -= 2e9
        clock.advance(3599)
        assert not timer.should_trigger_for_step(2)
        clock.advance(1)
        assert timer.should_trigger_for_step(2)


def test_closing_twice_says_so():
    counter()
    session = tf.train.MonitoredSession()
    session.close()
    with pytest.raises(RuntimeError, match="already closed"):
        session.close()
    with pytest.raises(RuntimeError, match="already closed"):
        session.run("global_step")


def test_queue_runners_of_a_monitored_session_are_its_own():
    queue = tf.FIFOQueue(2, tf.int32, shapes=[[]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(3)]))
    number = queue.dequeue()
    with tf.train.MonitoredSession() as session:
        assert tf.train.start_queue_runners(session) == []
        assert session.run(number) == 3
    assert not [t for t in threading.enumerate() if t.name.startswith("QueueRunnerThread")]


# ---- SIGTERM


def test_the_handler_of_sigterm_is_there_only_meanwhile(tmp_path):
    counter()
    before = signal.getsignal(signal.SIGTERM)
    with tf.train.MonitoredSession():
        assert signal.getsignal(signal.SIGTERM) is before
    with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_another_thread_installs_no_handler(tmp_path):
    counter()
    graph = tf.get_default_graph()
    before = signal.getsignal(signal.SIGTERM)
    found = []

    def train():
        with graph.as_default():
            with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)):
                found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join(30)
    assert found == [before]


TRAIN_UNTIL_TERMINATED = """
import signal, sys, time
import tideflow.v1 as tf
shape, directory, *rest = sys.argv[1:]
step = tf.train.get_or_create_global_step()
op = tf.assign_add(step, 1)
never = tf.FIFOQueue(1, tf.int32, shapes=[[]]).dequeue()

def work(session):
    for _ in range(10):
        value = session.run(op)
    print("made", value, flush=True)
    if "waiting" in rest:
        session.run(never)
    while True:
        time.sleep(0.01)

if "own" in rest:
    signal.signal(signal.SIGTERM, lambda *_: print("own handler", flush=True))
if shape == "monitored":
    with tf.train.MonitoredTrainingSession(checkpoint_dir=directory) as session:
        work(session)
elif shape == "managed":
    supervisor = tf.train.Supervisor(logdir=directory)
    with supervisor.managed_session() as session:
        work(session)
elif shape == "prepared":
    supervisor = tf.train.Supervisor(logdir=directory)
    work(supervisor.prepare_or_wait_for_session())
"""


def start_program(text, *args):
    return subprocess.Popen(
        [sys.executable, "-c", text, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=make_environment(),
    )


@pytest.mark.parametrize(
    ("shape", "rest"),
    [
        ("monitored", []),
        ("monitored", ["waiting"]),
        ("managed", []),
        ("managed", ["waiting"]),
        ("prepared", ["waiting"]),
    ],
)
@pytest.mark.real_time
def test_sigterm_leaves_a_last_checkpoint(tmp_path, shape, rest):
    with start_program(TRAIN_UNTIL_TERMINATED, shape, str(tmp_path), *rest) as process:
        try:
            assert process.stdout.readline() == "made 10\n"
            with within(CLOSING_S + SLACK_S):
                process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM, err
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path.endswith("model.ckpt-10")
    assert "Traceback" not in err


TERMINATED_WHILE_IT_PREPARES = """
import os, signal, sys
import tideflow.v1 as tf

step = tf.train.get_or_create_global_step()
op = tf.assign_add(step, 1)
supervisor = tf.train.Supervisor(logdir=sys.argv[1])
# No service has saved before: the last save has to be prepared, too.
session = supervisor.prepare_or_wait_for_session(start_standard_services=False)

def terminate(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.endswith("compile/prune.py"):
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGTERM)

sys.setprofile(terminate)
session.run(op)
while True:
    session.run(op)
"""


def test_sigterm_may_come_while_a_step_is_prepared(tmp_path):
    with start_program(TERMINATED_WHILE_IT_PREPARES, str(tmp_path)) as process:
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGTERM, err
    assert tf.train.latest_checkpoint(str(tmp_path)) is not None, err


def test_a_handler_of_the_programs_own_is_called_after_that(tmp_path):
    with start_program(TRAIN_UNTIL_TERMINATED, "monitored", str(tmp_path), "own") as process:
        try:
            assert process.stdout.readline() == "made 10\n"
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert out == "own handler\n"
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-10")


# ---- with a parameter server in another process


@pytest.fixture
def remote():
    """A parameter server of its own, a worker here, and the variables on the former."""
    made = Remote()
    yield made
    made.close()


class Remote:
    def __init__(self):
        self.spec = make_spec({"ps": 1, "worker": 1})
        self.ps = ServerProcess(self.spec, "ps")
        self.worker = tf.train.Server(self.spec, "worker", 0)
        with tf.device("/job:ps/task:0"):
            self.op, self.step = counter()

    def restart_ps(self):
        self.ps.kill()
        self.ps = ServerProcess(self.spec, "ps")

    def close(self):
        self.ps.process.send_signal(signal.SIGCONT)
        self.ps.close()
        self.worker.stop()


@pytest.mark.processes
def test_training_goes_on_from_the_last_checkpoint_when_a_server_restarts(remote, tmp_path, capsys):
    with tf.train.MonitoredTrainingSession(
        remote.worker.target, checkpoint_dir=str(tmp_path), save_checkpoint_steps=3
    ) as session:
        steps = [int(session.run(remote.op)) for _ in range(5)]
        remote.restart_ps()
        steps += [int(session.run(remote.op)) for _ in range(3)]
    # Saved at 0 and at 4, when 3 steps had been made since.
    assert steps[:5] == [1, 2, 3, 4, 5]
    saved = steps[5] - 1
    assert saved in (3, 4)
    assert steps[5:] == [saved + 1, saved + 2, saved + 3]
    assert "the session was lost" in capsys.readouterr().err
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith(f"-{steps[-1]}")


@pytest.mark.processes
@pytest.mark.parametrize("how", ["close", "error", "waiting thread"])
@pytest.mark.real_time
def test_closing_ends_in_time_when_a_server_does_not_answer(remote, how, tmp_path):
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, tf.int32, shapes=[[]])
        if how == "waiting thread":
            tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1)]))
    session = tf.train.MonitoredTrainingSession(remote.worker.target, checkpoint_dir=str(tmp_path))
    session.run(remote.op)
    suspend(remote.ps.process)
    with within(CLOSING_S + SLACK_S):
        if how == "error":
            with pytest.raises(KeyError), session:
                raise KeyError("mine")
        else:
            # The last checkpoint cannot be written, and the caller hears of it.
            with pytest.raises((tf.errors.OpError, RuntimeError)):
                session.close()


TRAIN_REMOTELY = """
import json, sys
import tideflow.v1 as tf
spec, directory = json.loads(sys.argv[1]), sys.argv[2]
server = tf.train.Server(spec, "worker", 0)
with tf.device("/job:ps/task:0"):
    op = tf.assign_add(tf.train.get_or_create_global_step(), 1)
with tf.train.MonitoredTrainingSession(server.target, checkpoint_dir=directory) as session:
    print("made", session.run(op), flush=True)
    while True:
        session.run(op)
"""


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.real_time
def test_signals_end_training_in_time_when_a_server_does_not_answer(number, tmp_path):
    spec = make_spec({"ps": 1, "worker": 1})
    ps = ServerProcess(spec, "ps")
    with start_program(TRAIN_REMOTELY, json.dumps(spec), str(tmp_path)) as process:
        try:
            assert process.stdout.readline() == "made 1\n"
            suspend(ps.process)
            with within(CLOSING_S + SLACK_S):
                process.send_signal(number)
                _, err = process.communicate(timeout=30)
        finally:
            process.kill()
            ps.process.send_signal(signal.SIGCONT)
            ps.close()
    if number == signal.SIGTERM:
        assert process.returncode == 128 + signal.SIGTERM
        assert re.search("no last checkpoint could be written", err)
    else:
        assert "KeyboardInterrupt" in err
