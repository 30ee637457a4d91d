"""tf.function: traces, arguments, results, errors."""

# ruff: noqa: SIM108 - programs are written as users write them

from __future__ import annotations

import collections
import functools
import gc
import weakref
from typing import Any

import numpy as np

from shown_values import value
from tf_behaviours.registry import behaviour, error

functions = functools.partial(
    behaviour, "python/eager/polymorphic_function/polymorphic_function_test.py"
)

Pair = collections.namedtuple("Pair", ["a", "b"])


def _counted(tf: Any, **given: Any) -> Any:
    """Return a function that gives its argument, and the list of what it was traced with."""
    traces: list[str] = []

    @tf.function(**given)
    def f(x: Any) -> Any:
        traces.append(str(getattr(x, "shape", x)))
        return x

    return f, traces


@functions("Another shape, type or Python value is another trace; equal ones are not.")
def traces_by_arguments(tf: Any) -> Any:
    f, traces = _counted(tf)
    for x in (
        tf.zeros([2]),
        tf.ones([2]),
        tf.zeros([3]),
        tf.zeros([2], tf.int32),
        1,
        1,
        2,
        1.0,
        True,
        "a",
        None,
        np.zeros([2], np.float32),
        np.float32(1),
    ):
        f(x)
    return traces


@functions("Where retracing is to be less, sizes that differ become unknown.")
def relaxed_shapes(tf: Any) -> Any:
    f, traces = _counted(tf, reduce_retracing=True)
    for shape in ([1], [2], [3], [2, 2], [3, 2], [4, 2], [2, 3]):
        f(tf.zeros(shape))
    return traces


@functions("Ragged arguments are traced by their spec, not by the shapes of their parts.")
def ragged_arguments(tf: Any) -> Any:
    f, traces = _counted(tf)
    for rows in ([[1], [2, 3]], [[1, 2], [3]], [[1], [2], [3]], [[[1]]]):
        f(tf.ragged.constant(rows))
    return traces


@functions("Iterators of elements of one kind share a trace.")
def iterators_as_arguments(tf: Any) -> Any:
    traces = []

    @tf.function
    def f(x: Any) -> Any:
        traces.append(1)

    for n in (1, 1, 2):
        f(iter(tf.data.Dataset.from_tensors(tf.zeros([n, 2]))))
    return len(traces)


@functions("Named tuples, dicts, lists and nested ones are arguments and results.")
def structures(tf: Any) -> Any:
    @tf.function
    def swapped(p: Any) -> Any:
        return Pair({"x": p.b["x"], "y": [p.a, (p.a + 1,)]}, None)

    found = swapped(Pair(tf.constant(1), {"x": tf.constant(2)}))
    return [type(found).__name__, type(found.a["y"]).__name__, value(found)]


@functions("A set cannot be an argument; an object is known by what it is.")
def objects_as_arguments(tf: Any) -> Any:
    traces = []

    @tf.function
    def f(x: Any) -> Any:
        traces.append(1)

    class Thing:
        def __repr__(self) -> str:
            return "thing"

    thing = Thing()
    f(thing)
    f(thing)
    f(Thing())
    return [error(lambda: f(set())), error(lambda: f({1, 2})), len(traces)]


@functions("An input signature converts arguments and refuses others.")
def input_signatures(tf: Any) -> Any:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x: Any) -> Any:
        return x * 2

    return [
        value(f([1.0, 2.0])),
        value(f(np.array([3.0], np.float32))),
        value(f([1])),
        error(lambda: f(tf.constant(1.0))),
        error(lambda: f(tf.constant([1]))),
        error(lambda: f()),
        error(lambda: f([1.0], [2.0])),
        error(lambda: f(y=[1.0])),
        value(f(x=[5.0])),
        error(lambda: f(["a"])),
    ]


@functions("Signatures have structures and defaults, and leave out what has a default.")
def signatures_with_structures(tf: Any) -> Any:
    spec = tf.TensorSpec([], tf.int32)

    @tf.function(input_signature=[{"a": spec, "b": [spec, spec]}, spec])
    def f(d: Any, c: Any = 10) -> Any:
        return d["a"] + d["b"][0] * d["b"][1] + c

    @tf.function(input_signature=(spec,))
    def g(a: Any, b: Any = 5) -> Any:
        return a + b

    return [
        value(f({"a": 1, "b": [2, 3]}, 4)),
        error(lambda: value(f({"a": 1, "b": [2, 3]}))),
        value(g(1)),
        error(lambda: g(1, 2)),
        error(lambda: f({"a": 1, "b": [2]}, 1)),
    ]


@functions("A variable is made in the first call alone.")
def variables_made_once(tf: Any) -> Any:
    class Holder:
        v = None

    holder = Holder()

    @tf.function
    def counted() -> Any:
        if holder.v is None:
            holder.v = tf.Variable(1.0)
        return holder.v.assign_add(1.0)

    @tf.function
    def always() -> Any:
        return tf.Variable(1.0)

    return [value(counted()), value(counted()), error(always, "tf.function only supports")]


@functions("A concrete function knows its variables, trainable ones apart.")
def variables_of_concrete_functions(tf: Any) -> Any:
    a, b = tf.Variable(1.0, trainable=False, name="a"), tf.Variable(2.0, name="b")

    @tf.function
    def f() -> Any:
        return a + b

    found = f.get_concrete_function()
    return [
        sorted(v.name for v in found.variables),
        [v.name for v in found.trainable_variables],
        len(found.captured_inputs),
        sorted(v.name for v in found.graph.variables),
        [value(x) for x in [found()]],
    ]


@functions("A concrete function of unknown sizes takes any, by position or by name.")
def concrete_functions(tf: Any) -> Any:
    @tf.function
    def f(pair: Any, scale: Any) -> Any:
        return tf.matmul(pair[0], pair[1]) * scale

    square = tf.TensorSpec([None, None], tf.float32)
    found = f.get_concrete_function((square, square), 2.0)
    named = f.get_concrete_function(
        [
            tf.TensorSpec([None, None], tf.float32, name="one"),
            tf.TensorSpec([None, None], tf.float32, name="two"),
        ],
        3.0,
    )
    t = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    return [
        str(found.output_shapes),
        value(found(t, t)),
        value(named(one=t, two=t)),
        [i.name for i in named.inputs],
        str(named.output_dtypes),
        error(lambda: found(t)),
        error(lambda: named(one=t)),
        error(lambda: found(tf.constant([[1]]), t)),
    ]


@functions("Side effects happen in the order of the program, and ops without use run if stateful.")
def order_of_effects(tf: Any) -> Any:
    v = tf.Variable(1.0)

    @tf.function
    def f() -> Any:
        a = v + 0.0
        v.assign(5.0)
        b = v + 0.0
        v.assign_add(2.0)
        return a, b, v.read_value()

    @tf.function
    def fails() -> Any:
        tf.debugging.assert_equal(1, tf.constant(2))
        return tf.constant(1)

    return [value(f()), value(v), error(fails)]


@functions("Python's effects happen while it is traced alone.")
def effects_of_python(tf: Any) -> Any:
    seen = []

    @tf.function
    def f(x: Any) -> Any:
        seen.append("traced")
        return x

    for i in range(3):
        f(tf.constant(i))
    tf.config.run_functions_eagerly(True)
    try:
        f(tf.constant(1))
        eagerly = tf.config.functions_run_eagerly()
    finally:
        tf.config.run_functions_eagerly(False)
    return [seen, eagerly, f.experimental_get_tracing_count()]


@functions("Methods are functions of each instance, and keep no instance alive.")
def methods(tf: Any) -> Any:
    class Model:
        def __init__(self, n: int) -> None:
            self.n = n
            self.traces = 0

        @tf.function
        def scaled(self, x: Any) -> Any:
            self.traces += 1
            return x * self.n

    one, two = Model(2), Model(3)
    found = [value(m.scaled(tf.constant(4))) for m in (one, two, one)]
    traces = [one.traces, two.traces]
    alive = weakref.ref(two)
    del two
    gc.collect()
    return [found, traces, alive() is None]


@functions("A function calls itself through Python alone where a base case is found in tracing.")
def recursion(tf: Any) -> Any:
    @tf.function
    def power(x: Any, n: int) -> Any:
        return tf.constant(1) if n == 0 else x * power(x, n - 1)

    return value(power(tf.constant(2), 5))


@functions("An error in the body is the caller's, of its class, with the function's lines.")
def errors_in_bodies(tf: Any) -> Any:
    @tf.function
    def fails(x: Any) -> Any:
        return tf.reshape(x, [3]) if x.shape[0] == 2 else tf.debugging.check_numerics(x, "bad")

    class Own(Exception):
        pass

    @tf.function
    def raises() -> Any:
        raise Own("own")

    return [
        error(lambda: fails(tf.zeros([2]))),
        error(lambda: fails(tf.constant([float("nan")])), "bad"),
        error(raises, "own"),
    ]


@functions("What is returned may be None, a Python value, a variable or a composite.")
def results(tf: Any) -> Any:
    v = tf.Variable(3)
    nothing = tf.function(lambda: None)
    number = tf.function(lambda: 5)
    variable = tf.function(lambda: v)
    thin = tf.function(lambda: tf.SparseTensor([[0]], [1], [2]))
    uneven = tf.function(lambda: tf.ragged.constant([[1], [2, 3]]))
    empty = tf.function(lambda: ())
    mixed = tf.function(lambda: {"a": [1, None], "b": ()})
    return [
        nothing(),
        value(number()),
        type(number()).__name__,
        value(variable()),
        value(thin()),
        value(uneven()),
        empty(),
        value(mixed()),
        error(tf.function(lambda: object())),
        error(tf.function(lambda: "text")),
    ]


@functions("Tensors that leak out of a trace cannot be used.")
def leaked_tensors(tf: Any) -> Any:
    kept = []

    @tf.function
    def f(x: Any) -> Any:
        kept.append(x + 1)
        return x

    f(tf.constant(1))
    return [
        error(lambda: kept[0] + 1),
        error(lambda: bool(kept[0] > 1)),
        error(tf.function(lambda: kept[0] + 1)),
        error(lambda: kept[0].numpy()),
    ]


@functions("AutoGraph converts ifs, loops, breaks and logical operators over tensors.")
def autograph(tf: Any) -> Any:
    @tf.function
    def collatz(n: Any) -> Any:
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
            if steps > 100:
                break
        return steps

    @tf.function
    def both(x: Any) -> Any:
        if (x > 1 and not x > 5) or x == 7:
            return "in"
        return "out"

    @tf.function(autograph=False)
    def plain(x: Any) -> Any:
        return x if x > 1 else -x

    return [
        value(collatz(tf.constant(6))),
        [value(both(tf.constant(n))) for n in (0, 3, 6, 7)],
        error(lambda: plain(tf.constant(1))),
    ]


@functions("Keyword arguments and defaults give the trace that positions give.")
def keyword_arguments(tf: Any) -> Any:
    traces = []

    @tf.function
    def f(a: Any, b: Any = 2, *rest: Any, c: Any = 3, **more: Any) -> Any:
        traces.append(1)
        return a + b + c + sum(rest) + sum(more.values())

    one = tf.constant(1)
    found = [f(one), f(a=one), f(one, 2), f(one, b=2, c=3), f(one, 2, 4, 5), f(one, d=one, c=7)]
    return [value(found), len(traces), error(lambda: f()), error(lambda: f(one, a=one))]


@functions(
    "A partial and a lambda are functions; a function is its own decorator's python_function."
)
def callables(tf: Any) -> Any:
    def times(a: Any, b: Any) -> Any:
        """Multiply."""
        return a * b

    f = tf.function(times)
    p = tf.function(functools.partial(times, b=3))
    return [
        value(p(tf.constant(2))),
        f.__name__,
        f.__doc__,
        f.python_function is times,
        value(tf.function(lambda x: x)(1)),
        f.function_spec is not None,
        error(lambda: tf.function(3)(1)),
    ]


@functions("control_dependencies make an op run first; control flow within keeps its own order.")
def control_dependencies(tf: Any) -> Any:
    v = tf.Variable(0)

    @tf.function
    def f() -> Any:
        with tf.control_dependencies([v.assign(3)]):
            read = v + 1
        done = tf.group(v.assign_add(1))
        with tf.control_dependencies([done]):
            return read, tf.identity(v)

    return [value(f()), value(v)]


@functions("init_scope lifts out of all functions.")
def init_scopes(tf: Any) -> Any:
    found = []

    @tf.function
    def inner() -> Any:
        with tf.init_scope():
            found.append(tf.executing_eagerly())
            t = tf.constant(3)
        found.append(tf.executing_eagerly())
        return t + 1

    @tf.function
    def outer() -> Any:
        return inner()

    return [value(outer()), found, tf.inside_function()]


@functions("A function that is compiled gives the same, and says what it is.")
def attributes(tf: Any) -> Any:
    @tf.function(experimental_implements="my.op", jit_compile=False)
    def f(x: Any) -> Any:
        return x + 1

    cf = f.get_concrete_function(tf.TensorSpec([], tf.int32))
    return [
        value(f(1)),
        cf.name.startswith(b"__inference_f")
        if isinstance(cf.name, bytes)
        else cf.name.startswith("__inference_f"),
        str(cf.structured_input_signature),
        str(cf.structured_outputs),
        [op.type for op in cf.graph.get_operations()],
    ]


@functions("Where a tensor is needed in tracing, its Python value cannot be had.")
def python_values_in_traces(tf: Any) -> Any:
    return [
        error(lambda: tf.function(lambda x: int(x))(tf.constant(1))),
        error(lambda: tf.function(lambda x: float(x))(tf.constant(1.0))),
        error(lambda: tf.function(lambda x: np.sin(x))(tf.constant(1.0))),
        error(lambda: tf.function(lambda x: list(range(x)))(tf.constant(1))),
        error(lambda: tf.function(lambda x: len(x))(tf.zeros([3]))),
        error(lambda: tf.function(lambda x: x.numpy())(tf.constant(1))),
    ]


@functions("Random ops give new numbers in each call, and the same after the seed is set.")
def random_ops(tf: Any) -> Any:
    @tf.function
    def f() -> Any:
        return tf.random.uniform([], seed=5)

    tf.random.set_seed(1)
    one = [float(f()) for _ in range(2)]
    tf.random.set_seed(1)
    two = [float(f()) for _ in range(2)]
    return [one == two, len(set(one))]


@functions("Captured tensors are what they were when the function was traced.")
def captured_tensors(tf: Any) -> Any:
    x = tf.constant(1)

    @tf.function
    def f() -> Any:
        return x + 1

    found = [value(f())]
    x = tf.constant(10)
    found.append(value(f()))
    n = [3]

    @tf.function
    def g() -> Any:
        return tf.constant(n[0])

    found.append(value(g()))
    n[0] = 4
    found.append(value(g()))
    return found


@functions("Gradients of functions: of several results, of unused ones and of second order.")
def gradients(tf: Any) -> Any:
    v = tf.Variable(2.0)

    @tf.function
    def f(x: Any) -> Any:
        return x * v, v * v * v, tf.constant(1)

    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            a, b, c = f(x)
        first = tape.gradient(b, v)
    return value([tape.gradient(a, [x, v]), first, outer.gradient(first, v), tape.gradient(c, v)])
