"""An eager client of servers: operations, functions, datasets and errors on other tasks."""

from __future__ import annotations

import functools
import socket
from typing import Any

from shown_values import value
from tf_behaviours.registry import behaviour, error

_EAGER = "python/eager"
remote = functools.partial(behaviour, f"{_EAGER}/remote_test.py")
changed = functools.partial(behaviour, f"{_EAGER}/remote_cluster_test.py")

W0, W1 = "/job:worker/task:0", "/job:worker/task:1"
_servers: list[Any] = []


def _addresses(count: int) -> list[str]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("localhost", 0))
    found = [f"localhost:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return found


@functools.cache
def _spec(tf: Any) -> Any:
    """Return a cluster of two workers that the process has joined."""
    spec = {"worker": _addresses(2)}
    for task in range(2):
        _servers.append(tf.distribute.Server(spec, job_name="worker", task_index=task))
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(spec))
    return spec


def _place(tensor: Any) -> str:
    return str(tensor.device).replace("/replica:0", "").partition("/device")[0]


@remote("The devices of all tasks are listed once a program has joined them.")
def joined_devices(tf: Any) -> Any:
    _spec(tf)
    found = [d.name for d in tf.config.list_logical_devices("CPU")]
    return sorted({name.partition("/device")[0] for name in found})


@remote("Operations run where a scope says, and their results lie there.")
def operations_on_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        a = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        b = tf.matmul(a, a)
    with tf.device(W1):
        c = b + 1.0
    d = c + b
    return [[_place(x) for x in (a, b, c, d)], value(d), b.shape.as_list(), c.dtype.name]


@remote("Constants, zeros and converted values lie where they are made.")
def constants_on_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W1):
        made = [
            tf.constant("a"),
            tf.zeros([2]),
            tf.ones([1], tf.int32),
            tf.convert_to_tensor([1, 2]),
            tf.fill([2], 3),
            tf.range(3),
            tf.eye(2),
            tf.random.uniform([2]),
            tf.zeros_like([1]),
            tf.cast(1, tf.float32),
        ]
    return [[_place(x) for x in made], [x.backing_device == x.device for x in made]]


@remote("A tensor is copied from task to task by an identity, and to the program by cpu().")
def copies_between_tasks(tf: Any) -> Any:
    _spec(tf)
    own = tf.constant([1.0, 2.0])
    with tf.device(W0):
        first = tf.identity(own)
    with tf.device(W1):
        second = tf.identity(first)
    with tf.device("/job:localhost"):
        back = tf.identity(second)
    return [[_place(x) for x in (own, first, second, back, second.cpu())], value(back)]


@remote("A device of a task that is not there is refused.")
def absent_tasks(tf: Any) -> Any:
    _spec(tf)

    def at(name: str) -> Any:
        with tf.device(name):
            return value(tf.constant(1) + 1)

    return [
        error(lambda: at("/job:worker/task:7"), "unknown device"),
        error(lambda: at("/job:ps/task:0"), "unknown device"),
        error(lambda: at(W0 + "/device:GPU:0"), "unknown device"),
        at(W0 + "/device:CPU:0"),
    ]


@remote("Variables live on their task, and are read and changed there from anywhere.")
def variables_on_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        v = tf.Variable([1.0, 2.0, 3.0])
    with tf.device(W1):
        w = tf.Variable(v.read_value() * 2.0)
    v.assign_add([1.0, 1.0, 1.0])
    v.scatter_update(tf.IndexedSlices([9.0], [0]))
    with tf.device(W1):
        total = v + w
    return [
        value(v),
        value(w),
        _place(v),
        _place(v.handle),
        _place(total),
        value(total),
        value(tf.gather(v, [0, 2])),
        value(v.sparse_read([1])),
        len(v.shape),
    ]


@remote("A gradient is taken through operations and variables of several tasks.")
def gradients_over_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        v = tf.Variable(2.0)
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.device(W1):
            y = x * v
        with tf.device(W0):
            z = y * y
    return [value(g) for g in tape.gradient(z, [x, v])]


@remote("A function runs its nodes on the tasks that they name; the others where it is called.")
def functions_over_tasks(tf: Any) -> Any:
    _spec(tf)

    @tf.function
    def f(x: Any) -> Any:
        with tf.device(W0):
            a = x * 2
        with tf.device(W1):
            b = a + 1
        return a, b, a + b

    found = f(tf.constant(5))
    with tf.device(W1):
        there = f(tf.constant(6))
    return [value(found), value(there), [_place(x) for x in found]]


@remote("A function takes tensors of other tasks and gives back those that it was given.")
def functions_of_remote_tensors(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        x = tf.constant([1.0, 2.0]) * 1.0

    @tf.function
    def same(y: Any) -> Any:
        return y

    @tf.function
    def more(y: Any, z: Any) -> Any:
        return y + z

    with tf.device(W1):
        moved = same(x)
    return [value(same(x)), value(moved), value(more(x, tf.constant([1.0, 1.0])))]


@remote("Branches and loops of a function have parts on several tasks.")
def control_flow_over_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        v = tf.Variable(1.0)

    @tf.function
    def f(n: Any) -> Any:
        total = tf.constant(0.0)
        for i in tf.range(n):
            with tf.device(W0):
                part = tf.cast(i, tf.float32) * v
            if part > 1.0:
                with tf.device(W1):
                    total += part * 10.0
            else:
                total += part
        return total

    return [value(f(tf.constant(4))), value(f(tf.constant(0)))]


@remote("Variables of several tasks are changed by one function, in order.")
def effects_over_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        a = tf.Variable(1.0)
    with tf.device(W1):
        b = tf.Variable(10.0)

    @tf.function
    def step(x: Any) -> Any:
        a.assign_add(x)
        b.assign(a * 2.0)
        a.assign_sub(1.0)
        return a + b

    return [value(step(tf.constant(1.0))), value(step(tf.constant(2.0))), value(a), value(b)]


@remote("A dataset made on a task is walked over there, to its end.")
def walks_on_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        data = tf.data.Dataset.range(5).map(lambda x: x * x).batch(2)
        found = [value(x) for x in data]
        first = next(iter(data))
    return [found, [value(x) for x in data], _place(first)]


@remote("Sources, samples and files of datasets are made and walked over on a task.")
def experimental_datasets_on_tasks(tf: Any, folder: str) -> Any:
    _spec(tf)
    path = f"{folder}/rows.csv"
    with open(path, "w") as file:
        print("a,b", "1,x", "2,y", "3,z", sep="\n", file=file)
    data = tf.data.experimental
    total = data.Reducer(lambda key: tf.constant(0, tf.int64), lambda x, y: x + y, lambda x: x)
    with tf.device(W1):
        numbers = tf.data.Dataset.range(6)
        classes = tf.data.Dataset.from_tensor_slices([0, 1, 1])
        batches = data.make_csv_dataset(path, 2, num_epochs=1, shuffle=False, label_name="b")
        words = tf.data.Dataset.from_tensor_slices(["one", "two"])
        data.TFRecordWriter(f"{folder}/words").write(words)
        return [
            [value(x) for x in batches],
            [value(x) for x in data.from_list([[1], [2, 3]])],
            [value(x) for x in numbers.apply(data.group_by_reducer(lambda x: x % 2, total))],
            [value(x) for x in classes.rejection_resample(lambda x: x, [0.0, 1.0], [0.4, 0.6])],
            value(numbers.batch(6).get_single_element()),
            [value(x) for x in tf.data.TFRecordDataset(f"{folder}/words")],
        ]


@remote("The end of an iterator on a task is raised where it is asked, and nowhere later.")
def ends_of_iterators(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W1):
        it = iter(tf.data.Dataset.range(1))
        found = [value(it.get_next()), error(lambda: it.get_next()), error(lambda: next(it))]
        after = value(tf.constant(1) + 1)
        optional = it.get_next_as_optional()
    return [found, after, value(optional.has_value())]


@remote("An iterator on a task is read by a function, until its end is raised.")
def iterators_in_functions(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        it = iter(tf.data.Dataset.range(3))

    @tf.function
    def pull(it: Any) -> Any:
        return next(it) + 10

    with tf.device(W0):
        found = [value(pull(it)) for _ in range(3)]
        return [found, error(lambda: value(pull(it)))]


@remote("An error in an element of a dataset on a task is raised at that element.")
def errors_of_elements(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        it = iter(tf.data.Dataset.range(3).map(lambda x: 6 // (x - 1)))
        found = [error(lambda: value(next(it))) for _ in range(3)]
        return [found, value(tf.constant(2) * 2)]


@remote("An error of a task is raised where the value is asked for, with its class.")
def errors_of_operations(tf: Any) -> Any:
    _spec(tf)

    def at(call: Any, *words: str) -> Any:
        with tf.device(W0):
            return error(lambda: value(call()), *words)

    found = [
        at(lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))),
        at(lambda: tf.gather(tf.constant([1]), tf.constant(5))),
        at(lambda: tf.reshape(tf.ones([4]), [3])),
        at(lambda: tf.strings.to_number(tf.constant("x"))),
        at(lambda: tf.debugging.check_numerics(tf.constant([1.0]) / 0.0, "here"), "here"),
    ]
    return [found, at(lambda: tf.constant(1) + 1)]


@remote("Assertions about tensors of a task are raised where they stand.")
def assertions_on_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        x = tf.constant([1, -1]) + 0
        return [
            error(lambda: tf.debugging.assert_equal(x, 1), "Condition x == y did not hold"),
            error(lambda: tf.debugging.assert_positive(x), "Condition x > 0 did not hold"),
            error(lambda: tf.debugging.assert_less(x, [0, 0], message="said"), "said"),
            error(lambda: tf.debugging.Assert(tf.reduce_all(x > 0), ["told"]), "told"),
            error(lambda: tf.debugging.assert_equal(x, [1, -1])),
            error(lambda: tf.debugging.assert_rank(x, 2)),
        ]


@remote("An asynchronous scope raises what went wrong in it when it ends.")
def asynchronous_scopes(tf: Any) -> Any:
    _spec(tf)

    def fail() -> None:
        with tf.experimental.async_scope(), tf.device(W0):
            for _ in range(3):
                tf.gather(tf.constant([1.0]), tf.constant(9))

    found = [error(fail)[0] != "nothing was raised"]
    tf.experimental.async_clear_error()
    with tf.device(W0):
        return [*found, value(tf.constant(3.0) + 1.0)]


@remote("A Python function of a program runs in the program, whatever the scope says.")
def python_functions(tf: Any) -> Any:
    _spec(tf)
    seen = []

    def plus(x: Any) -> Any:
        seen.append(1)
        return x + 1

    with tf.device(W0):
        a = tf.py_function(plus, [tf.constant(1)], tf.int32)
        b = tf.numpy_function(plus, [tf.constant(2)], tf.int32)
    return [value(a), value(b), len(seen)]


@remote("Tables and queues live on their task.")
def resources_on_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        queue = tf.queue.FIFOQueue(3, [tf.int32], shapes=[[]])
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    queue.enqueue(4)
    queue.enqueue_many([[5, 6]])
    table.insert(tf.constant(["a"]), tf.constant([7], tf.int64))
    return [
        value(queue.size()),
        value(queue.dequeue()),
        value(queue.dequeue_many(2)),
        value(table.lookup(tf.constant(["a", "b"]))),
        value(table.size()),
    ]


@remote("Ragged and sparse tensors are computed with on a task.")
def composites_on_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W0):
        ragged = tf.ragged.constant([[1, 2], [3]])
        sparse = tf.sparse.from_dense([[0, 1], [2, 0]])
        return [
            value(tf.reduce_sum(ragged, axis=1)),
            _place(ragged.values),
            value(tf.sparse.to_dense(sparse)),
            _place(sparse.values),
        ]


@remote("A generator's state and its draws lie on its task.")
def generators_on_tasks(tf: Any) -> Any:
    _spec(tf)
    with tf.device(W1):
        generator = tf.random.Generator.from_seed(5)
        drawn = generator.normal([2])
    here = tf.random.Generator.from_seed(5).normal([2])
    return [_place(generator.state), _place(drawn), bool((value(drawn) == value(here)).all())]


@changed("Joining the same cluster again keeps what its tasks hold.")
def joined_again(tf: Any) -> Any:
    spec = _spec(tf)
    with tf.device(W0):
        v = tf.Variable([1.0, 2.0])
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(spec))
    with tf.device(W1):
        total = v + 1.0
    return [value(v), value(total), _place(total)]


@changed("A task that is taken out of the cluster is known no more.")
def removed_tasks(tf: Any) -> Any:
    spec = _spec(tf)
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"worker": spec["worker"][:1]}))

    def at(name: str) -> Any:
        with tf.device(name):
            return value(tf.constant(1) + 1)

    found = [at(W0), error(lambda: at(W1))]
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(spec))
    return [*found, at(W1)]
