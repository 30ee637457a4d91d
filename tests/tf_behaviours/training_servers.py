"""Servers, clusters and device setters."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error


def _of(name: str) -> Any:
    return functools.partial(behaviour, f"python/training/{name}_test.py")


servers = _of("server_lib")
setters = _of("device_setter")


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
