"""`tf.function`: traces, their arguments and what they say of themselves."""

# ruff: noqa: RET504, C416 - programs are written as users write them

from __future__ import annotations

import collections
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
def concrete_under_an_input_signature(tf: Any) -> Any:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x: Any) -> Any:
        return x + 1.0

    c = f.get_concrete_function()
    return [
        c(tf.constant([1.0])),
        c(x=tf.constant([1.0, 2.0])),
        c.structured_input_signature,
        [t.name for t in c.inputs],
        [str(t.shape) for t in c.inputs],
    ]


@program
def concrete_under_a_signature_and_given_specs(tf: Any) -> Any:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def f(x: Any) -> Any:
        return x + 1.0

    return [
        f.get_concrete_function(tf.TensorSpec([3], tf.float32)).structured_input_signature,
        f.get_concrete_function(tf.constant([1.0])).structured_input_signature,
        error(lambda: f.get_concrete_function(tf.TensorSpec([3], tf.int32))),
    ]


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
def concrete_functions_errors(tf: Any) -> Any:
    @tf.function
    def f(x: Any, n: int = 2) -> Any:
        return x * float(n)

    c = f.get_concrete_function(tf.TensorSpec([2], tf.float32))
    return [
        error(lambda: c(tf.constant([1, 2]))),
        error(lambda: c(tf.constant([1.0]))),
        error(lambda: c()),
        error(lambda: c(tf.constant([1.0, 1.0]), tf.constant(1.0))),
        error(lambda: c(y=tf.constant([1.0, 1.0]))),
        error(lambda: c([1.0, 2.0])),
        error(lambda: c(np.array([1.0, 2.0], np.float32))),
        error(lambda: c(np.array([1.0, 2.0]))),
        error(lambda: c("a")),
        error(lambda: c(tf.constant([1.0, 1.0]), 2)),
        error(lambda: c(tf.constant([1.0, 1.0]), 3)),
        error(lambda: c(tf.constant([1.0, 1.0]), n=2)),
    ]


@program
def concrete_functions_of_open_shapes(tf: Any) -> Any:
    @tf.function
    def f(x: Any) -> Any:
        return tf.reduce_sum(x)

    c = f.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))
    d = f.get_concrete_function(tf.TensorSpec(None, tf.float32))
    return [
        c(tf.ones([1, 2])),
        c(tf.ones([3, 2])),
        d(tf.ones([3, 2])),
        d(tf.constant(1.0)),
        error(lambda: c(tf.ones([3, 3]))),
        c is f.get_concrete_function(tf.TensorSpec([None, 2], tf.float32)),
    ]


@program
def inputs_and_outputs_of_concrete_functions(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0], name="w")

    @tf.function
    def f(x: Any, y: Any = None, *, scale: Any) -> Any:
        return {"a": x * v * scale, "b": (y, x)}

    c = f.get_concrete_function(
        tf.TensorSpec([2], tf.float32),
        tf.TensorSpec([], tf.int32),
        scale=tf.TensorSpec([], tf.float32, name="s"),
    )
    return {
        "inputs": [t.name for t in c.inputs],
        "types": [t.op.type for t in c.inputs],
        "outputs": [t.name for t in c.outputs],
        "shapes": [str(t.shape) for t in c.inputs],
        "structured_input_signature": repr(c.structured_input_signature),
        "structured_outputs": repr(c.structured_outputs),
        "output_shapes": repr(c.output_shapes),
        "output_dtypes": repr(c.output_dtypes),
        "variables": [w.name for w in c.variables],
        "trainable": [w.name for w in c.trainable_variables],
        "captured": len(c.captured_inputs),
        "graph": [t.name for t in c.graph.inputs],
        "name": c.name.startswith(b"__inference_f_"),
        "type": type(c).__name__,
        "placeholders": [op.name for op in c.graph.get_operations() if op.type == "Placeholder"],
    }


@program
def names_of_inputs(tf: Any) -> Any:
    Point = collections.namedtuple("Point", "px py")

    @tf.function
    def f(x: Any, pair: Any, d: Any, p: Any, *rest: Any, **named: Any) -> Any:
        return x

    one = tf.TensorSpec([], tf.float32)
    c = f.get_concrete_function(
        one, (one, one), {"k": one, "a": one}, Point(one, one), one, one, z=one
    )
    return [
        [t.name for t in c.inputs],
        [op.name for op in c.graph.get_operations()],
        repr(c.structured_input_signature),
    ]


@program
def the_function_def(tf: Any) -> Any:
    @tf.function
    def f(x: Any, y: Any) -> Any:
        return x + y, x

    d = f.get_concrete_function(
        tf.TensorSpec([2], tf.float32), tf.TensorSpec([2], tf.float32)
    ).function_def
    return [
        d.signature.name.startswith("__inference_f_"),
        [a.name for a in d.signature.input_arg],
        [a.type for a in d.signature.input_arg],
        [a.name for a in d.signature.output_arg],
        dict(d.ret),
        [n.op for n in d.node_def],
    ]


@program
def pretty_printed_signatures(tf: Any) -> Any:
    @tf.function
    def f(x: Any, n: Any = 3) -> Any:
        return {"out": x * n}

    f(tf.constant([1.0]))
    f(tf.constant([1, 2]), 4)
    return [f.pretty_printed_concrete_signatures(), f.experimental_get_tracing_count()]


@program
def concrete_functions_print(tf: Any) -> Any:
    @tf.function
    def f(x: Any, y: Any = 2) -> Any:
        return x * 2, [x]

    c = f.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))
    number = c.name.decode().rpartition("_")[2]
    return [
        str(c).replace(number, "N"),
        repr(c).replace(number, "N").partition(" at 0x")[0],
        c.pretty_printed_signature().replace(number, "N"),
        repr(f).partition(" at 0x")[0],
        str(f).partition(" at 0x")[0],
        f.__name__,
        f.__doc__,
    ]


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
def sparse_tensors_by_their_specs(tf: Any) -> Any:
    traced: list[Any] = []

    @tf.function(input_signature=[tf.SparseTensorSpec([None, None], tf.int32)])
    def total(x: Any) -> Any:
        traced.append([x.shape.as_list(), x.indices.shape.as_list(), x.dense_shape.shape.as_list()])
        return tf.sparse.reduce_sum(x)

    @tf.function
    def dense(x: Any, y: Any) -> Any:
        return tf.sparse.to_dense(x) * y

    small = tf.sparse.from_dense([[0, 1], [2, 0]])
    large = tf.sparse.from_dense([[0, 1, 0], [2, 0, 4]])
    spec = tf.SparseTensorSpec([None, 2], tf.int32)
    concrete = dense.get_concrete_function(x=spec, y=tf.TensorSpec([], tf.int32))
    return [
        total(small),
        total(large),
        traced,
        total.get_concrete_function()(large),
        concrete(x=small, y=tf.constant(3)),
        str(concrete.structured_input_signature),
        [one.shape.as_list() for one in concrete.inputs],
        error(lambda: total(tf.ones([2, 2], tf.int32))),
        error(lambda: total(tf.cast(small, tf.float32))),
    ]


@program
def ragged_tensors_by_their_specs(tf: Any) -> Any:
    traced: list[Any] = []
    spec = tf.RaggedTensorSpec([None, None, 2], tf.float32, ragged_rank=1)

    @tf.function(input_signature=[{"a": spec, "b": (tf.TensorSpec([]), spec)}])
    def total(given: Any) -> Any:
        traced.append([given["a"].shape.as_list(), given["a"].flat_values.shape.as_list()])
        return tf.reduce_sum(given["a"], [1, 2]) + given["b"][0] * tf.reduce_sum(given["b"][1])

    @tf.function
    def rows(x: Any) -> Any:
        return x.nrows(), tf.reduce_sum(x, 1)

    def ragged(*lengths: int) -> Any:
        return tf.RaggedTensor.from_row_lengths(tf.ones([sum(lengths), 2]), lengths)

    given = {"a": ragged(1, 2), "b": (tf.constant(2.0), ragged(3))}
    other = {"a": ragged(1, 2, 0), "b": (tf.constant(1.0), ragged(0))}
    concrete = rows.get_concrete_function(spec)
    whole = tf.cast(ragged(1), tf.int32)
    return [
        total(given),
        total(other),
        traced,
        concrete(ragged(0, 2)),
        str(concrete.structured_input_signature),
        error(lambda: total({**given, "a": whole})),
        error(lambda: total({**given, "b": tf.constant(1.0)})),
    ]


@program
def datasets_and_optionals_by_their_specs(tf: Any) -> Any:
    element = tf.TensorSpec([], tf.int64)

    @tf.function(input_signature=[tf.data.DatasetSpec(element), tf.OptionalSpec(element)])
    def total(numbers: Any, more: Any) -> Any:
        found = more.get_value()
        for x in numbers:
            found += x
        return found

    more = tf.experimental.Optional.from_value(tf.constant(3, tf.int64))
    return [total(tf.data.Dataset.range(4), more), total(tf.data.Dataset.range(6), more)]
