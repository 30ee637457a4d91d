"""tf.experimental.ExtensionType: fields, values, specs; functions, loops, structures and datasets.

Annotations of fields are evaluated where the classes stand, since `tf` is an argument here.
"""

# ruff: noqa: UP006, UP007, UP045
import copy
import pickle
import typing
from typing import Any

from eager.behaviours.registry import error, program


def masked(tf: Any, base: Any = None) -> Any:
    """Return a class of values with a mask."""

    class Masked(base or tf.experimental.ExtensionType):
        values: tf.Tensor
        mask: tf.Tensor

        def filled(self, value: Any) -> Any:
            return tf.where(self.mask, self.values, value)

    return Masked


@program
def fields_of_all_kinds(tf: Any) -> Any:
    class Inner(tf.experimental.ExtensionType):
        x: tf.Tensor

    class Many(tf.experimental.ExtensionType):
        i: int
        f: float
        s: str
        raw: bytes
        b: bool
        n: None
        t: tf.Tensor
        rt: tf.RaggedTensor
        inner: Inner
        shape: tf.TensorShape
        dtype: tf.DType
        either: typing.Union[int, float]
        perhaps: typing.Optional[tf.Tensor]
        pair: typing.Tuple[int, tf.Tensor]
        numbers: tuple[int, ...]
        more: typing.Tuple[tf.Tensor, ...]
        tags: typing.Mapping[str, tf.Tensor]
        words: typing.Mapping[str, str] = {}
        last: float = 0.5

    one = Many(
        1,
        2.0,
        "a",
        b"b",
        True,
        None,
        [1, 2],
        tf.ragged.constant([[1], [2, 3]]),
        Inner(3.0),
        [1, None],
        "int32",
        4,
        None,
        (5, 6),
        [7, 8],
        [1.0, [2.0]],
        {"b": 1, "a": [2, 3]},
    )
    two = Many(**{**tf.experimental.extension_type.as_dict(one), "perhaps": 1.5, "either": 0.25})
    return [
        str(one),
        str(one._type_spec),
        str(two._type_spec),
        [type(v).__name__ for v in tf.experimental.extension_type.as_dict(one).values()],
        tf.nest.flatten(one, expand_composites=True),
        len(tf.nest.flatten(one)),
        tf.nest.flatten(two, expand_composites=True),
        str(tf.type_spec_from_value(one) == one._type_spec),
        isinstance(one._type_spec, tf.TypeSpec),
        isinstance(one._type_spec, tf.experimental.ExtensionTypeSpec),
        one._type_spec.value_type is Many,
        type(one._type_spec) is Many.Spec,
        Many.Spec.__name__,
        Many.Spec.__qualname__.split(".")[-2:],
    ]


@program
def fields_refused(tf: Any) -> Any:
    Base = tf.experimental.ExtensionType

    def made(annotation: Any, **others: Any) -> Any:
        return type("Made", (Base,), {"__annotations__": {"x": annotation}, **others})

    def given(annotation: Any, value: Any) -> Any:
        return error(
            lambda: str(made(annotation)(value)),
            "x: expected",
            "'int'",
            "got 'str'",
            "got 'float'",
            "a Tensor",
            "tuple",
            "mapping",
            "tf.TensorShape",
            "x[1]",
            "x['a']",
            "length",
        )

    return [
        error(lambda: made(dict), "In field 'x'", "Unsupported type annotation 'dict'"),
        error(lambda: made(typing.List[int]), "Unsupported type annotation"),
        error(lambda: made(typing.Mapping[tf.Tensor, int]), "Mapping had a key"),
        error(lambda: made(typing.Any), "Unsupported"),
        error(lambda: made(tuple), "Unsupported"),
        error(lambda: made(tf.Variable), "Unsupported"),
        error(lambda: made(tf.TensorSpec), "Unsupported"),
        error(lambda: type("Made", (Base,), {"x": 1}), "missing a type annotation"),
        error(lambda: type("Made", (Base,), {"__annotations__": {"_serialize": int}}), "reserved"),
        error(lambda: type("Made", (Base,), {"Spec": 1}), "Spec must be"),
        error(lambda: type("Made", (Base,), {"Spec": type("S", (int,), {})}), "directly"),
        error(lambda: made(int, Spec=type("S", (), {"x": 1})), "shadows a field"),
        error(lambda: made(int, __batch_encoder__=1), "BatchableExtensionType"),
        error(lambda: made(int, x="a"), "default value for x", "expected 'int'"),
        given(int, "a"),
        given(int, True),
        given(float, 1),
        given(tf.Tensor, object()),
        given(tf.TensorShape, "a"),
        given(tf.DType, "noon"),
        given(tuple[int, ...], 1),
        given(tuple[int, ...], [1, "a"]),
        given(tuple[int, int], [1]),
        given(typing.Mapping[str, int], [1]),
        given(typing.Mapping[str, int], {"a": "b"}),
        given(typing.Union[int, str], 1.5),
        given(tf.RaggedTensor, 1),
        error(lambda: made(int)(), "missing"),
        error(lambda: made(int)(1, 2)),
        error(lambda: made(int)(y=2)),
        error(lambda: tf.experimental.ExtensionType(), "abstract base class"),
    ]


@program
def constructors_and_immutability(tf: Any) -> Any:
    class Point(tf.experimental.ExtensionType):
        x: tf.Tensor
        y: tf.Tensor = 2.0
        unit: str = "m"

        def __validate__(self) -> None:
            self.x.shape.assert_has_rank(0)

    class Named(Point):
        name: str

    class Own(tf.experimental.ExtensionType):
        total: tf.Tensor
        count: int

        def __init__(self, *numbers: float) -> None:
            self.count = len(numbers)
            self.total = tf.add_n(list(numbers))

    class Open(tf.experimental.ExtensionType):
        x: int
        y: int

        def __init__(self, y: int) -> None:
            self.y = y

    def assign(value: Any) -> None:
        value.x = 3

    def remove(value: Any) -> None:
        del value.x

    def add(value: Any) -> None:
        value.other = 3

    point = Point(1.0)
    return [
        str(point),
        str(Named(1.0, name="a")),
        error(lambda: Named(1.0, 2.0, "m", "a")),
        error(lambda: Point([1.0])),
        str(Own(1.0, 2.0)),
        str(Own(1.0, 2.0)._type_spec),
        error(lambda: Open(1), "Missing required fields", "x"),
        error(lambda: assign(point), "Cannot mutate attribute `x`", "custom constructor"),
        error(lambda: remove(point), "Cannot mutate attribute `x`"),
        error(lambda: add(point), "Cannot mutate attribute `other`"),
        error(lambda: assign(point._type_spec), "Cannot mutate attribute `x`"),
        error(lambda: point.nothing, "has no attribute 'nothing'"),
        error(lambda: hash(point)),
        str(point == Point(1.0)),
        str(point != Point(1.0)),
        str(point == Point(3.0)),
        str(point == Point(1.0, unit="s")),
        str(point == 1),
        str(point != Named(1.0, name="a")),
        str(point == Point(tf.constant(1))),
        error(lambda: type("N", (tf.experimental.ExtensionType,), {})() == 1),
    ]


@program
def specs_of_values(tf: Any) -> Any:
    Masked = masked(tf)
    row = tf.TensorSpec([None], tf.int32)
    spec = Masked.Spec(row, mask=tf.TensorSpec([None], tf.bool))
    one, two = Masked([1, 2], [True, False]), Masked([1, 2, 3], [True, False, True])
    again = type(spec)._deserialize(spec._serialize())

    class Flagged(tf.experimental.ExtensionType):
        values: tf.Tensor
        flag: bool

        class Spec:
            def __init__(self, size: int, flag: bool = False) -> None:
                self.values = tf.TensorSpec([size], tf.float32)
                self.flag = flag

            @property
            def shape(self) -> Any:
                return self.values.shape

    flagged = Flagged.Spec(3)
    common = one._type_spec.most_specific_common_supertype([two._type_spec])
    return [
        str(spec),
        spec._serialize()[0][0],
        spec == again,
        hash(spec) == hash(again),
        str(spec.values),
        [spec.is_compatible_with(v) for v in (one, two, one._type_spec, 3)],
        [one._type_spec.is_compatible_with(v) for v in (one, two, spec)],
        [one._type_spec.is_subtype_of(spec), spec.is_subtype_of(one._type_spec)],
        str(common),
        common == spec,
        str(one._type_spec.most_specific_common_supertype([row])),
        str(flagged),
        str(flagged.shape),
        flagged.is_compatible_with(Flagged([1.0, 2.0, 3.0], False)),
        flagged.is_compatible_with(Flagged([1.0, 2.0, 3.0], True)),
        Flagged([1.0], True)._type_spec == Flagged.Spec(1, True),
        error(lambda: Masked.Spec(1, 2), "expected a TensorSpec"),
        error(lambda: Masked.Spec(row), "missing"),
        str(spec._component_specs),
        [str(v) for v in spec._flat_tensor_specs],
        spec._to_components(one),
        str(spec._from_components(spec._to_components(one))),
        str(spec._without_tensor_names()),
        str(one._type_spec._with_tensor_ranks_only()),
        error(lambda: spec._from_components([1, 2, 3])),
    ]


@program
def copies_and_structures(tf: Any) -> Any:
    Masked = masked(tf)
    one = Masked([1, 2], [True, False])
    both = {"a": one, "b": [tf.constant(1), one]}
    doubled = tf.nest.map_structure(lambda t: tf.stack([t, t]), one, expand_composites=True)
    other = Masked([1.0], [True])
    return [
        str(copy.copy(one)),
        str(copy.deepcopy(one)),
        bool(copy.deepcopy(one) == one),
        str(doubled),
        tf.nest.flatten(both, expand_composites=True),
        [type(leaf).__name__ for leaf in tf.nest.flatten(both)],
        str(tf.nest.pack_sequence_as(both, list("abcde"), expand_composites=True)["a"].mask),
        error(lambda: tf.nest.assert_same_structure(one, other, expand_composites=True)),
        error(lambda: tf.nest.assert_same_structure(one, other)),
        error(lambda: tf.nest.assert_same_structure(one, doubled, expand_composites=True)),
        error(lambda: tf.nest.assert_same_structure(one, 1, expand_composites=True)),
        tf.nest.is_nested(one),
        tf.is_tensor(one),
        error(lambda: tf.convert_to_tensor(one)),
        error(lambda: tf.constant(one)),
        error(lambda: tf.Variable(one)),
        error(lambda: pickle.dumps(one)),
    ]


@program
def in_functions(tf: Any) -> Any:
    Masked = masked(tf)
    traced: list[Any] = []

    class Scaled(tf.experimental.ExtensionType):
        x: tf.Tensor
        by: float

        def value(self) -> Any:
            return self.x * self.by

    @tf.function
    def filled(m: Any, value: Any = 0) -> Any:
        traced.append(str(m.values.shape))
        return m.filled(value)

    @tf.function
    def value(s: Any) -> Any:
        traced.append(s.by)
        return s.value()

    @tf.function
    def swapped(m: Any) -> Any:
        return {"m": Masked(m.values + 1, tf.logical_not(m.mask)), "n": [m, None]}

    @tf.function(
        input_signature=[
            Masked.Spec(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.bool))
        ]
    )
    def total(m: Any) -> Any:
        traced.append(str(m.values.shape))
        return tf.reduce_sum(m.filled(0))

    @tf.function(reduce_retracing=True)
    def relaxed(m: Any) -> Any:
        traced.append(str(m.values.shape))
        return tf.reduce_sum(m.filled(0))

    one, two = Masked([1, 2], [True, False]), Masked([4, 5, 6], [True, False, True])
    found = swapped(one)
    concrete = filled.get_concrete_function(one._type_spec)
    wide = Masked.Spec(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.bool))
    general = swapped.get_concrete_function(wide)
    return [
        filled(one),
        filled(two, 9),
        filled(one),
        value(Scaled(2.0, 3.0)),
        value(Scaled(2.0, 4.0)),
        value(Scaled(5.0, 3.0)),
        traced[:],
        str(found["m"]),
        str(found["n"]),
        [total(one), total(two), traced[-1]],
        [relaxed(v) for v in (one, two, Masked([1], [True]))],
        traced[5:],
        concrete(one, 0),
        str(general.structured_outputs["m"]._type_spec),
        str(general(two)["m"].values),
        error(lambda: total(tf.constant(1))),
        error(lambda: total(Masked([1.0], [True]))),
        error(lambda: total(Scaled(1.0, 2.0))),
        len(concrete.inputs),
        str(wide) in str(general.structured_input_signature),
    ]


@program
def in_branches_and_loops(tf: Any) -> Any:
    Masked = masked(tf)
    one, two = Masked([1, 2], [True, False]), Masked([3, 4], [True, True])

    def grow(i: Any, m: Any) -> Any:
        return i + 1, Masked(m.values * 2, tf.logical_not(m.mask))

    @tf.function
    def looped(m: Any, times: Any) -> Any:
        return tf.while_loop(lambda i, _: i < times, grow, (tf.constant(0), m))[1]

    @tf.function
    def chosen(first: Any) -> Any:
        return tf.cond(first, lambda: one, lambda: two)

    @tf.function
    def by_statement(m: Any, first: Any) -> Any:
        if first:
            m = Masked(m.values + 1, m.mask)
        for _ in tf.range(3):
            m = Masked(m.values * 2, m.mask)
        return m

    @tf.function
    def unlike(first: Any) -> Any:
        return tf.cond(first, lambda: one, lambda: Masked([1.0], [True]))

    return [
        str(looped(one, 3)),
        str(chosen(tf.constant(False))),
        str(tf.cond(tf.constant(True), lambda: one, lambda: two)),
        str(tf.while_loop(lambda i, _: i < 2, grow, (tf.constant(0), one))[1]),
        str(by_statement(one, tf.constant(True))),
        error(lambda: str(unlike(tf.constant(True)))),
        str(tf.switch_case(tf.constant(1), [lambda: one, lambda: two])),
    ]


@program
def under_tapes(tf: Any) -> Any:
    class Scaled(tf.experimental.ExtensionType):
        x: tf.Tensor
        by: float

    given = Scaled([1.0, 2.0], 3.0)
    variable = tf.Variable([1.0, 4.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(given)
        y = given.x * given.x * given.by
        z = tf.function(lambda s: s.x * s.by)(given)
        w = Scaled(variable * 2.0, 3.0)
        u = w.x * w.by
    return [
        tape.gradient(y, given.x),
        tape.gradient(z, given.x),
        tape.gradient(u, variable),
        error(lambda: tape.gradient(y, given), "is not supported as a gradient source"),
        error(lambda: tape.gradient(w, variable), "is not supported as a gradient"),
    ]


@program
def in_datasets(tf: Any) -> Any:
    Masked = masked(tf)
    Rows = masked(tf, tf.experimental.BatchableExtensionType)

    def elements(dataset: Any) -> Any:
        return [str(element) for element in dataset]

    rows = Rows([[1, 2], [3, 4], [5, 6]], [[True, False], [False, True], [True, True]])
    plain = Masked([1, 2], [True, False])
    sliced = tf.data.Dataset.from_tensor_slices(rows)
    batches = sliced.batch(2)
    mapped = tf.data.Dataset.range(3).map(lambda i: Rows([i, i + 1], [True, False]))
    return [
        elements(tf.data.Dataset.from_tensors(plain).repeat(2)),
        str(tf.data.Dataset.from_tensors(plain).element_spec),
        str(sliced.element_spec),
        elements(sliced),
        str(batches.element_spec),
        elements(batches),
        elements(batches.unbatch()),
        str(batches.unbatch().element_spec),
        elements(sliced.batch(2, drop_remainder=True)),
        elements(mapped),
        elements(mapped.batch(3)),
        elements(sliced.map(lambda m: m.filled(0))),
        elements(sliced.map(lambda m: {"m": m}).filter(lambda e: e["m"].mask[0])),
        elements(tf.data.Dataset.zip((sliced, tf.data.Dataset.range(3)))),
        elements(sliced.concatenate(sliced).skip(2).take(2)),
        elements(sliced.shuffle(1).prefetch(1).cache()),
        str(sliced.reduce(0, lambda x, m: x + tf.reduce_sum(m.filled(0)))),
        error(lambda: tf.data.Dataset.from_tensor_slices(plain)),
        error(lambda: elements(tf.data.Dataset.from_tensors(plain).batch(1))),
        elements(tf.data.Dataset.from_generator(lambda: [rows], output_signature=rows._type_spec)),
    ]


@program
def rows_of_many_kinds(tf: Any) -> Any:
    class Inner(tf.experimental.BatchableExtensionType):
        x: tf.Tensor

    class Outer(tf.experimental.BatchableExtensionType):
        inner: Inner
        ragged: tf.RaggedTensor
        shape: tf.TensorShape
        name: str

    ragged = tf.ragged.constant([[[1], [2, 3]], [[], [4]]])
    outer = Outer(Inner([[1.0], [2.0]]), ragged, [2, None], "n")
    rows = tf.data.Dataset.from_tensor_slices(outer)
    spec = outer._type_spec
    return [
        str(rows.element_spec),
        [str(row) for row in rows],
        str(rows.batch(2).element_spec),
        [str(row) for row in rows.batch(2)],
        str(spec._unbatch()),
        str(spec._batch(7)),
        str(spec._batch(None)._unbatch() == spec),
        [str(v) for v in spec._flat_tensor_specs],
    ]


@program
def own_encoders(tf: Any) -> Any:
    class Encoder(tf.experimental.ExtensionTypeBatchEncoder):
        def batch(self, spec: Any, batch_size: Any) -> Any:
            return Interval.Spec(*[tf.TensorSpec([batch_size, *spec.low.shape], tf.float32)] * 2)

        def unbatch(self, spec: Any) -> Any:
            return Interval.Spec(*[tf.TensorSpec(spec.low.shape[1:], tf.float32)] * 2)

        def encode(self, spec: Any, value: Any, minimum_rank: int = 0) -> Any:
            return [value.low, value.high - value.low]

        def decode(self, spec: Any, encoded_value: Any) -> Any:
            low, width = encoded_value
            return Interval(low, low + width)

        def encoding_specs(self, spec: Any) -> Any:
            return [spec.low, spec.high]

    class Interval(tf.experimental.BatchableExtensionType):
        low: tf.Tensor
        high: tf.Tensor
        __batch_encoder__ = Encoder()

    rows = tf.data.Dataset.from_tensor_slices(Interval([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]))
    return [
        str(rows.element_spec),
        [str(row) for row in rows],
        [str(row) for row in rows.batch(2)],
        tf.map_fn(
            lambda i: i.high - i.low,
            Interval([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]),
            fn_output_signature=tf.float32,
        ),
    ]


@program
def mapped_by_rows(tf: Any) -> Any:
    Rows = masked(tf, tf.experimental.BatchableExtensionType)
    rows = Rows([[1, 2], [3, 4]], [[True, False], [False, True]])

    def negated(m: Any) -> Any:
        return Rows(-m.values, tf.logical_not(m.mask))

    row = Rows.Spec(tf.TensorSpec([2], tf.int32), tf.TensorSpec([2], tf.bool))
    return [
        tf.map_fn(lambda m: tf.reduce_sum(m.filled(0)), rows, fn_output_signature=tf.int32),
        str(tf.map_fn(negated, rows)),
        str(tf.map_fn(negated, rows, fn_output_signature=row)),
        str(
            tf.map_fn(
                lambda x: Rows(x, [True, True]), tf.constant([[1, 2]]), fn_output_signature=row
            )
        ),
        str(tf.function(lambda m: tf.map_fn(negated, m))(rows)),
        error(lambda: tf.map_fn(lambda m: m, masked(tf)([1], [True]))),
    ]
