"""Partial runs, tensors that sessions keep, lists of devices, timelines, and clusters given with a
session."""

from __future__ import annotations

import importlib
import json
from typing import Any

from tf_behaviours.registry import behaviour, error

PARTIAL = "python/client/session_partial_run_test.py"
KEPT = "python/kernel_tests/session_ops_test.py"
DEVICES = "python/client/session_list_devices_test.py"
TIMELINE = "python/client/timeline_test.py"
PROPAGATION = "python/client/session_clusterspec_prop_test.py"


def _three(tf: Any) -> Any:
    a, b, c = (tf.placeholder(tf.float32, shape=[]) for _ in range(3))
    r1 = tf.add(a, b)
    return a, b, c, r1, tf.multiply(r1, c)


@behaviour(PARTIAL, "A step is fed and fetched in pieces, which use what came before.")
def pieces(tf: Any) -> Any:
    a, b, c, r1, r2 = _three(tf)
    with tf.Session() as session:
        handle = session.partial_run_setup([r1, r2], [a, b, c])
        first = session.partial_run(handle, r1, feed_dict={a: 1, b: 2})
        return [first, session.partial_run(handle, r2, feed_dict={c: first * 17})]


@behaviour(PARTIAL, "A piece may be run without fetches, and may take what is not fed yet later.")
def incomplete(tf: Any) -> Any:
    a, b, c, r1, r2 = _three(tf)
    with tf.Session() as session:
        handle = session.partial_run_setup([r1, r2], [a, b, c])
        return [
            session.partial_run(handle, [], feed_dict={a: 1}),
            session.partial_run(handle, r1, feed_dict={b: 2}),
            session.partial_run(handle, [r2], feed_dict={c: 6}),
        ]


@behaviour(PARTIAL, "Partial runs at once do not see each other's values.")
def at_once(tf: Any) -> Any:
    a, b, c, r1, r2 = _three(tf)
    with tf.Session() as session:
        handles = [session.partial_run_setup([r1, r2], [a, b, c]) for _ in range(3)]
        firsts = [
            session.partial_run(h, r1, {a: i, b: 2}) for i, h in reversed(list(enumerate(handles)))
        ]
        return [firsts, [session.partial_run(h, r2, {c: i}) for i, h in enumerate(handles)]]


@behaviour(PARTIAL, "What was not set up, or was fed or fetched before, is refused.")
def refused_pieces(tf: Any) -> Any:
    a, b, c, r1, r2 = _three(tf)
    with tf.Session() as session:
        handle = session.partial_run_setup([r1], [a, b])
        other = session.partial_run_setup([r1, r2], [a, b, c])
        session.partial_run(other, r1, {a: 1, b: 2})
        return [
            error(lambda: session.partial_run(handle, r2, {a: 1, b: 2})),
            error(lambda: session.partial_run(other, r1, {c: 1})),
            error(lambda: session.partial_run(other, r2, {a: 3, c: 1})),
            error(lambda: session.partial_run("no handle", r1, {a: 1})),
        ]


@behaviour(PARTIAL, "A fetch that lacks feeds of its step is refused.")
def a_piece_that_lacks_feeds(tf: Any) -> Any:
    a, b, c, r1, r2 = _three(tf)
    with tf.Session() as session:
        handle = session.partial_run_setup([r1, r2], [a, b, c])
        return error(lambda: session.partial_run(handle, r1, {a: 1}))


@behaviour(PARTIAL, "A setup without fetches is refused; one without feeds is not.")
def setups_without(tf: Any) -> Any:
    x = tf.constant(3.0) * 2.0
    y = tf.placeholder(tf.float32, ())
    with tf.Session() as session:
        handle = session.partial_run_setup([x], [])
        return [
            session.partial_run(handle, x),
            error(lambda: session.partial_run_setup([], [y])),
            error(lambda: session.partial_run_setup([x], [3])),
        ]


@behaviour(DEVICES, "A session lists its devices by full name and type.")
def lists_devices(tf: Any) -> Any:
    with tf.Session() as session:
        device = session.list_devices()[0]
        return [device.name, device.device_type]


@behaviour(DEVICES, "A session of a server lists the devices of the cluster.")
def lists_devices_of_servers(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    with tf.Session(server.target) as session:
        return [[d.name, d.device_type] for d in session.list_devices()]


@behaviour(TIMELINE, "A step's trace becomes a Chrome trace with a row for each device.")
def chrome_traces(tf: Any) -> Any:
    x = tf.random_normal([2, 2])
    y = tf.matmul(x, x, name="product")
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(y, options=options, run_metadata=metadata)
    own = "tensorflow.python.client.timeline"
    if not tf.__name__.startswith("tensorflow"):
        own = "tideflow.train.hooks.timeline"
    timeline = importlib.import_module(own).Timeline(metadata.step_stats)
    trace = json.loads(timeline.generate_chrome_trace_format())
    events = trace["traceEvents"]
    names = {event.get("args", {}).get("name") for event in events}
    return [sorted({event["ph"] for event in events} & {"M", "X"}), "product" in names]


@behaviour(PROPAGATION, "A session whose ConfigProto names a cluster runs on its tasks.")
def clusters_of_configs(tf: Any) -> Any:
    server = tf.train.Server.create_local_server()
    other = tf.train.Server.create_local_server()
    cluster = tf.train.ClusterSpec(
        {"worker": [server.target.removeprefix("grpc://"), other.target.removeprefix("grpc://")]}
    )
    config = tf.ConfigProto(cluster_def=cluster.as_cluster_def())
    with tf.device("/job:worker/task:1"):
        c = tf.constant(17.0) * 2.0
    with tf.Session(server.target, config=config) as session:
        names = [d.name for d in session.list_devices() if "CPU" in d.name]
        return [session.run(c), sorted(names)]


@behaviour(KEPT, "A kept tensor is read by its handle in later steps, and by the handle itself.")
def kept_tensors(tf: Any) -> Any:
    product = tf.constant(10) * tf.constant(5)
    keep = tf.get_session_handle(product)
    with tf.Session() as session:
        kept, value = session.run([keep, product])
        holder, read = tf.get_session_tensor(kept.handle, tf.int32)
        found = [session.run(read * 10, {holder: kept.handle}), kept.eval(), value]
        return [*found, str(kept), keep.dtype.name, holder.dtype.name, read.op.device]


@behaviour(KEPT, "A tensor is kept again and again while it changes, without being fetched.")
def kept_over_and_over(tf: Any) -> Any:
    first = tf.get_session_handle(tf.constant(0.0))
    with tf.Session() as session:
        kept = session.run(first)
        holder, read = tf.get_session_tensor(kept.handle, tf.float32)
        grown = tf.get_session_handle(read + 1)
        for _ in range(25):
            kept = session.run(grown, {holder: kept.handle})
        return kept.eval()


@behaviour(
    KEPT, "A handle is fed in the place of any tensor, and is fetched as what it stands for."
)
def handles_that_are_fed(tf: Any) -> Any:
    product = tf.constant(10) * tf.constant(5)
    x = tf.placeholder(tf.int32, [3])
    y = tf.placeholder(tf.float32)
    with tf.Session() as session:
        kept, other = session.run([tf.get_session_handle(t) for t in (product, product + 1)])
        found = session.run([product, product * 2], {product: other})
        return [
            *found,
            session.run([x + 0, product + x], {x: kept, product: other}),
            error(lambda: session.run(y * 1, {y: kept})),
        ]


@behaviour(KEPT, "What was deleted, by its name or by its handle, is kept no more.")
def kept_no_more(tf: Any) -> Any:
    keep = tf.get_session_handle(tf.constant([1.0, 2.0]))
    with tf.Session() as session:
        kept, other = session.run(keep), session.run(keep)
        name = other.get_raw_handle()
        doomed, delete = tf.delete_session_tensor(name)
        holder, read = tf.get_session_tensor(name, tf.float32)
        before = session.run(read, {holder: name})
        session.run(delete, {doomed: name})
        kept.delete()
        return [
            before,
            error(lambda: session.run(read, {holder: name})),
            error(lambda: session.run(delete, {doomed: name})),
            error(lambda: session.run(read, {holder: kept.handle})),
            *[error(call) for call in (kept.eval, kept.delete, other.eval)],
        ]


@behaviour(KEPT, "A session keeps nothing of another's.")
def kept_by_one_session(tf: Any) -> Any:
    one = tf.constant(1.0)
    with tf.Session() as session, tf.Session() as other:
        kept = session.run(tf.get_session_handle(one))
        holder, read = tf.get_session_tensor(kept.handle, tf.float32)
        return [
            error(lambda: other.run(read, {holder: kept.handle})),
            error(lambda: other.run(one + 1, {one: kept})),
        ]


@behaviour(KEPT, "Types that differ, what is no tensor and names without a device are refused.")
def kept_in_vain(tf: Any) -> Any:
    with tf.Session() as session:
        kept = session.run(tf.get_session_handle(tf.constant(3)))
        holder, read = tf.get_session_tensor(kept.handle, tf.float32)
        return [
            error(lambda: session.run(read, {holder: kept.handle})),
            error(lambda: tf.get_session_handle([1, 2])),
            error(lambda: tf.get_session_tensor("abc", tf.int32)),
        ]
