"""A library's own class of values and specs, derived as TensorFlow Probability does."""

import tensorflow as tf
from tensorflow.python.framework import composite_tensor, type_spec, type_spec_registry
from tensorflow.python.ops import control_flow_util
from tensorflow.python.util import dispatch, tf_inspect


class Interval(composite_tensor.CompositeTensor):
    """From where to where."""

    def __init__(self, low, high, unit="m"):
        self.low = tf.convert_to_tensor(low)
        self.high = tf.convert_to_tensor(high)
        self.unit = unit

    @property
    def _type_spec(self):
        return IntervalSpec(self.low.shape, self.low.dtype, self.unit)

    def __repr__(self):
        return f"Interval({self.low.numpy().tolist()}, {self.high.numpy().tolist()}, {self.unit})"


@type_spec_registry.register("tideflow.IntervalSpec")
class IntervalSpec(type_spec.BatchableTypeSpec):
    """The shape, type and unit of an interval."""

    def __init__(self, shape, dtype, unit="m"):
        self.shape_ = tf.TensorShape(shape)
        self.dtype = tf.as_dtype(dtype)
        self.unit = unit

    value_type = property(lambda self: Interval)

    @property
    def _component_specs(self):
        one = tf.TensorSpec(self.shape_, self.dtype)
        return {"low": one, "high": one}

    def _to_components(self, value):
        return {"low": value.low, "high": value.high}

    def _from_components(self, components):
        return Interval(components["low"], components["high"], self.unit)

    def _serialize(self):
        return self.shape_, self.dtype, self.unit

    def _batch(self, batch_size):
        return IntervalSpec(tf.TensorShape([batch_size]).concatenate(self.shape_), self.dtype)

    def _unbatch(self):
        return IntervalSpec(self.shape_[1:], self.dtype, self.unit)


@dispatch.dispatch_for_types(tf.math.negative, Interval)
def negative(x, name=None):
    return Interval(-x.high, -x.low, x.unit)


interval = Interval([1.0, 2.0], [2.0, 4.0])
spec = interval._type_spec
print(spec, spec == IntervalSpec([2], tf.float32), isinstance(spec, tf.TypeSpec))
print(isinstance(tf.TensorSpec([1]), tf.TypeSpec), issubclass(tf.RaggedTensorSpec, tf.TypeSpec))
print(isinstance(tf.TensorSpec([1]), type_spec.BatchableTypeSpec))
print(isinstance(tf.ragged.constant([[1]]), composite_tensor.CompositeTensor))
print(
    type_spec_registry.lookup("tideflow.IntervalSpec") is IntervalSpec,
    type_spec_registry.get_name(IntervalSpec),
)
print([t.numpy().tolist() for t in tf.nest.flatten(interval, expand_composites=True)])
print(spec.most_specific_compatible_type(IntervalSpec([3], tf.float32)))
print(spec.is_compatible_with(interval), spec.is_compatible_with(Interval([1.0], [2.0])))
print(-1 * (tf.math.negative(interval).low).numpy(), tf.math.negative(2.0).numpy())


@tf.function
def widened(x, by):
    return Interval(x.low - by, x.high + by, x.unit)


print(widened(interval, 1.0), widened(Interval([0], [1], "s"), 2))
print(tf.cond(tf.constant(True), lambda: interval, lambda: widened(interval, 1.0)))
rows = tf.data.Dataset.from_tensor_slices(interval)
print(rows.element_spec, list(rows), list(rows.batch(2)))
print(list(rows.map(lambda x: x.high - x.low).as_numpy_iterator()))
for wrong in (
    lambda: spec._from_tensor_list([tf.constant(1)]),
    lambda: type_spec_registry.lookup("no.x"),
):
    try:
        wrong()
    except ValueError as error:
        print("refused", type(error).__name__)


@dispatch.add_dispatch_support
def double(x):
    return x * 2


@tf.experimental.dispatch_for_api(double, {"x": Interval})
def double_interval(x):
    return Interval(x.low * 2, x.high * 2, x.unit)


@dispatch.register_dispatchable_type
class Symbol:
    pass


class Unknown:
    pass


@tf.experimental.dispatch_for_api(tf.math.negative, {"x": Symbol})
def negative_symbol(x, name=None):
    return "-symbol"


class Names(dispatch.GlobalOpDispatcher):
    def handle(self, op, args, kwargs):
        if any(isinstance(value, Unknown) for value in (*args, *kwargs.values())):
            return f"{op.__name__} of what is unknown"
        return self.NOT_SUPPORTED


exp = tf.exp
Names().register()
print(double(2), double(interval), tf.negative(Symbol()))
print(exp(Unknown()), "|", tf.reduce_max(Unknown(), axis=0), "|", tf.add(1, y=Unknown()))
print(tf.exp(0.0).numpy(), tf.reduce_max([1, 2]).numpy())
try:
    tf.exp(object())
except (TypeError, ValueError):
    print("refused")

for function in (tf.rank, tf.concat):
    print(tf_inspect.getfullargspec(function))
print(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))
