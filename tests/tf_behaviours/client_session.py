"""Sessions: what is fed, fetched and refused."""

from __future__ import annotations

import collections
import threading
from typing import Any

import numpy as np

from tf_behaviours.registry import behaviour, error

_TYPES = ("float16", "float32", "float64", "int32", "uint8", "int16", "int8", "int64", "bool")
SESSION = "python/client/session_test.py"


def _is_value_error(call: Any) -> bool:
    try:
        call()
    except ValueError as raised:
        return isinstance(raised, ValueError)
    return False


@behaviour(SESSION, "A fetch may be an operation, and gives None.")
def operations_give_none(tf: Any) -> Any:
    a = tf.constant(1.0, name="a")
    with tf.Session() as session:
        return [session.run(a.op), session.run("a"), session.run(["a:0", tf.no_op()])]


@behaviour(SESSION, "A scalar that is fetched is a NumPy scalar of its type.")
def scalars_are_of_their_type(tf: Any) -> Any:
    with tf.Session() as session:
        kinds = (np.int32, np.int64, np.float32, np.float64)
        return [type(session.run(tf.add(k(7), k(8)))).__name__ for k in kinds]


@behaviour(SESSION, "A session runs the graph it is given, which its block makes the default.")
def a_session_of_another_graph(tf: Any) -> Any:
    other = tf.Graph()
    with other.as_default():
        c = tf.constant(6.0) * 7.0
    with tf.Session(graph=other) as session:
        return [c.eval(), tf.get_default_session() is session, tf.get_default_graph() is other]


@behaviour(SESSION, "A name that no tensor has is refused with ValueError, before anything runs.")
def unknown_names(tf: Any) -> Any:
    tf.constant(1.0, name="a")
    with tf.Session() as session:
        return [
            error(lambda: session.run("foo:0")),
            error(lambda: session.run("a:1")),
            error(lambda: session.run("nothing")),
            error(lambda: session.run("a:0", {"foo:0": 1})),
        ]


@behaviour(SESSION, "An error of a step knows the operation, its node and the code.")
def errors_know_the_operation(tf: Any) -> Any:
    a = tf.placeholder(tf.float32, name="p")
    with tf.Session() as session:
        try:
            session.run(a)
        except tf.errors.InvalidArgumentError as raised:
            return [
                raised.op is a.op,
                raised.node_def.name,
                raised.error_code,
                True,
            ]


@behaviour(SESSION, "Lists, tuples, dicts, OrderedDicts and namedtuples come back as their kind.")
def structures_of_fetches(tf: Any) -> Any:
    a, b, c = tf.constant(42.0), tf.no_op(), tf.constant(44.0)
    Point = collections.namedtuple("Point", "a b c")
    ordered = collections.OrderedDict([("z", a), ("a", c)])
    with tf.Session() as session:
        found = session.run(Point(a, b, [c, {"k": (a,)}]))
        in_order = session.run(ordered)
        return [
            [type(found).__name__, found],
            [type(in_order).__name__, list(in_order)],
            session.run([a, [], ()]),
            session.run({"a": a, "b": b}),
            session.run((a, (b, c))),
        ]


@behaviour(SESSION, "A fetch of None, in any structure, is a TypeError, and so are other objects.")
def fetches_of_no_kind(tf: Any) -> Any:
    a = tf.constant(1.0)
    with tf.Session() as session:
        return [
            error(lambda: session.run(None)),
            error(lambda: session.run([a, None])),
            error(lambda: session.run({"a": None})),
            error(lambda: session.run(3)),
            error(lambda: session.run([3.0])),
            error(lambda: session.run(object())),
        ]


@behaviour(SESSION, "A fetch may be empty: a list, tuple or dict of nothing comes back.")
def empty_fetches(tf: Any) -> Any:
    tf.constant(1.0)
    with tf.Session() as session:
        return [session.run([]), session.run(()), session.run({})]


@behaviour(SESSION, "A session of an empty graph refuses to run.")
def an_empty_graph(tf: Any) -> Any:
    with tf.Session() as session:
        return error(lambda: session.run([]), "The Session graph is empty.")


@behaviour(SESSION, "A sparse tensor is fetched as a SparseTensorValue, and fed as one or a tuple.")
def sparse_tensors(tf: Any) -> Any:
    indices, values, shape = np.array([[3, 2], [4, 5]]), np.array([1.0, 2.0], "f"), np.array([7, 9])
    sparse = tf.sparse_placeholder(tf.float32, shape=(7, 9))
    doubled = sparse * 2.0
    with tf.Session() as session:
        fed = [(indices, values, shape), tf.SparseTensorValue(indices, values, shape)]
        found = [session.run([doubled, sparse], {sparse: one}) for one in fed]
        return [found, type(found[0][0]).__name__]


@behaviour(SESSION, "A sparse placeholder without a shape takes any.")
def sparse_placeholders(tf: Any) -> Any:
    sparse = tf.sparse_placeholder(tf.float32)
    with tf.Session() as session:
        fed = tf.SparseTensorValue(np.array([[3, 2, 0]]), np.array([1.0], "f"), np.array([7, 9, 2]))
        return [
            session.run(sparse, {sparse: fed}),
            str(sparse.get_shape()),
            sparse.dense_shape.shape,
        ]


@behaviour(SESSION, "IndexedSlices are fetched as IndexedSlicesValue, and fed as one or a tuple.")
def indexed_slices(tf: Any) -> Any:
    ind = tf.IndexedSlices(
        tf.placeholder(tf.float32, (2,)),
        tf.placeholder(tf.int64, (2,)),
        tf.placeholder(tf.int64, (1,)),
    )
    no_shape = tf.IndexedSlices(tf.constant([1.0]), tf.constant([4]), None)
    with tf.Session() as session:
        fed = (np.array([1.0, 2.0], "f"), np.array([3, 4]), np.array([9]))
        found = session.run(ind, {ind: fed})
        bare = session.run(no_shape)
        return [type(found).__name__, list(found), list(bare), bare.dense_shape]


@behaviour(SESSION, "A graph may grow between the steps of a session, which keeps its state.")
def graphs_grow(tf: Any) -> Any:
    with tf.Session() as session:
        v = tf.Variable([[4.0, 4.0]], name="v")
        session.run(v.initializer)
        first = session.run(v)
        change = tf.assign(v, v * 2.0)
        second = v.eval()
        return [first, second, session.run(change), session.run(v), len(session.graph_def.node) > 5]


@behaviour(SESSION, "What is fed is taken by tensor or by name, as lists and numbers, too.")
def feeds_by_name(tf: Any) -> Any:
    x = tf.zeros([2], name="x")
    y = 2 * x
    with tf.Session() as session:
        return [
            session.run(y, {x: np.ones(2, "f")}),
            session.run(y, {"x:0": [1, 1]}),
            session.run(y, {x.name: (2, 3)}),
            y.eval({x: [4, 5]}),
        ]


@behaviour(SESSION, "A feed of a structure as key, or of a tensor as value, is refused.")
def feeds_refused(tf: Any) -> Any:
    x = tf.placeholder(tf.float32)
    y = tf.identity(x)
    with tf.Session() as session:
        return [
            error(lambda: session.run(y, {x: tf.constant(5.0)}), "cannot be a tf.Tensor object"),
            error(lambda: session.run(y, {y.op: 1.0}), "cannot be interpreted as a Tensor"),
            error(lambda: session.run(y, {(x,): 1.0})),
            error(lambda: session.run(y, {3: 1.0})),
            error(lambda: session.run(y, {x: None})),
            error(lambda: session.run(y, {x: "text"})),
        ]


@behaviour(SESSION, "A feed that does not fit the placeholder's static shape is a ValueError.")
def feeds_of_another_shape(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, (None, 2), name="x")
    with tf.Session() as session:
        return [
            error(lambda: session.run(x + 1, {x: np.ones(3)}), "Cannot feed value of shape (3,)"),
            error(lambda: session.run(x + 1, {x: np.ones((2, 3))}), "which has shape"),
            session.run(x + 1, {x: np.ones((0, 2))}).shape,
        ]


@behaviour(SESSION, "A float or a large number fed for an integer is a TypeError, not cut off.")
def lossy_feeds(tf: Any) -> Any:
    x = tf.placeholder(tf.int32, shape=())
    b = tf.placeholder(tf.bool, shape=())
    with tf.Session() as session:
        return [
            error(lambda: session.run(x, {x: 1.5}), "Type of feed value"),
            error(lambda: session.run(x, {x: 2**33})),
            session.run(x, {x: 3}),
            session.run(x, {x: np.int64(7)}),
            error(lambda: session.run(b, {b: 1})),
            session.run(x, {x: True}),
        ]


@behaviour(SESSION, "Strings with null characters and of Unicode are fed and fetched whole.")
def strings(tf: Any) -> Any:
    x = tf.placeholder(tf.string, [2])
    y = tf.identity(x)
    with tf.Session() as session:
        return [
            list(session.run(y, {x: [b"\n\x01\x00", b"\n\x00\x01"]})),
            list(session.run(y, {x: ["\n\x01\x00", "é\x00\x01"]})),
            list(session.run(y, {x: np.array(["a", "ü"], dtype=object)})),
            list(session.run(y, {x: np.array(["a", "ü"])})),
            session.run(tf.constant([], tf.string)).dtype.kind,
        ]


@behaviour(SESSION, "Every numeric type is fed and fetched unchanged, in empty shapes, too.")
def types_go_through(tf: Any) -> Any:
    found = []
    with tf.Session() as session:
        for name in [
            "float16",
            "float32",
            "float64",
            "int32",
            "uint8",
            "int16",
            "int8",
            "int64",
            "bool",
            "complex64",
        ]:
            for shape in ((2, 3), (2, 0, 6), ()):
                x = tf.placeholder(getattr(tf, name), shape)
                fed = np.ones(shape).astype(name)
                out = session.run(tf.identity(x), {x: fed})
                found.append([out.dtype.name, out.shape])
    return found


@behaviour(SESSION, "A tensor or operation of another graph is refused with ValueError.")
def other_graphs(tf: Any) -> Any:
    first, second = tf.Graph(), tf.Graph()
    with first.as_default():
        one = tf.constant(1.0, name="c")
    with second.as_default():
        two = tf.constant(2.0, name="c")
    with tf.Session(graph=first) as session:
        return [
            session.run("c:0"),
            error(lambda: session.run(two), "is not an element of this graph"),
            error(lambda: session.run(two.op), "is not an element of this graph"),
            error(lambda: session.run(one, {two: 1.0}), "is not an element of this graph"),
        ]


@behaviour(SESSION, "A closed session refuses all steps with RuntimeError.")
def closed_sessions(tf: Any) -> Any:
    c = tf.constant(5.0)
    session = tf.Session()
    first = session.run(c)
    session.close()
    session.close()
    return [first, error(lambda: session.run(c), "Attempted to use a closed Session.")]


@behaviour(SESSION, "Without a default session, eval and run are refused with ValueError.")
def no_default_session(tf: Any) -> Any:
    c = tf.constant(5.0)
    phrase = "No default session is registered"
    return [
        error(c.eval, "Cannot evaluate tensor using `eval()`", phrase),
        error(c.op.run, "Cannot execute operation using `run()`", phrase),
        tf.get_default_session(),
    ]


@behaviour(SESSION, "A default session of another graph cannot evaluate a tensor.")
def default_session_of_another_graph(tf: Any) -> Any:
    c = tf.constant(5.0)
    other = tf.Graph()
    with other.as_default():
        d = tf.constant(1.0)
    with tf.Session(graph=other) as session:
        return [
            error(c.eval, "the tensor's graph is different"),
            error(c.op.run, "the operation's graph is different"),
            error(lambda: c.eval(session=session), "session graph is different"),
            d.eval(),
        ]


@behaviour(SESSION, "An interactive session is the default until it is closed.")
def interactive_sessions(tf: Any) -> Any:
    session = tf.InteractiveSession()
    c = tf.constant(3.0) * 2.0
    found = [c.eval(), tf.get_default_session() is session]
    session.close()
    return [*found, tf.get_default_session() is None]


@behaviour(SESSION, "Default sessions nest, and outlive their blocks.")
def default_sessions_nest(tf: Any) -> Any:
    c = tf.constant(1.0)
    first, second = tf.Session(), tf.Session()
    found = []
    with first.as_default():
        found.append(tf.get_default_session() is first)
        with second.as_default():
            found.append(tf.get_default_session() is second)
        found.append(tf.get_default_session() is first)
    found.append(c.eval(session=first))
    first.close()
    return [*found, second.run(c), second.close()]


@behaviour(SESSION, "A session used as a context twice is refused, and so is a graph of no kind.")
def sessions_refuse(tf: Any) -> Any:
    session = tf.Session()
    with session:
        nested = error(session.__enter__, "Session context managers are not re-entrant")
    return [
        nested,
        error(lambda: tf.Session(graph=3)),
        error(lambda: tf.Session(37)),
        error(lambda: tf.Session("INVALID_TARGET")),
        error(lambda: tf.Session(config=3)),
        error(lambda: tf.Session(config="proto")),
    ]


@behaviour(SESSION, "Threads may run steps of one session at once, and see its values.")
def steps_in_parallel(tf: Any) -> Any:
    c = tf.constant(5.0)
    v = tf.Variable(0, dtype=tf.int32)
    add = tf.assign_add(v, 1, use_locking=True)
    found: list[Any] = []
    with tf.Session() as session:
        session.run(v.initializer)

        def work() -> None:
            found.append(c.eval(session=session))
            session.run(add.op)

        threads = [threading.Thread(target=work) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found, session.run(v)]


@behaviour(SESSION, "The same tensor may be fetched twice in a step.")
def duplicated_fetches(tf: Any) -> Any:
    a, b = tf.constant([[1.0, 1.0]]), tf.constant(2)
    with tf.Session() as session:
        return session.run([a, b, a, {"a": a}])


@behaviour(SESSION, "A tensor that is both fed and fetched gives the value that was fed.")
def fetch_of_what_is_fed(tf: Any) -> Any:
    a = tf.constant([1.0])
    with tf.Session() as session:
        found = session.run([a, a + 1], {a: [5.0]})
        return [found, session.run(a, {a: np.float32([7])}), session.run(a, {a: np.ones(1, "d")})]


@behaviour(SESSION, "A callable of a session takes its feeds in order, and the step's options.")
def callables(tf: Any) -> Any:
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    z = x * 2 + y
    with tf.Session() as session:
        both = session.make_callable(z, [x, y])
        none = session.make_callable(z.op, ["Placeholder:0", y])
        many = session.make_callable({"z": [z, z]}, [x, y])
        with_options = session.make_callable(z, [x, y], accept_options=True)
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        return [
            both(3.0, 4.0),
            none(1.0, 1.0),
            many(1, 2),
            with_options(1, 2, options=options, run_metadata=metadata),
            len(metadata.step_stats.dev_stats) > 0,
            error(lambda: both(1.0)),
            error(lambda: session.make_callable(z, x)),
            error(lambda: session.make_callable(z, [3])(1.0)),
        ]


@behaviour(SESSION, "A callable is refused of tensors that the graph does not have.")
def callables_of_other_graphs(tf: Any) -> Any:
    x = tf.placeholder(tf.float32)
    with tf.Graph().as_default():
        other = tf.placeholder(tf.float32)
    with tf.Session() as session:
        return [
            error(lambda: session.make_callable(other)),
            error(lambda: session.make_callable(x, [other])(1.0)),
            error(lambda: session.make_callable("nothing:0")),
        ]


@behaviour(SESSION, "Traces are collected only when both options and metadata ask for them.")
def options_and_metadata(tf: Any) -> Any:
    a = tf.constant(1.0) + 2.0
    full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session() as session:
        found = []
        for options, metadata in [(None, tf.RunMetadata()), (full, tf.RunMetadata())]:
            session.run(a, options=options, run_metadata=metadata)
            found.append([metadata.HasField("step_stats"), len(metadata.step_stats.dev_stats)])
        session.run(a, options=full, run_metadata=None)
        return [
            found,
            error(lambda: session.run(a, options=3), "must be a RunOptions"),
        ]


@behaviour(SESSION, "Partition graphs are given back when they are asked for.")
def partition_graphs(tf: Any) -> Any:
    a = tf.constant(1.0) + tf.placeholder(tf.float32, ())
    options = tf.RunOptions(output_partition_graphs=True)
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(a, {"Placeholder:0": 1.0}, options=options, run_metadata=metadata)
        return [len(metadata.partition_graphs), len(metadata.partition_graphs[0].node) > 1]


@behaviour(SESSION, "What converts to an array is fed; a list of unequal rows is not.")
def values_to_feed(tf: Any) -> Any:
    x = tf.placeholder(tf.float32)

    class Own:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([1.0, 2.0], dtype or "f")

    with tf.Session() as session:
        return [
            session.run(x, {x: Own()}),
            error(lambda: session.run(x, {x: [[1.0], [1.0, 2.0]]})),
            session.run(x, {x: range(3)}),
            session.run(x, {x: []}),
        ]


@behaviour(SESSION, "A graph says what may be fed and fetched, and can forbid it.")
def what_may_be_fed(tf: Any) -> Any:
    graph = tf.get_default_graph()
    a, b = tf.constant(5.0), tf.constant(6.0)
    graph.prevent_feeding(a)
    graph.prevent_fetching(b.op)
    with tf.Session() as session:
        return [
            graph.is_feedable(a),
            graph.is_feedable(b),
            graph.is_fetchable(a),
            graph.is_fetchable(b),
            error(lambda: session.run(a, {a: 1.0}), "may not be fed"),
            _is_value_error(lambda: session.run(b)),
            session.run(a),
        ]


@behaviour(SESSION, "Variables of sessions are their own, though they run one graph.")
def state_of_sessions(tf: Any) -> Any:
    v = tf.Variable(1.0)
    with tf.Session() as one, tf.Session() as two:
        one.run(v.initializer)
        return [
            one.run(tf.assign_add(v, 2.0)),
            error(lambda: two.run(v)),
            two.run(v.initializer),
            two.run(v),
            one.run(v),
        ]


@behaviour(SESSION, "A session can be told to place operations softly, or to refuse.")
def soft_placement(tf: Any) -> Any:
    with tf.device("/device:GPU:0"):
        c = tf.constant(1.0) + 2.0
    found = []
    for soft in (True, False):
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=soft)) as session:
            found.append(error(lambda session=session: session.run(c)))
    return found


@behaviour(SESSION, "A session with several CPUs runs operations on each, and lists them.")
def many_cpus(tf: Any) -> Any:
    with tf.device("/cpu:1"):
        c = tf.constant(10.0) * 2.0
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        names = [device.name for device in session.list_devices()]
        return [session.run(c), names]


@behaviour(SESSION, "A timeout of a step or of the session ends it with DeadlineExceededError.")
def timeouts(tf: Any) -> Any:
    queue = tf.FIFOQueue(1, tf.float32)
    wait = queue.dequeue()
    with tf.Session() as session:
        options = tf.RunOptions(timeout_in_ms=50)
        of_step = error(lambda: session.run(wait, options=options))
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=50)) as session:
        return [of_step, error(lambda: session.run(wait))]


@behaviour(SESSION, "Closing a session cancels a step that waits.")
def close_cancels(tf: Any) -> Any:
    queue = tf.FIFOQueue(1, tf.float32)
    wait = queue.dequeue()
    session = tf.Session()
    found: list[Any] = []
    begun = threading.Event()

    def work() -> None:
        begun.set()
        found.append(error(lambda: session.run(wait)))

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    session.close()
    thread.join()
    return found[0][0] in ("CancelledError", "RuntimeError")
