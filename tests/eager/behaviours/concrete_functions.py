"""Concrete functions: their arguments, inputs and outputs, and what they say of themselves."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from eager.behaviours.registry import error, program


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
def concrete_functions_as_attributes_of_operations(tf: Any) -> Any:
    one, scalar = tf.constant(1.0), tf.TensorSpec([])
    v = tf.Variable(3.0)

    def traced(function: Any, *specs: Any) -> Any:
        return tf.function(function, autograph=False).get_concrete_function(*specs or [scalar])

    more, double, adds_v = (traced(f) for f in (lambda x: x + 1, lambda x: x * 2, lambda x: x + v))
    less = traced(lambda x: x < 10.0)
    second = traced(lambda x, y: y + 1, scalar, scalar)
    count = traced(lambda x: x + 1, tf.TensorSpec([], tf.int64))

    def calls() -> Any:
        raw, types = tf.raw_ops, [tf.float32]
        branches = {"then_branch": more, "else_branch": double}
        return [
            raw.StatefulPartitionedCall(args=[one], Tout=types, f=more),
            raw.PartitionedCall(args=[one], Tout=types, f=more.name),
            raw.StatefulPartitionedCall(args=[one, *adds_v.captured_inputs], Tout=types, f=adds_v),
            raw.PartitionedCall(args=[one, one + 1], Tout=types, f=second),
            raw.StatelessIf(cond=one > 0, input=[one], Tout=types, **branches),
            raw.If(cond=one < 0, input=[one], Tout=types, **branches),
            raw.StatelessCase(branch_index=1, input=[one], Tout=types, branches=[more, double]),
            raw.Case(branch_index=5, input=[one], Tout=types, branches=[more, double]),
            raw.StatelessWhile(input=[one], cond=less, body=double),
            raw.While(input=[one], cond=less, body=more),
        ]

    variant = tf.raw_ops.MapDataset(
        input_dataset=tf.data.experimental.to_variant(tf.data.Dataset.range(3)),
        other_arguments=[],
        f=count,
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    mapped = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.int64))
    return [
        calls(),
        tf.function(calls)(),
        list(mapped),
        error(lambda: tf.raw_ops.PartitionedCall(args=[one], Tout=[tf.float32], f=7)),
        [(arg.name, arg.type) for arg in second.function_def.signature.input_arg],
    ]


@program
def graphs_of_functions(tf: Any) -> Any:
    v = tf.Variable(2.0)
    shift = tf.constant([1.0, 2.0])

    @tf.function
    def f(x: Any, d: Any) -> Any:
        return {"o": x * v + d["k"]}, tf.reduce_sum(x), shift - x

    c = f.get_concrete_function(
        tf.TensorSpec([2], tf.float32), {"k": tf.TensorSpec([], tf.float32)}
    )
    ops = [(op.name, op.type) for op in c.graph.get_operations() if op.type != "NoOp"]
    return [
        ops,
        [t.name for t in c.inputs],
        [t.name for t in c.outputs],
        [t.name for t in c.graph.outputs],
        [str(t) for t in tf.nest.flatten(c.graph.structured_outputs)],
        [arg.name for arg in c.function_def.signature.input_arg],
        [arg.name for arg in c.function_def.signature.output_arg],
        dict(c.function_def.ret),
        c(tf.constant([1.0, 2.0]), {"k": tf.constant(3.0)}),
    ]


@program
def graphs_of_dataset_functions(tf: Any) -> Any:
    seen: list[Any] = []

    def note(*given: Any) -> Any:
        seen.append([(t.name, t.op.type) for t in tf.nest.flatten(given)])
        return given[0]

    numbers = tf.data.Dataset.range(2)
    list(tf.data.Dataset.zip((numbers, numbers)).map(note).filter(lambda x: note(x) >= 0))
    list(tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [3, 4]}).map(note))
    return seen


@program
def signatures_that_do_not_fit(tf: Any) -> Any:
    spec = tf.TensorSpec([], tf.float32)

    class Model:
        @tf.function(input_signature=[spec])
        def double(self, x: Any) -> Any:
            return x * 2.0

    model = Model()

    def keyword_only(x: Any, *, k: Any) -> Any:
        return x + k

    def made(function: Any, signature: Any) -> Any:
        return error(
            lambda: type(tf.function(function, input_signature=signature)).__name__,
            "missing type constraint for y",
            "contains 1 extra type constraint",
            "keyword-only parameter `k` must have a default value",
            "must be either a tuple or a list",
        )

    return [
        made(lambda x, y: x + y, [spec])[:2],
        made(lambda x, y: x, [spec] * 3)[:2],
        made(keyword_only, [spec])[:2],
        made(lambda x: x, spec)[:2],
        made(lambda x: x, [3])[0],
        tf.function(lambda x, y=2.0: x * y, input_signature=[spec])(3.0),
        tf.function(lambda *xs: xs[0] + xs[1], input_signature=[spec, spec])(1.0, 2.0),
        model.double(4.0),
    ]
