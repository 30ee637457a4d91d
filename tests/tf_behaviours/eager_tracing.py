"""Contexts and traced functions: devices, modes, signatures, retracing, captures."""

from __future__ import annotations

import collections
import functools
import threading
import weakref
from typing import Any

import numpy as np

from shown_values import value
from tf_behaviours.registry import behaviour, error

_EAGER = "python/eager"
contexts = functools.partial(behaviour, f"{_EAGER}/context_test.py")
tracing = functools.partial(
    behaviour, f"{_EAGER}/polymorphic_function/polymorphic_function_test.py"
)
arguments = functools.partial(behaviour, f"{_EAGER}/polymorphic_function/argument_naming_test.py")


# ---- contexts


@contexts("Devices are configured before they are used; afterwards that is refused.")
def late_configuration(tf: Any) -> Any:
    tf.constant(1.0)
    cpu = tf.config.list_physical_devices("CPU")[0]
    made = tf.config.LogicalDeviceConfiguration
    return [
        error(lambda: tf.config.set_logical_device_configuration(cpu, [made()] * 3)),
        len(tf.config.list_logical_devices("CPU")),
        error(lambda: tf.config.set_logical_device_configuration(cpu, [made(memory_limit=5)])),
        [type(x).__name__ for x in tf.config.list_physical_devices("CPU")],
        tf.config.list_logical_devices("GPU"),
    ]


@contexts("Logical devices are told by name and type, of all kinds or of one.")
def lists_of_devices(tf: Any) -> Any:
    found = tf.config.list_logical_devices()
    return [
        [(d.name, d.device_type) for d in found],
        [d.name for d in tf.config.list_logical_devices(device_type="CPU")],
        [d.name for d in tf.config.list_physical_devices("CPU")],
        [d.name for d in tf.config.get_visible_devices("CPU")],
        error(lambda: tf.config.set_visible_devices([], "CPU")),
        error(lambda: tf.config.experimental.get_memory_growth("nonsense")),
    ]


@contexts("A scope of a device is for its thread alone, and ends where it ends.")
def devices_of_threads(tf: Any) -> Any:
    found = []

    def elsewhere() -> None:
        found.append(tf.constant(1.0).device)

    with tf.device("CPU:1"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        found.append(tf.constant(1.0).device)
        with tf.device(None):
            found.append(tf.constant(1.0).device)
        with tf.device("CPU:0"):
            found.append((tf.constant(1.0) + 1.0).device)
        found.append((tf.constant(1.0) + 1.0).device)
    return [*found, tf.constant(1.0).device]


@contexts("Devices are named in many ways; names that are none are refused.")
def names_of_devices(tf: Any) -> Any:
    def at(name: Any) -> Any:
        with tf.device(name):
            return tf.constant(1.0).device

    return [
        [at(n) for n in ("cpu:1", "/cpu:1", "/device:CPU:1", "/job:localhost/device:CPU:1")],
        at(tf.DeviceSpec(device_type="CPU", device_index=1)),
        error(lambda: at("nonsense")),
        error(lambda: at("/job:worker/task:3/device:CPU:0")),
        error(lambda: at("CPU:x")),
        error(lambda: at(3)),
    ]


@contexts("Soft placement is on, and can be asked and changed while programs run.")
def soft_placement(tf: Any) -> Any:
    before = tf.config.get_soft_device_placement()
    found = []
    for soft in (True, False):
        tf.config.set_soft_device_placement(soft)

        def at_gpu() -> Any:
            with tf.device("GPU:0"):
                return (tf.constant(1.0) + 1.0).device

        found.append([tf.config.get_soft_device_placement(), error(at_gpu)])
    tf.config.set_soft_device_placement(before)
    return [before, found]


@contexts("Operations can be logged with their places, and the switch tells its state.")
def placement_logs(tf: Any) -> Any:
    before = tf.debugging.get_log_device_placement()
    tf.debugging.set_log_device_placement(False)
    return [before, tf.debugging.get_log_device_placement()]


@contexts(
    "Graphs turn eager execution off within, and functions and init scopes turn it on and off."
)
def modes(tf: Any) -> Any:
    found = [tf.executing_eagerly(), tf.inside_function()]
    with tf.Graph().as_default():
        found += [tf.executing_eagerly(), tf.inside_function()]
        with tf.init_scope():
            found.append(tf.executing_eagerly())

    @tf.function
    def f() -> None:
        found.extend([tf.executing_eagerly(), tf.inside_function()])
        with tf.init_scope():
            found.extend([tf.executing_eagerly(), tf.inside_function()])

    f()
    return found


@contexts("Functions run as Python where that is asked for, and say so.")
def functions_as_python(tf: Any) -> Any:
    calls = []

    @tf.function
    def f(x: Any) -> Any:
        calls.append(tf.executing_eagerly())
        return x + 1

    found = [value(f(tf.constant(1))), value(f(tf.constant(2)))]
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        found += [value(f(tf.constant(3))), value(f(tf.constant(4)))]
        inside = tf.config.functions_run_eagerly()
    finally:
        tf.config.run_functions_eagerly(False)
    return [found, before, inside, tf.config.functions_run_eagerly(), calls]


@contexts("A tensor's device is where it was made; copies go where they are asked to.")
def places_of_tensors(tf: Any) -> Any:
    with tf.device("CPU:1"):
        a = tf.constant([1.0])
        v = tf.Variable(1.0)
    b = tf.identity(a)
    with tf.device("CPU:1"):
        c = tf.identity(b)
    return [a.device, a.backing_device, b.device, c.device, v.device, (v + 1.0).device]


@contexts("The seed of a context makes draws repeat, also those of functions.")
def seeds(tf: Any) -> Any:
    def draw() -> Any:
        tf.random.set_seed(3)
        return [value(tf.random.uniform([])), value(tf.function(lambda: tf.random.normal([]))())]

    first, second = draw(), draw()
    return [first[0] == second[0], first[1] == second[1]]


# ---- functions


@tracing("A function is traced for each type and rank, and not for each value of tensors.")
def traces(tf: Any) -> Any:
    seen = []

    @tf.function
    def f(x: Any) -> Any:
        seen.append((x.dtype.name, x.shape.as_list()) if tf.is_tensor(x) else x)
        return x

    for x in (
        tf.constant(1),
        tf.constant(2),
        tf.constant(1.0),
        tf.constant([1]),
        np.float32(1.0),
        np.array([5], np.int32),
        1,
        2,
        1,
        True,
        1.0,
        "a",
        None,
    ):
        f(x)
    return [seen, f.experimental_get_tracing_count()]


@tracing("Functions are methods of their instances, each with traces of its own.")
def methods(tf: Any) -> Any:
    made = []

    class Adder:
        def __init__(self, by: int) -> None:
            self.by = by

        @tf.function
        def add(self, x: Any) -> Any:
            made.append(self.by)
            return x + self.by

    one, two = Adder(1), Adder(2)
    found = [value(a.add(tf.constant(1))) for a in (one, two, one)]
    gone = weakref.ref(two)
    del two
    return [found, made, gone() is None, value(Adder.add(one, tf.constant(5)))]


@tracing("A variable that is made in the first call is made once; in later calls it is refused.")
def variables_of_functions(tf: Any) -> Any:
    held = []

    @tf.function
    def once(x: Any) -> Any:
        if not held:
            held.append(tf.Variable(2.0))
        return held[0] * x

    @tf.function
    def always() -> Any:
        return tf.Variable(1.0) + 1.0

    kept = []

    @tf.function
    def more() -> Any:
        kept.append(tf.Variable(1.0))
        return kept[-1] + 1.0

    return [
        value(once(tf.constant(3.0))),
        value(once(tf.constant([4.0]))),
        len(held),
        error(always, "singleton tf.Variable"),
        error(more, "singleton tf.Variable"),
    ]


@tracing("What a function gives keeps its structure; what is no tensor is refused.")
def structures_of_results(tf: Any) -> Any:
    Pair = collections.namedtuple("Pair", ["a", "b"])

    def given(result: Any) -> Any:
        return tf.function(lambda x: result(x))(tf.constant(1))

    pair = given(lambda x: Pair(x, [x + 1]))
    return [
        type(pair).__name__,
        value(pair.b),
        value(given(lambda x: {"k": (x, None)})),
        given(lambda x: None) is None,
        type(given(lambda x: [1, 2.0])[0]).__name__ != "int",
        error(lambda: given(lambda x: object())),
        given(lambda x: ()) == (),
        type(given(lambda x: [x])).__name__,
        value(given(lambda x: collections.OrderedDict(b=x, a=x))),
        error(lambda: value(given(lambda x: "text"))),
    ]


@tracing("Arguments of a signature are cast to it, and refused where they cannot be.")
def signatures(tf: Any) -> Any:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.int32)])
    def f(x: Any, n: Any = 2) -> Any:
        return tf.reduce_sum(x) * tf.cast(n, tf.float32)

    t = tf.constant
    return [
        value(f(t([1.0, 2.0]), t(3))),
        value(f([1.0, 2.0], 3)),
        value(f(n=2, x=[1.0])),
        error(lambda: f(t([[1.0]]), 1)),
        error(lambda: f(t([1], tf.int64), 1)),
        error(lambda: f(t([1.0]), 1.5)),
        error(lambda: f([1.0])),
        error(lambda: f()),
        error(lambda: f([1.0], 1, 2)),
        error(lambda: f(["a"], 1)),
        error(lambda: tf.function(lambda x: x, input_signature=3)(1)),
        error(lambda: tf.function(lambda x: x, input_signature=[3])(1)),
        f.experimental_get_tracing_count(),
    ]


@tracing("A function of a signature is refused where it takes fewer arguments than it names.")
def signatures_that_do_not_fit(tf: Any) -> Any:
    spec = tf.TensorSpec([], tf.int32)
    return [
        error(lambda: tf.function(lambda x: x, input_signature=[spec, spec])(1, 2)),
        error(lambda: tf.function(lambda x, y: x, input_signature=[spec])(1, 2)),
        error(lambda: value(tf.function(lambda *a: a[0] + a[1], input_signature=[spec] * 2)(1, 2))),
        error(lambda: value(tf.function(lambda x, y=3: x + y, input_signature=[spec])(1))),
        error(lambda: value(tf.function(lambda: 4, input_signature=[])())),
        error(lambda: tf.function(lambda: 4, input_signature=[])(1)),
    ]


@tracing("Sizes that change make a function trace once for open sizes, where it is told so.")
def reduced_retracing(tf: Any) -> Any:
    seen = []

    @tf.function(reduce_retracing=True)
    def f(x: Any) -> Any:
        seen.append(x.shape.as_list())
        return tf.reduce_sum(x)

    for n in range(1, 6):
        f(tf.ones([n, 2]))
    return [seen, f.experimental_get_tracing_count()]


@tracing("A function captures tensors by value and variables by reference.")
def captures(tf: Any) -> Any:
    t, v = tf.constant(2.0), tf.Variable(3.0)
    held = {"n": 1.0}

    @tf.function
    def f(x: Any) -> Any:
        return x * t + v + held["n"]

    found = [value(f(tf.constant(1.0)))]
    v.assign(10.0)
    t = tf.constant(100.0)
    held["n"] = 50.0
    found.append(value(f(tf.constant(1.0))))
    concrete = f.get_concrete_function(tf.TensorSpec([], tf.float32))
    return [found, len(concrete.captured_inputs), len(concrete.inputs), len(concrete.variables)]


@tracing("Effects of a function happen in the order of its lines, printed and assigned.")
def order_of_effects(tf: Any) -> Any:
    v = tf.Variable(1.0)

    @tf.function
    def f() -> Any:
        a = v.read_value()
        v.assign_add(1.0)
        b = v.read_value()
        v.assign(b * 10.0)
        if v > 15.0:
            v.assign_sub(1.0)
        return a, b, v.read_value()

    return [value(f()), value(f()), value(v)]


@tracing("Functions call each other, and are traced within the trace that calls them.")
def nested_functions(tf: Any) -> Any:
    seen = []

    @tf.function
    def inner(x: Any) -> Any:
        seen.append("inner")
        return x * 2

    @tf.function
    def outer(x: Any) -> Any:
        seen.append("outer")
        return inner(x) + inner(x + 1)

    return [
        value(outer(tf.constant(1))),
        value(inner(tf.constant(5))),
        value(outer(tf.constant(2))),
        seen,
    ]


@tracing("A function that calls itself without end is refused.")
def endless_functions(tf: Any) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        return f(x)

    @tf.function
    def countdown(n: Any) -> Any:
        return countdown(n - 1) + 1 if n > 0 else 0

    return [error(lambda: f(tf.constant(1)))[0] != "nothing was raised", value(countdown(4))]


@tracing("Concrete functions take tensors by position and name, and keep Python values.")
def concrete_calls(tf: Any) -> Any:
    @tf.function
    def f(x: Any, scale: Any, y: Any) -> Any:
        return x * scale + y

    spec = tf.TensorSpec([], tf.float32)
    one = f.get_concrete_function(spec, 3.0, tf.TensorSpec([], tf.float32, name="last"))
    t = tf.constant
    return [
        error(lambda: value(one(t(1.0), t(2.0)))),
        error(lambda: value(one(x=t(1.0), y=t(2.0)))),
        error(lambda: value(one(t(1.0), 3.0, t(2.0)))),
        error(lambda: value(one(t(1.0), 4.0, t(2.0)))),
        error(lambda: one(t(1.0))),
        error(lambda: one(t(1.0), t(2.0), z=t(3.0))),
        [i.name for i in one.inputs],
    ]


@tracing("A call with arguments of another type than the trace's is refused.")
def other_types_for_traces(tf: Any) -> Any:
    one = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([None], tf.float32))
    return [
        value(one(tf.constant([1.0, 2.0]))),
        error(lambda: one(tf.constant([1], tf.int32))),
        error(lambda: one(tf.constant("a"))),
        error(lambda: one()),
    ]


@tracing("Errors of a traced function are those of Python, and leave the function usable.")
def errors_in_traces(tf: Any) -> Any:
    calls = []

    @tf.function
    def f(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("first")
        return x + 1

    return [
        error(lambda: f(tf.constant(1)), "first"),
        value(f(tf.constant(1))),
        error(lambda: tf.function(lambda x: {}[x])(1)),
        error(lambda: tf.function(lambda x: tf.constant([1]) + x)("a")),
    ]


@tracing("Gradients go through functions, called within a tape or holding one.")
def gradients_of_functions(tf: Any) -> Any:
    v = tf.Variable(3.0)

    @tf.function
    def square(x: Any) -> Any:
        return x * x * v

    @tf.function
    def inside(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = square(x)
        return tape.gradient(y, [x, v])

    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = square(x)
        first = tape.gradient(y, x)
    return [
        value(first),
        value(outer.gradient(first, x)),
        value(outer.gradient(y, v)),
        value(inside(x)),
    ]


@tracing("A decorated function keeps its name, text and signature.")
def decorated(tf: Any) -> Any:
    @tf.function
    def named(a: Any, b: Any = 2) -> Any:
        """Say."""
        return a + b

    return [
        named.__name__,
        named.__doc__,
        named.python_function.__name__,
        value(named(1)),
        value(tf.function(functools.partial(named.python_function, b=5))(1)),
        value(tf.function(named.python_function, autograph=False)(4)),
        named.input_signature,
    ]


@tracing("Dicts, tuples and lists as arguments tell traces apart by their structure.")
def structures_of_arguments(tf: Any) -> Any:
    seen = []

    @tf.function
    def f(x: Any) -> Any:
        seen.append(type(x).__name__)
        return tf.add_n(tf.nest.flatten(x))

    t = tf.constant
    found = [
        value(f(x))
        for x in (
            (t(1), t(2)),
            [t(1), t(2)],
            {"a": t(1), "b": t(2)},
            {"b": t(3), "a": t(4)},
            (t(5),),
        )
    ]
    return [found, seen]


@tracing("A hashable object is an argument by its equality; the function sees the first one.")
def equal_objects(tf: Any) -> Any:
    class Key:
        def __init__(self, k: int) -> None:
            self.k = k

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Key) and self.k == other.k

        def __hash__(self) -> int:
            return hash(self.k)

    seen = []

    @tf.function
    def f(key: Any) -> Any:
        seen.append(key.k)
        return tf.constant(key.k)

    keys = [Key(k) for k in (1, 1, 2, 1)]
    return [[value(f(key)) for key in keys], seen]


@arguments("Inputs are named by parameters, with the names of specs before them.")
def names_of_inputs(tf: Any) -> Any:
    spec = tf.TensorSpec([], tf.float32)

    def names(f: Any, *args: Any, **kwargs: Any) -> Any:
        made = tf.function(f).get_concrete_function(*args, **kwargs)
        return [i.name for i in made.inputs]

    return [
        names(lambda x, y: x + y, spec, spec),
        names(lambda *args: args[0] + args[1], spec, spec),
        names(lambda **k: k["b"] + k["a"], b=spec, a=spec),
        names(lambda d: d["u"] + d["v"][0], {"u": spec, "v": [spec]}),
        names(lambda x: x, tf.TensorSpec([], tf.float32, name="given")),
        error(
            lambda: names(
                lambda x, y: x + y,
                tf.TensorSpec([], tf.float32, name="same"),
                tf.TensorSpec([], tf.float32, name="same"),
            )
        ),
    ]
