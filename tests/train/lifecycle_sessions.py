"""Programs about scaffolds, sessions, supervisors and input (see lifecycle_programs.py)."""

from __future__ import annotations

import glob
import json
import os
import tempfile

import numpy as np

from train.lifecycle_recording import (
    counter,
    error_of,
    program,
    tf,
)

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
