"""`tf.function`: traces, their arguments and what they say of themselves."""

# ruff: noqa: RET504, C416 - programs are written as users write them

from __future__ import annotations

from typing import Any

import numpy as np

from eager.behaviours.registry import error, program


@program
def a_nested_function_traced_inside_another(tf: Any) -> Any:
    @tf.function
    def inner(x: Any) -> Any:
        return x * 2.0

    @tf.function
    def outer(x: Any) -> Any:
        y = x + 1.0
        return inner(y)

    return [outer(tf.constant(1.0)), outer(tf.constant([1.0, 2.0])), inner(tf.constant(3.0))]


@program
def a_nested_function_that_captures(tf: Any) -> Any:
    @tf.function
    def outer(x: Any) -> Any:
        y = x + 1.0

        @tf.function
        def inner(z: Any) -> Any:
            return z * y

        return inner(x)

    return [outer(tf.constant(1.0)), outer(tf.constant([1.0, 2.0])), outer(tf.constant(2.0))]


@program
def a_method_that_keeps_a_placeholder(tf: Any) -> Any:
    holder: dict[str, Any] = {}

    @tf.function
    def inner(z: Any) -> Any:
        return z * holder["y"]

    @tf.function
    def outer(x: Any) -> Any:
        holder["y"] = x + 1.0
        return inner(x)

    return [outer(tf.constant(1.0)), outer(tf.constant([1.0, 2.0])), outer(tf.constant(2.0))]


@program
def iterators_as_arguments(tf: Any) -> Any:
    traces = []

    @tf.function
    def step(it: Any) -> Any:
        traces.append(1)
        return next(it) + 1

    data = tf.data.Dataset.range(3)
    one, two = iter(data), iter(data)
    return [step(one), step(one), step(two), step(iter(tf.data.Dataset.range(9))), len(traces)]


@program
def datasets_as_arguments(tf: Any) -> Any:
    traces = []

    @tf.function
    def total(data: Any) -> Any:
        traces.append(1)
        return data.reduce(np.int64(0), lambda a, b: a + b)

    return [total(tf.data.Dataset.range(3)), total(tf.data.Dataset.range(5)), len(traces)]


@program
def variables_as_arguments(tf: Any) -> Any:
    traces = []

    @tf.function
    def double(v: Any) -> Any:
        traces.append(1)
        v.assign(v * 2.0)
        return v.read_value()

    a, b, c = tf.Variable(1.0), tf.Variable(3.0), tf.Variable([1.0, 2.0])
    return [double(a), double(b), double(c), double(a), len(traces), a, b, c]


@program
def one_variable_twice(tf: Any) -> Any:
    traces = []

    @tf.function
    def add(v: Any, w: Any) -> Any:
        traces.append(1)
        v.assign_add(1.0)
        return v + w

    a, b = tf.Variable(1.0), tf.Variable(3.0)
    return [add(a, b), add(b, a), add(a, a), add(b, b), len(traces)]


@program
def gradients_by_variables_as_arguments(tf: Any) -> Any:
    @tf.function
    def f(v: Any) -> Any:
        return v * v

    a, b = tf.Variable(1.0), tf.Variable(3.0)
    found = []
    for v in (a, b):
        with tf.GradientTape() as tape:
            y = f(v)
        found.append(tape.gradient(y, v))
    return found


@program
def a_variable_initialised_from_an_argument(tf: Any) -> Any:
    class Layer:
        def __init__(self) -> None:
            self.w = None

        @tf.function
        def __call__(self, x: Any) -> Any:
            if self.w is None:
                self.w = tf.Variable(x * 2.0)
            return self.w * x

    layer = Layer()
    found = [layer(tf.constant(3.0)), layer(tf.constant(1.0))]
    return [*found, layer.w]


@program
def a_variable_initialised_from_a_random_value(tf: Any) -> Any:
    state: dict[str, Any] = {}

    @tf.function
    def f(x: Any) -> Any:
        if "w" not in state:
            state["w"] = tf.Variable(tf.ones([2, 2]) * 3.0)
            state["b"] = tf.Variable(lambda: tf.zeros([2]))
        return x @ state["w"] + state["b"]

    return [f(tf.ones([1, 2])), f(tf.ones([3, 2])), state["w"], state["b"]]


@program
def a_variable_made_each_time(tf: Any) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        return tf.Variable(x) + 1.0

    return error(
        lambda: f(tf.constant(1.0)),
        "tf.function only supports singleton tf.Variables created on the first call",
    )


@program
def traces_by_python_values(tf: Any) -> Any:
    traces = []

    @tf.function
    def f(x: Any, flag: Any = True) -> Any:
        traces.append(flag)
        return x

    f(1)
    f(1)
    f(2)
    f(1.0)
    f(tf.constant(1))
    f(tf.constant(5))
    f(np.float32(1.0))
    f(np.float32(2.0))
    f(1, False)
    f(True)
    f("a")
    f((1, 2))
    f([1, 2])
    return [len(traces), f.experimental_get_tracing_count()]


@program
def traces_under_reduce_retracing(tf: Any) -> Any:
    found = []

    @tf.function(reduce_retracing=True)
    def f(x: Any) -> Any:
        found.append(str(x.shape))
        return tf.reduce_sum(x)

    for n in (1, 2, 3, 4):
        f(tf.ones([n]))
    f(tf.ones([2, 2]))
    f(tf.ones([3, 2]))
    f(tf.ones([3, 3, 3]))
    f(tf.constant(1.0))
    f(tf.ones([2], tf.int32))
    return [found, f.experimental_get_tracing_count()]


@program
def traces_of_numbers_under_reduce_retracing(tf: Any) -> Any:
    count = []

    @tf.function(reduce_retracing=True)
    def f(x: Any) -> Any:
        count.append(1)
        return x

    return [[f(n) for n in (1, 2, 3)], len(count), f.experimental_get_tracing_count()]


@program
def effects_in_order(tf: Any) -> Any:
    v = tf.Variable(0.0)

    @tf.function
    def f() -> Any:
        with tf.control_dependencies([v.assign_add(1.0)]):
            return v.read_value() * 2.0

    @tf.function
    def g() -> Any:
        op = v.assign_add(1.0)
        with tf.control_dependencies([op, tf.constant(1.0)]):
            x = tf.identity(v)
        return x

    return [f(), g(), v]


@program
def functions_of_a_class(tf: Any) -> Any:
    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.v = tf.Variable(2.0)

        @tf.function
        def __call__(self, x: Any) -> Any:
            return self.v * x

    a, b = Model(), Model()
    b.v.assign(5.0)
    return [a(tf.constant(1.0)), b(tf.constant(1.0)), [v.name for v in a.trainable_variables]]


@program
def errors_of_signatures(tf: Any) -> Any:
    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32)])
    def f(x: Any) -> Any:
        return x

    return [
        error(lambda: f(tf.constant([1.0]))),
        error(lambda: f(tf.constant([1, 2]))),
        error(lambda: f()),
        error(lambda: f(1.0, 2.0)),
        error(lambda: f([1.0, 2.0])),
        error(lambda: f(np.array([1.0, 2.0]))),
        error(lambda: tf.function(lambda x: x)()),
        error(lambda: tf.function(lambda x: x)(1, 2)),
        error(lambda: tf.function(lambda x: x)(y=1)),
    ]


@program
def a_tensor_out_of_its_function(tf: Any) -> Any:
    kept = []

    @tf.function
    def f(x: Any) -> Any:
        kept.append(x + 1)
        return x

    f(tf.constant(1))
    return [
        error(lambda: kept[0] + 1, "out of scope"),
        error(lambda: tf.function(lambda: kept[0] + 1)(), "out of scope"),
        error(lambda: kept[0].numpy()),
        error(lambda: bool(kept[0])),
    ]


@program
def tensors_as_python_in_functions(tf: Any) -> Any:
    def traced(body: Any) -> Any:
        return error(lambda: tf.function(body, autograph=False)(tf.constant([1.0, 2.0])))

    return [
        traced(lambda x: x if x[0] > 0 else 0),
        traced(lambda x: [i for i in x]),
        traced(lambda x: np.array(x)),
        traced(lambda x: int(x[0])),
        traced(lambda x: float(x[0])),
        traced(lambda x: len(x)),
        traced(lambda x: x.numpy()),
        traced(lambda x: hash(x)),
        traced(lambda x: x.shape[0]),
    ]


@program
def tensors_print_in_functions(tf: Any) -> Any:
    found = []

    @tf.function
    def f(x: Any) -> Any:
        y = x + 1
        found.extend([str(x), repr(x), str(y), repr(y), y.name, y.op.name, y.op.type, str(x.shape)])
        return y

    f.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))
    return found


@program
def none_and_structures_come_back(tf: Any) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        return None, {"a": x, "b": [1, 2.5, "s", True]}, (x,)

    return f(tf.constant(1))


@program
def run_functions_eagerly(tf: Any) -> Any:
    calls = []

    @tf.function
    def f(x: Any) -> Any:
        calls.append(tf.executing_eagerly())
        return x + 1

    tf.config.run_functions_eagerly(True)
    try:
        f(1)
        f(2)
    finally:
        tf.config.run_functions_eagerly(False)
    f(tf.constant(1))
    return [calls, tf.config.functions_run_eagerly()]


@program
def summaries_of_retracing(tf: Any) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        tf.debugging.assert_positive(x)
        return tf.sqrt(x)

    return [f(tf.constant(4.0)), error(lambda: f(tf.constant(-4.0)))]


@program
def a_branch_on_a_constant_is_built_with_the_other(tf: Any) -> Any:
    built = []

    def branch(value: float) -> Any:
        built.append(value)
        return tf.constant(value)

    @tf.function
    def cond(a: Any) -> Any:
        return tf.cond(tf.reduce_sum(a) > 1, lambda: branch(1.0), lambda: branch(2.0))

    @tf.function
    def case() -> Any:
        return tf.switch_case(tf.constant(1), [lambda: branch(3.0), lambda: branch(4.0)])

    @tf.function
    def listed(a: Any) -> Any:
        return tf.cond(tf.reduce_sum(a) > 1, lambda: tf.square(a), lambda: a + -2.0)

    @tf.function
    def plain(a: Any) -> Any:
        return tf.cond(True, lambda: a, lambda: -a)

    return [
        cond([1.0, 2.0]),
        case(),
        built,
        error(lambda: listed([1.0, 2.0])),
        error(lambda: plain(1.0), "pred must not be a Python bool"),
    ]


@program
def a_trace_for_open_shapes_serves_all_that_fit(tf: Any) -> Any:
    traced = []

    @tf.function
    def f(a: Any) -> Any:
        traced.append(a.shape.rank)
        return a * 2

    f(tf.constant([1, 2]))
    f.get_concrete_function(tf.TensorSpec([None], tf.int32))
    f.get_concrete_function(tf.TensorSpec(None, tf.int32))
    f.get_concrete_function(tf.TensorSpec([None, 3], tf.int32))
    calls = [f(tf.constant(value)) for value in ([1, 2], [1, 2, 3], 4, [[1, 2, 3]], [[1, 2]])]
    f(tf.constant(1.0))
    return [calls, traced, f.experimental_get_tracing_count()]


@program
def branches_of_different_structures(tf: Any) -> Any:
    x = tf.constant(1.0)
    pairs = [
        (lambda: [1.0, 2.0, 3.0], lambda: x),
        (lambda: [x, x], lambda: [x]),
        (lambda: x, lambda: [x]),
        (lambda: (x, x), lambda: [x, x]),
        (lambda: {"a": x}, lambda: {"b": x}),
        (lambda: {"a": x}, lambda: [x]),
        (lambda: None, lambda: x),
        (lambda: x, lambda: tf.constant(1)),
    ]
    found = []

    @tf.function(autograph=False)
    def f(n: Any) -> Any:
        for one, other in pairs:
            found.append(error(lambda one=one, other=other: tf.cond(n > 2, one, other)))
            found.append(error(lambda one=one, other=other: tf.switch_case(n, [one, other])))
        return n

    f(tf.constant(3))
    return found


@program
def shapes_of_what_a_loop_fills(tf: Any) -> Any:
    found = {}

    @tf.function
    def f(n: Any) -> Any:
        filled = tf.TensorArray(tf.float32, 3)
        for i in tf.range(3):
            filled = filled.write(i, tf.ones([2]))
        found["stack"] = filled.stack().shape
        found["read"] = filled.read(0).shape
        found["gather"] = filled.gather([0]).shape
        found["concat"] = filled.concat().shape
        found["of a size that is fed"] = tf.TensorArray(tf.float32, n).write(0, [1.0]).stack().shape
        grows = tf.TensorArray(tf.float32, 0, dynamic_size=True)
        found["grows"] = grows.write(0, tf.ones([2])).stack().shape
        found["the one written to"] = grows.element_shape
        found["refused"] = error(lambda: grows.write(0, tf.ones([3])))
        parts = tf.TensorArray(tf.float32, 3).split(tf.ones([6, 2]), [1, 2, 3])
        found["parts"] = parts.stack().shape
        found["map_fn"] = tf.map_fn(lambda e: e * 2.0, tf.ones([2, 3])).shape
        found["map_fn of n"] = tf.map_fn(lambda e: e * 2.0, tf.ones([n, 3])).shape
        found["vectorized_map"] = tf.vectorized_map(lambda e: e * 2.0, tf.ones([2, 3])).shape
        return n

    f(tf.constant(3))
    return {key: str(one) for key, one in found.items()}


@program
def built_in_functions_of_datasets(tf: Any) -> Any:
    numbers = tf.data.Dataset.range(4)

    @tf.function
    def counted(a: Any) -> Any:
        for i, e in enumerate(numbers, 1):
            a = a * 2 + i * e
        return a

    @tf.function
    def beside(a: Any) -> Any:
        for x, y in zip(numbers, numbers.skip(1)):
            a = a * 3 + x * y
        return a

    @tf.function
    def chosen(a: Any) -> Any:
        for x in filter(lambda q: q > 1, numbers):
            a = a * 5 + x
        for x in map(lambda p, q: p * q, numbers, numbers):
            a = a * 2 + x
        return a

    @tf.function
    def summed_up() -> Any:
        large = numbers.map(lambda x: x > 2)
        return len(numbers), any(large), all(large)

    @tf.function
    def how_many() -> Any:
        return len(numbers.filter(lambda x: x > 1))

    one = tf.constant(1, tf.int64)
    called = [counted(one), beside(one), chosen(one), summed_up()]
    return [*called, error(how_many)]


@program
def a_vector_sorted_by_python(tf: Any) -> Any:
    @tf.function
    def arranged(a: Any) -> Any:
        return sorted(a), sorted(a, reverse=True), sorted(a, key=lambda x: (x - 2.0) ** 2)

    return arranged(tf.constant([3.0, 1.0, 2.5]))


@program
def signatures_that_do_not_fit(tf: Any) -> Any:
    spec = tf.TensorSpec([], tf.int32)

    class Holder(tf.Module):  # type: ignore[misc]
        def method(self, x: Any) -> Any:
            return x

    given: list[tuple[Any, Any]] = [
        (lambda x: x, ()),
        (lambda x, y: x, (spec,)),
        (lambda x, y=3: x, (spec,)),
        (lambda x: x, (spec, spec)),
        (lambda x, *more: x, (spec, spec, spec)),
        (lambda x, *, key: x, (spec,)),
        (lambda x, *, key=1, **more: x, (spec,)),
        (lambda: 1, ()),
        (Holder().method, ()),
        (Holder.method, (spec,)),
    ]
    return [
        error(lambda f=f, specs=specs: tf.function(input_signature=specs)(f) and "made")
        for f, specs in given
    ]
