"""Functions of users in the place of public ones: by type, element by element, with operators."""

# ruff: noqa: UP006, UP007
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eager.behaviours.extension_types import masked
from eager.behaviours.registry import error, program


@contextmanager
def registered(tf: Any, *targets: Any) -> Iterator[None]:
    """Take back what was registered, so that other programs do not meet it."""
    try:
        yield
    finally:
        for target in targets:
            tf.experimental.unregister_dispatch_for(target)


@program
def for_one_function(tf: Any) -> Any:
    Masked = masked(tf)
    both: dict[Any, Any] = {"x": Masked, "y": Masked}

    @tf.experimental.dispatch_for_api(tf.math.add, both)
    def add(x: Any, y: Any, name: Any = None) -> Any:
        return Masked(x.values + y.values, x.mask & y.mask)

    @tf.experimental.dispatch_for_api(tf.concat, {"values": typing.List[Masked]})
    def concat(values: Any, axis: Any) -> Any:
        return Masked(
            tf.concat([v.values for v in values], axis), tf.concat([v.mask for v in values], axis)
        )

    @tf.experimental.dispatch_for_api(tf.reduce_sum)
    def reduce_sum(input_tensor: Masked, axis=None, keepdims=False):  # type: ignore[no-untyped-def]
        return tf.reduce_sum(input_tensor.filled(0), axis, keepdims)

    @tf.experimental.dispatch_for_api(
        tf.where, {1: typing.Union[Masked, tf.Tensor], 2: typing.Union[Masked, tf.Tensor]}
    )
    def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
        return "where"

    one, two = Masked([1, 2], [True, False]), Masked([10, 20], [True, True])
    before = tf.add
    with registered(tf, add, concat, reduce_sum, where):
        found = [
            str(tf.add(one, two)),
            str(tf.math.add(x=one, y=two, name="n")),
            error(lambda: tf.add(1, 2)),
            error(lambda: tf.add(one, 1)),
            str(tf.function(tf.add)(one, two)),
            str(tf.concat([one, two], 0)),
            error(lambda: tf.concat([[1], [2]], 0)),
            error(lambda: tf.concat([one, tf.constant([1])], 0)),
            error(lambda: tf.reduce_sum(one)),
            error(lambda: tf.reduce_sum(one, name="total")),
            error(lambda: tf.reduce_sum(input_tensor=two, axis=0)),
            error(lambda: tf.reduce_sum([1, 2])),
            error(lambda: tf.where(tf.constant(True), one, two)),
            error(lambda: tf.where(tf.constant(True), one, tf.constant(1))),
            error(lambda: tf.where(tf.constant(True), tf.constant(2), tf.constant(1))),
            error(lambda: tf.where([True, False])),
            before is tf.add,
        ]
    return [
        found,
        error(lambda: tf.add(one, two)),
        error(lambda: tf.experimental.unregister_dispatch_for(add), "was not registered"),
        tf.add(1, 2),
    ]


@program
def refused_registrations(tf: Any) -> Any:
    Masked = masked(tf)
    dispatch = tf.experimental.dispatch_for_api

    def target(x: Any, y: Any, name: Any = None) -> Any:
        return x

    @dispatch(tf.math.subtract, {"x": Masked})
    def first(x: Any, y: Any, name: Any = None) -> Any:
        return "first"

    @dispatch(tf.math.subtract, {"y": Masked})
    def second(x: Any, y: Any, name: Any = None) -> Any:
        return "second"

    one = Masked([1], [True])
    with registered(tf, first, second):
        several = [
            tf.subtract(one, 1),
            tf.subtract(1, one),
            error(lambda: tf.subtract(one, one), "Multiple dispatch targets"),
        ]
    return [
        several,
        error(lambda: dispatch(target, {"x": Masked}), "does not support dispatch"),
        error(lambda: dispatch(3), "does not support dispatch"),
        error(lambda: dispatch(tf.add, {"z": Masked}), "unknown parameter 'z'"),
        error(lambda: dispatch(tf.add, [Masked]), "signatures must be dictionaries"),
        error(lambda: dispatch(tf.add, {"x": "Masked"}), "not currently supported"),
        error(lambda: dispatch(tf.add, {"x": Masked})(3)),
        error(lambda: dispatch(tf.add, {"x": Masked})(lambda x: x), "does not match API's"),
        error(lambda: dispatch(tf.add)(lambda x, y: x), "at least one signature"),
        error(lambda: tf.experimental.unregister_dispatch_for(target), "was not registered"),
    ]


@program
def element_by_element(tf: Any) -> Any:
    Masked = masked(tf)
    experimental = tf.experimental

    @experimental.dispatch_for_unary_elementwise_apis(Masked)
    def unary(api_func: Any, x: Any) -> Any:
        return Masked(api_func(x.values), x.mask)

    @experimental.dispatch_for_binary_elementwise_apis(
        typing.Union[Masked, tf.Tensor], typing.Union[Masked, tf.Tensor]
    )
    def binary(api_func: Any, x: Any, y: Any) -> Any:
        x = x if isinstance(x, Masked) else Masked(x, True)
        y = y if isinstance(y, Masked) else Masked(y, True)
        return Masked(api_func(x.values, y.values), x.mask & y.mask)

    @experimental.dispatch_for_binary_elementwise_assert_apis(Masked, Masked)
    def asserts(assert_func: Any, x: Any, y: Any) -> Any:
        both = tf.logical_and(x.mask, y.mask)
        return assert_func(tf.boolean_mask(x.values, both), tf.boolean_mask(y.values, both))

    one, two = Masked([1.0, -2.0], [True, False]), Masked([3.0, 4.0], [True, True])
    tensor = tf.constant([5.0, 6.0])
    # TensorFlow cannot take back what is registered for assertions.
    with registered(tf, unary, binary):
        found = [
            str(tf.abs(one)),
            str(tf.math.abs(x=one, name="n")),
            str(tf.nn.relu(one)),
            str(tf.cast(one, tf.int32)),
            str(tf.cast(dtype=tf.int32, x=one)),
            str(tf.ones_like(one, dtype=tf.int64)),
            str(tf.clip_by_value(one, -1.0, 0.5)),
            str(tf.math.log_sigmoid(one).mask),
            str(tf.add(one, two)),
            str(tf.maximum(one, y=two)),
            str(tf.multiply(one, tensor)),
            str(tf.multiply(x=tensor, y=one)),
            error(lambda: tensor + one),
            str(tensor - one),
            str(tensor * one),
            str(tensor / one),
            str(tensor**one),
            str(tensor < one),
            str(tensor >= one),
            error(lambda: one + tensor),
            error(lambda: 1.0 + one),
            str(tf.math.greater(one, two)),
            str(tf.equal(one, two)),
            str(tf.math.pow(one, tensor)),
            error(lambda: tf.matmul(one, two)),
            error(lambda: tf.reduce_sum(one)),
            tf.debugging.assert_less(one, two),
            error(lambda: tf.debugging.assert_equal(one, two)),
            error(
                lambda: experimental.dispatch_for_unary_elementwise_apis(Masked)(unary),
                "has already been registered",
            ),
            error(
                lambda: experimental.dispatch_for_binary_elementwise_assert_apis(Masked, Masked)(
                    asserts
                ),
                "has already been registered",
            ),
            tf.abs(-1.0),
            tf.function(lambda x, y: tf.exp(x) - tf.square(y))(tensor, one).values,
        ]
    return [
        found,
        error(lambda: tf.abs(one)),
        error(lambda: tensor + one),
    ]


@program
def operators_of_a_class(tf: Any) -> Any:
    class Length(tf.experimental.ExtensionType):
        metres: tf.Tensor

        def __add__(self, other: Any) -> Any:
            return Length(self.metres + getattr(other, "metres", other))

        __radd__ = __add__

        def __rmul__(self, other: Any) -> Any:
            return NotImplemented

        def __rsub__(self, other: Any) -> Any:
            raise ValueError("no")

    one, tensor = Length([1.0, 2.0]), tf.constant([10.0, 20.0])
    return [
        str(one + tensor),
        str(tensor + one),
        str(1.0 + one),
        str(one + one),
        error(lambda: tensor * one),
        error(lambda: tensor - one),
        error(lambda: tensor / one),
        error(lambda: tensor < one),
        str(tf.Variable([1.0, 1.0]) + one),
    ]


@program
def ragged_values_and_dispatch(tf: Any) -> Any:
    Masked = masked(tf)

    @tf.experimental.dispatch_for_api(tf.math.add, {"y": Masked})
    def add(x: Any, y: Any, name: Any = None) -> Any:
        return type(x).__name__

    ragged = tf.ragged.constant([[1], [2, 3]])
    one = Masked([1], [True])
    with registered(tf, add):
        found = [
            tf.add(ragged, one),
            tf.add(ragged, ragged).to_list(),
            ragged + ragged == ragged,
            tf.square([2.0]),
        ]
    return [str(found), tf.square(ragged).to_list()]
