# ruff: noqa: SLF001 - libraries use these names
"""What a library of probability takes from TensorFlow's own modules, and does with it."""

import collections
import contextlib
import io

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import composite_tensor, ops, tensor_spec, tensor_util, type_spec
from tensorflow.python.ops import array_ops, control_flow_case, resource_variable_ops
from tensorflow.python.ops.parallel_for import control_flow_ops
from tensorflow.python.util import deprecation, nest, tf_inspect, variable_utils

Pair = collections.namedtuple("Pair", "loc scale")


def tried(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except (TypeError, ValueError) as error:
        return type(error).__name__


def shown(structure):
    def show(leaf):
        if isinstance(leaf, (tf.Tensor, tf.Variable)):
            return np.asarray(leaf).tolist()
        return leaf

    return nest.map_structure(show, structure)


# Structures, as far as others go, and the paths in them.
shallow = {"a": None, "b": [None, None]}
deep = {"a": Pair(1, 2), "b": [[3, 4], {"c": 5}]}
print(nest.flatten_up_to(shallow, deep))
print(nest.map_structure_up_to(shallow, lambda x, y: (x, y), deep, deep))
print(tried(nest.flatten_up_to, [None, None], [1, 2, 3]))
print(tried(nest.flatten_up_to, [None], (1,)), nest.flatten_up_to([None], (1,), check_types=False))
print(tried(nest.flatten_up_to, {"a": None}, {"b": 1}), tried(nest.flatten_up_to, [None], 3))
print(list(nest.yield_flat_paths(deep)))
print(nest.flatten_with_tuple_paths([{"x": 1}, Pair(2, 3)]))
print(nest.flatten_with_joined_string_paths({"x": [1, {"y": 2}]}))
print(nest.map_structure_with_tuple_paths(lambda path, x: (path, x), [1, {"k": 2}]))
print(nest.get_traverse_shallow_structure(lambda s: not isinstance(s, Pair), deep))
print(nest.list_to_tuple([1, [2, {"a": [3]}]]), nest.flatten_dict_items({("a", "b"): (1, 2)}))
print(nest._sequence_like(Pair(0, 0), [1, 2]), nest._is_namedtuple(Pair(1, 2)))
slices = tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))
print(len(nest.flatten_up_to(slices, slices, expand_composites=True)))

# Values: variables and shapes.
v = tf.Variable([1.0, 2.0], name="v")
print(shown(variable_utils.convert_variables_to_tensors([v, {"k": 3}])))
spec = resource_variable_ops.VariableSpec.from_value(v)
print(spec, isinstance(v, composite_tensor.CompositeTensor), v._type_spec.trainable)
print(
    spec.is_compatible_with(tf.Variable([3.0, 4.0])),
    issubclass(tensor_spec.DenseSpec, type_spec.TypeSpec),
)
print(tensor_util.constant_value_as_shape(tf.constant([2, -1, 3])))
print(
    ops.convert_to_tensor_or_composite(slices) is slices,
    shown(ops.convert_to_tensor_or_composite(2)),
)
print(shown(array_ops.prevent_gradient(tf.constant(2.0))))


# Control flow.
def branch(value):
    return control_flow_case._case_helper(
        tf.cond,
        [(value > 2.0, lambda: tf.constant("large")), (value > 1.0, lambda: tf.constant("some"))],
        lambda: tf.constant("small"),
        False,
        "sizes",
    )


print(
    [branch(tf.constant(x)).numpy() for x in (0.0, 1.5, 3.0)],
    tf.function(branch)(tf.constant(1.5)).numpy(),
)
print(shown(control_flow_ops.pfor(lambda i: {"square": i * i}, 4)))
print(
    type(tf.while_loop(lambda a, b: a < 3.0, lambda a, b: Pair(a + b, b), Pair(0.0, 1.0))).__name__
)


# A gradient of one's own, for structures.
@tf.custom_gradient
def product(pair):
    return pair._replace(loc=pair.loc * pair.scale), lambda d_loc, d_scale: Pair(
        d_loc * 7.0, d_scale
    )


with tf.GradientTape() as tape:
    given = Pair(tf.constant(2.0), tf.constant(3.0))
    tape.watch(given)
    result = product(given)
print(shown(result), shown(tape.gradient(result, given)))


# Functions and modules that libraries of layers rearrange.
@tf.function
def double(x):
    return x * 2.0


double._decorate(lambda function: lambda x: function(x) + 1.0)
print(double(tf.constant(3.0)).numpy(), tried(double._decorate, lambda function: function))


class Scale(tf.Module):
    def __init__(self):
        super().__init__()
        self.by = {"x": tf.Variable(2.0, name="by")}
        self.again = [self.by["x"]]


module = Scale()
print(
    [
        path
        for path, _ in module._flatten(
            predicate=lambda x: isinstance(x, tf.Variable), with_path=True
        )
    ]
)
print(len(module.variables))


# What is deprecated.
@deprecation.deprecated(None, "Use another one.")
def old(x, y=1):
    return x + y


@deprecation.deprecated_args(None, "Leave it out.", "b")
def with_old(a, b=None):
    return a


@deprecation.deprecated_arg_values(None, "Give another value.", b=1)
def with_values(a, b=1):
    return a + b


with deprecation.silence(), contextlib.redirect_stderr(io.StringIO()):
    print(old(1), with_old(1, b=2), with_values(2), deprecation.deprecated_alias("a", "b", old)(3))
print(
    tf_inspect.getfullargspec(old).args,
    tried(deprecation.deprecated_args(None, "x", "c"), with_old),
)
print(
    tf_inspect.getfullargspec(tf.reduce_sum).defaults, tf_inspect.getfullargspec(tf.size).defaults
)
