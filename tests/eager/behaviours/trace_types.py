"""tf.types.experimental: what values are, and classes that say what tells traces apart."""

from __future__ import annotations

from typing import Any

from eager.behaviours.registry import program


@program
def what_values_are(tf: Any) -> Any:
    types = tf.types.experimental

    @tf.function
    def f(x: Any, n: int = 1) -> Any:
        return x + n

    concrete = f.get_concrete_function(tf.TensorSpec([2]))
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        variable = tf.Variable(1.0)
    replicas = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(context.replica_id_in_sync_group)
    )
    spec = tf.TensorSpec([2])
    kinds = ("Callable", "GenericFunction", "PolymorphicFunction", "ConcreteFunction")
    return [
        {
            kind: [isinstance(v, getattr(types, kind)) for v in (f, concrete, tf.add, 1)]
            for kind in (*kinds, "AtomicFunction")
        },
        types.GenericFunction is types.PolymorphicFunction,
        isinstance(concrete.inference_fn, types.AtomicFunction),
        [isinstance(v.function_type, types.FunctionType) for v in (f, concrete)],
        list(f.function_type.parameters),
        list(concrete.function_type.parameters),
        str(f.function_type.parameters["x"].kind),
        [isinstance(v, types.TraceType) for v in (spec, tf.RaggedTensorSpec([2, None]), 1)],
        [isinstance(v, types.SupportsTracingProtocol) for v in (tf.constant(1), spec, 1, [])],
        [
            isinstance(v, types.TensorLike)
            for v in (tf.constant(1), tf.Variable(1), 1, "a", [1], (1,), {}, None, spec)
        ],
        [isinstance(v, types.distributed.PerReplica) for v in (replicas, variable, 1)],
        [isinstance(v, types.distributed.Mirrored) for v in (replicas, variable, 1)],
        str(tf.constant(1.0).__tf_tracing_type__(None)),
    ]


def fruits(tf: Any) -> Any:
    class FruitType(tf.types.experimental.TraceType):
        def __init__(self, fruit: Any) -> None:
            self.kind = type(fruit)
            self.fruit = fruit

        def is_subtype_of(self, other: Any) -> bool:
            return type(other) is FruitType and issubclass(self.kind, other.kind)

        def most_specific_common_supertype(self, others: Any) -> Any:
            return self if all(self == other for other in others) else None

        def placeholder_value(self, placeholder_context: Any) -> Any:
            return self.fruit

        def __eq__(self, other: object) -> bool:
            return type(other) is FruitType and self.kind is other.kind

        def __hash__(self) -> int:
            return hash(self.kind)

    class Fruit:
        flavour = 1

        def __tf_tracing_type__(self, context: Any) -> Any:
            return FruitType(self)

    class Apple(Fruit):
        flavour = 2

    class Mango(Fruit):
        flavour = 3

    return Fruit, Apple, Mango


@program
def traces_by_class(tf: Any) -> Any:
    _, Apple, Mango = fruits(tf)
    traced: list[Any] = []

    @tf.function
    def mixed(a: Any, b: Any, x: Any = 1.0) -> Any:
        traced.append((type(a).__name__, type(b).__name__))
        return tf.constant(a.flavour) * 10 + b.flavour

    found = [
        mixed(Apple(), Mango()),
        mixed(Apple(), Mango()),
        mixed(Mango(), Apple()),
        mixed(Apple(), Mango()),
        mixed([Apple(), Apple()][0], Apple()),
    ]
    return [found, traced]


@program
def traces_by_subtypes(tf: Any) -> Any:
    Fruit, Apple, Mango = fruits(tf)
    traced: list[Any] = []

    @tf.function
    def flavour(fruit: Any) -> Any:
        traced.append(type(fruit).__name__)
        return tf.constant(fruit.flavour)

    found = [flavour(Fruit()), flavour(Apple()), flavour(Mango()), flavour(Fruit())]
    return [found, traced, flavour.experimental_get_tracing_count()]
