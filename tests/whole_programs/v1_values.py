"""The grammar of graphs, part 1: values and what is computed from them."""

from __future__ import annotations

from whole_programs.builder import (
    FLOATS,
    INTS,
    NUMBERS,
    SHAPES,
    Builder,
    Rules,
    SkipError,
    Value,
    together,
)
from whole_programs.effects import Effects
from whole_programs.syntax import Type

RULES = Rules()

_UNARY = {
    FLOATS: (
        "tf.tanh",
        "tf.sigmoid",
        "tf.abs",
        "tf.negative",
        "tf.nn.relu",
        "tf.square",
        "tf.identity",
        "tf.floor",
        "tf.sign",
        "tf.ones_like",
        "tf.nn.softplus",
        "tf.stop_gradient",
    ),
    INTS: ("tf.abs", "tf.negative", "tf.square", "tf.identity", "tf.zeros_like"),
    ("bool",): ("tf.logical_not", "tf.identity"),
    ("string",): ("tf.identity", "tf.strings.length", "tf.strings.upper", "tf.strings.strip"),
}
_BINARY = {
    FLOATS: (
        "{} + {}",
        "{} - {}",
        "{} * {}",
        "tf.maximum({}, {})",
        "tf.minimum({}, {})",
        "tf.squared_difference({}, {})",
        "tf.add({}, {})",
        "tf.div_no_nan({}, {})",
        "tf.add_n([{}, {}])",
    ),
    INTS: (
        "{} + {}",
        "{} - {}",
        "{} * {}",
        "tf.maximum({}, {})",
        "tf.minimum({}, {})",
        "tf.multiply({}, {})",
        "{} // {}",
    ),
    ("bool",): ("tf.logical_and({}, {})", "tf.logical_or({}, {})", "tf.equal({}, {})"),
    ("string",): ("tf.strings.join([{}, {}])", "{} + {}"),
}
_COMPARE = ("tf.greater({}, {})", "tf.less_equal({}, {})", "tf.equal({}, {})", "{} < {}")
_REDUCE = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
_ANY = (*NUMBERS, "bool", "string")


def draw_dtype(g: Builder) -> str:
    """Return an element type, mostly float32."""
    return g.random.choices(
        ["float32", "float64", "int32", "int64", "bool", "string"], [12, 2, 3, 2, 1, 1]
    )[0]


def tensor_type(dtype: str, shape: tuple[int | None, ...]) -> Type:
    """Return the type of a tensor."""
    return Type("tensor", dtype, shape)


def compute(g: Builder, text: str, type_: Type, *operands: Value) -> Value:
    """Add a tensor that is computed from others.  Raises: SkipError where they would race."""
    return g.make("t", text, type_, together(*operands))


@RULES.add(1.5)
def constant(g: Builder) -> None:
    dtype, shape = draw_dtype(g), g.choice(SHAPES)
    literal = g.literal(dtype, shape)
    named = f', name="c{g.random.randrange(3)}"' if g.chance(0.2) else ""
    g.make("t", f"tf.constant({literal}, tf.{dtype}{named})", tensor_type(dtype, shape))


@RULES.add(1.5)
def placeholder(g: Builder) -> None:
    dtype, shape = draw_dtype(g), g.choice(SHAPES)
    shown = list(shape)
    if shape and g.chance(0.5):
        shown[0] = None
    name = f"x{g.random.randrange(1000)}"
    text = f'tf.placeholder(tf.{dtype}, {shown}, name="{name}")'
    made = g.make("x", text, Type("placeholder", dtype, tuple(shown)))
    g.values[-1] = Value(made.name, made.type, Effects(needs=frozenset([made.name])))
    g.facts.setdefault("fed shapes", {})[made.name] = shape


@RULES.add(0.5)
def placeholder_with_default(g: Builder) -> None:
    dtype, shape = draw_dtype(g), g.choice(SHAPES)
    text = f"tf.placeholder_with_default(tf.constant({g.literal(dtype, shape)}, tf.{dtype}), {list(shape)})"
    g.make("t", text, Type("tensor", dtype, shape))


@RULES.add(3)
def unary(g: Builder) -> None:
    operand = g.tensor(_ANY)
    functions = next(found for dtypes, found in _UNARY.items() if operand.dtype in dtypes)
    function = g.choice(functions)
    dtype = "int32" if function == "tf.strings.length" else operand.dtype
    compute(g, f"{function}({operand})", tensor_type(dtype, operand.shape), operand)


@RULES.add(4)
def binary(g: Builder) -> None:
    first = g.tensor(_ANY)
    second = g.tensor([first.dtype])
    if second.shape != first.shape:
        second = g.tensor([first.dtype], first.shape) if g.chance(0.7) else second
    if second.shape not in (first.shape, ()):
        raise SkipError
    templates = next(found for dtypes, found in _BINARY.items() if first.dtype in dtypes)
    template = g.choice(templates)
    if "add_n" in template and first.shape != second.shape:
        raise SkipError
    dtype = "bool" if "equal" in template else first.dtype
    compute(g, template.format(first, second), tensor_type(dtype, first.shape), first, second)


@RULES.add(2)
def binary_with_number(g: Builder) -> None:
    operand = g.tensor(NUMBERS)
    number = g.literal(operand.dtype, ())
    template = g.choice(("{} * {}", "{} + {}", "{} - {}"))
    pair = (operand, number) if g.chance(0.6) else (number, operand)
    compute(g, template.format(*pair), tensor_type(operand.dtype, operand.shape), operand)


@RULES.add(1)
def comparison(g: Builder) -> None:
    operand = g.tensor(NUMBERS)
    text = g.choice(_COMPARE).format(operand, g.literal(operand.dtype, ()))
    compute(g, text, tensor_type("bool", operand.shape), operand)


@RULES.add(2)
def reduction(g: Builder) -> None:
    operand = g.tensor(NUMBERS)
    function = g.choice(_REDUCE)
    if g.chance(0.5) or not operand.shape:
        compute(g, f"tf.{function}({operand})", tensor_type(operand.dtype, ()), operand)
        return
    axis = g.random.randrange(len(operand.shape))
    keeps = g.chance(0.3)
    left = [1] if keeps else []
    shape = (*operand.shape[:axis], *left, *operand.shape[axis + 1 :])
    kept = ", keepdims=True" if keeps else ""
    text = f"tf.{function}({operand}, axis={axis}{kept})"
    compute(g, text, tensor_type(operand.dtype, shape), operand)


@RULES.add(1)
def cast(g: Builder) -> None:
    operand = g.tensor((*NUMBERS, "bool"))
    dtype = g.choice(NUMBERS)
    text = g.choice((f"tf.cast({operand}, tf.{dtype})", f"tf.to_{_short(dtype)}({operand})"))
    compute(g, text, tensor_type(dtype, operand.shape), operand)


def _short(dtype: str) -> str:
    return {"float32": "float", "float64": "double"}.get(dtype, dtype)


@RULES.add(2)
def reshaping(g: Builder) -> None:
    operand = g.tensor(_ANY)
    shape, size = operand.shape, len(operand.shape)
    options: list[tuple[str, tuple[int | None, ...]]] = [
        (f"tf.expand_dims({operand}, 0)", (1, *shape)),
        (f"tf.stack([{operand}, {operand}])", (2, *shape)),
        (f"tf.reshape({operand}, [-1])", (_size(shape),)),
    ]
    if size and shape[0] != 0:  # which of several failures a step tells is a race
        options += [
            (f"{operand}[0]", shape[1:]),
            (f"{operand}[-1:]", (1, *shape[1:])),
            (f"tf.gather({operand}, [0, 0])", (2, *shape[1:])),
        ]
    if size:
        doubled = None if shape[0] is None else 2 * shape[0]
        options += [
            (f"tf.concat([{operand}, {operand}], 0)", (doubled, *shape[1:])),
            (f"tf.reverse({operand}, [0])", shape),
        ]
    if size == 2:
        options.append((f"tf.transpose({operand})", (shape[1], shape[0])))
    text, found = g.choice(options)
    compute(g, text, tensor_type(operand.dtype, found), operand)


def _size(shape: tuple[int | None, ...]) -> int | None:
    product = 1
    for size in shape:
        if size is None:
            return None
        product *= size
    return product


@RULES.add(0.5)
def shape_of(g: Builder) -> None:
    operand = g.tensor(_ANY)
    text, shape = g.choice(
        [
            (f"tf.shape({operand})", (len(operand.shape),)),
            (f"tf.size({operand})", ()),
            (f"tf.rank({operand})", ()),
        ]
    )
    compute(g, text, tensor_type("int32", shape), operand)


@RULES.add(1)
def split(g: Builder) -> None:
    operand = g.pick(lambda one: one.type.kind == "tensor" and one.shape[:1] in ((2,), (3,)))
    several = operand.shape[0]
    assert several is not None
    text, shape = g.choice(
        [
            (f"tf.unstack({operand})", operand.shape[1:]),
            (f"tf.split({operand}, {several})", (1, *operand.shape[1:])),
        ]
    )
    made = ("t", tensor_type(operand.dtype, shape), operand.effects)
    g.make_several(text, [made] * several)


@RULES.add(1)
def where(g: Builder) -> None:
    first = g.tensor(NUMBERS)
    second = g.tensor([first.dtype], first.shape)
    condition = g.tensor(["bool"], first.shape)
    text = f"tf.where({condition}, {first}, {second})"
    compute(g, text, tensor_type(first.dtype, first.shape), condition, first, second)


@RULES.add(1.5)
def matmul(g: Builder) -> None:
    first = g.pick(
        lambda one: one.type.kind == "tensor" and one.dtype in FLOATS and len(one.shape) == 2
    )
    inner = first.shape[1]
    second = g.pick(
        lambda one: (
            one.type.kind in ("tensor", "variable")
            and len(one.shape) == 2
            and one.dtype == first.dtype
            and one.shape[0] == inner
        )
    )
    type_ = tensor_type(first.dtype, (first.shape[0], second.shape[1]))
    compute(g, f"tf.matmul({first}, {second})", type_, first, second)


@RULES.add(1)
def indices(g: Builder) -> None:
    operand = g.tensor(NUMBERS)
    if not operand.shape:
        raise SkipError
    left = operand.shape[:-1]
    text, type_ = g.choice(
        [
            (f"tf.argmax({operand}, -1)", tensor_type("int64", left)),
            (f"tf.one_hot(tf.argmax({operand}, -1), 3)", tensor_type("float32", (*left, 3))),
            (f"tf.nn.top_k({operand}, 1)[0]", tensor_type(operand.dtype, (*left, 1))),
            (f"tf.cumsum({operand})", tensor_type(operand.dtype, operand.shape)),
        ]
    )
    compute(g, text, type_, operand)


@RULES.add(1)
def layers_of_networks(g: Builder) -> None:
    operand = g.pick(
        lambda one: (
            one.dtype == "float32"
            and len(one.shape) == 2
            and one.type.kind in ("tensor", "placeholder", "variable")
        )
    )
    rows, columns = operand.shape
    left = (rows,)
    text, shape = g.choice(
        [
            (f"tf.nn.softmax({operand})", (rows, columns)),
            (f"tf.nn.log_softmax({operand})", (rows, columns)),
            (f"tf.nn.l2_loss({operand})", ()),
            (f"tf.nn.l2_normalize({operand}, 1)", (rows, columns)),
            (f"tf.clip_by_value({operand}, -1.0, 1.0)", (rows, columns)),
            (f"tf.clip_by_norm({operand}, 1.0)", (rows, columns)),
            (f"tf.nn.dropout({operand}, keep_prob=0.5, seed=3)", (rows, columns)),
            (
                f"tf.nn.softmax_cross_entropy_with_logits(labels=tf.nn.softmax({operand}), logits={operand})",
                left,
            ),
            (
                f"tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.ones_like({operand}), logits={operand})",
                (rows, columns),
            ),
            (f"tf.nn.moments({operand}, [0])[1]", (columns,)),
        ]
    )
    draws = drawing(g) if "dropout" in text else Effects()
    g.make("t", text, tensor_type("float32", shape), operand.effects | draws)


@RULES.add(0.7)
def words(g: Builder) -> None:
    operand = g.tensor((*INTS, "bool"))
    text = f"tf.as_string({operand})"
    made = compute(g, text, tensor_type("string", operand.shape), operand)
    if operand.dtype in INTS and g.chance(0.5):
        compute(g, f"tf.string_to_number({made})", tensor_type("float32", operand.shape), made)


@RULES.add(0.7)
def random_values(g: Builder) -> None:
    shape, seed = g.choice(SHAPES), g.random.randrange(9)
    text, dtype = g.choice(
        [
            (f"tf.random_uniform({list(shape)}, seed={seed})", "float32"),
            (f"tf.random_normal({list(shape)}, seed={seed})", "float32"),
            (f"tf.truncated_normal({list(shape)}, stddev=0.1, seed={seed})", "float32"),
            (f"tf.random_uniform({list(shape)}, 0, 9, tf.int32, seed={seed})", "int32"),
            (f"tf.random.stateless_uniform({list(shape)}, [1, {seed}])", "float32"),
        ]
    )
    draws = Effects() if "stateless" in text else drawing(g)
    g.make("t", text, tensor_type(dtype, shape), draws)


def drawing(g: Builder) -> Effects:
    """Return the effects of an op that draws random numbers."""
    return Effects(draws=frozenset([g.name("draw")]))


@RULES.add(0.5)
def checked(g: Builder) -> None:
    operand = g.tensor(FLOATS)
    shape = operand.shape if g.chance(0.9) else g.choice(SHAPES)
    text = g.choice(
        [
            f'tf.check_numerics(1.0 / {operand}, "bad")',
            f"tf.verify_tensor_all_finite({operand}, 'bad')",
            f"tf.ensure_shape({operand}, {list(shape)})",
        ]
    )
    effects = operand.effects | Effects(may_fail=True)
    g.make("t", text, tensor_type(operand.dtype, operand.shape), effects)


@RULES.add(0.7)
def gradients(g: Builder) -> None:
    source = g.pick(
        lambda one: one.dtype in FLOATS and one.type.kind in ("tensor", "variable", "placeholder")
    )
    target = g.pick(lambda one: one.dtype == source.dtype and one.type.kind == "tensor")
    text = f"tf.gradients({target}, [{source}])[0]"
    together(source, target)
    g.make("d", text, Type("gradient", source.dtype, source.shape), together(source, target))


@RULES.add(0.5)
def named_scope(g: Builder) -> None:
    with g.block(f'with tf.name_scope("s{g.random.randrange(2)}"):'):
        g.apply(RULES, 2)
