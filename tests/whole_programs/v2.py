"""The grammar of eager programs: tensors, variables, tapes, functions, datasets, strategies."""

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
)
from whole_programs.syntax import Type, optional
from whole_programs.v1_flow import formula
from whole_programs.v1_values import draw_dtype, tensor_type

RULES = Rules()
_ANY = (*NUMBERS, "bool", "string")
_DEVICES = ("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1")
_OPTIMIZERS = (
    "SGD(0.1)",
    "SGD(0.1, momentum=0.9)",
    "SGD(0.1, momentum=0.9, nesterov=True)",
    "Adam(0.1)",
    "RMSprop(0.1)",
    "Adagrad(0.1)",
    "AdamW(0.1)",
    "Ftrl(0.1)",
)


def _compute(g: Builder, text: str, dtype: str, shape: tuple[int | None, ...]) -> Value:
    return g.make("t", text, tensor_type(dtype, shape))


# ---- tensors


@RULES.add(2)
def constant(g: Builder) -> None:
    dtype, shape = draw_dtype(g), g.choice(SHAPES)
    form = g.choice(("tf.constant", "tf.convert_to_tensor"))
    _compute(g, f"{form}({g.literal(dtype, shape)}, tf.{dtype})", dtype, shape)


@RULES.add(2)
def unary(g: Builder) -> None:
    operand = g.tensor(NUMBERS)
    forms = ["tf.abs({})", "-{}", "tf.square({})", "tf.identity({})", "tf.zeros_like({})"]
    if operand.dtype in FLOATS:
        forms += [
            "tf.tanh({})",
            "tf.sigmoid({})",
            "tf.nn.relu({})",
            "tf.math.softplus({})",
            "{} ** 2.0",
        ]
    _compute(g, g.choice(forms).format(operand), operand.dtype, operand.shape)


@RULES.add(3)
def binary(g: Builder) -> None:
    first = g.tensor(NUMBERS)
    second = g.tensor([first.dtype])
    if second.shape not in (first.shape, ()):
        raise SkipError
    form = g.choice(
        (
            "{} + {}",
            "{} - {}",
            "{} * {}",
            "tf.maximum({}, {})",
            "tf.add({}, {})",
            "tf.math.squared_difference({}, {})",
        )
    )
    _compute(g, form.format(first, second), first.dtype, first.shape)


@RULES.add(1.5)
def with_number(g: Builder) -> None:
    operand = g.tensor(NUMBERS)
    form = g.choice(("{} * {}", "{} + {}", "{} - {}"))
    pair = [str(operand), g.literal(operand.dtype, ())]
    if g.chance(0.4):
        pair.reverse()
    _compute(g, form.format(*pair), operand.dtype, operand.shape)


@RULES.add(1)
def mixed_types(g: Builder) -> None:
    """What TensorFlow refuses, mostly."""
    first, second = g.tensor(_ANY), g.tensor(_ANY)
    g.say(f"at.note(lambda: {first} + {second})")


@RULES.add(1.5)
def reduction(g: Builder) -> None:
    operand = g.tensor(NUMBERS)
    function = g.choice(("reduce_sum", "reduce_mean", "reduce_max", "reduce_min"))
    if operand.shape and g.chance(0.5):
        axis = g.choice((0, -1))
        left = operand.shape[1:] if axis == 0 else operand.shape[:-1]
        _compute(g, f"tf.{function}({operand}, axis={axis})", operand.dtype, left)
    else:
        _compute(g, f"tf.{function}({operand})", operand.dtype, ())


@RULES.add(1.5)
def reshaping(g: Builder) -> None:
    operand = g.tensor(_ANY)
    shape = operand.shape
    options = [
        (f"tf.expand_dims({operand}, 0)", (1, *shape)),
        (f"tf.stack([{operand}] * 2)", (2, *shape)),
    ]
    if shape:
        options += [
            (f"{operand}[0]", shape[1:]),
            (f"{operand}[:1]", (1, *shape[1:])),
            (f"{operand}[..., tf.newaxis]", (*shape, 1)),
            (f"tf.gather({operand}, [1, 0])", (2, *shape[1:])),
        ]
    if len(shape) == 2:
        options.append((f"tf.transpose({operand})", (shape[1], shape[0])))
    text, found = g.choice(options)
    _compute(g, text, operand.dtype, found)


@RULES.add(1)
def cast(g: Builder) -> None:
    operand, dtype = g.tensor((*NUMBERS, "bool")), g.choice(NUMBERS)
    _compute(g, f"tf.cast({operand}, tf.{dtype})", dtype, operand.shape)


@RULES.add(1)
def comparison(g: Builder) -> None:
    operand = g.tensor(NUMBERS)
    form = g.choice(("{} > {}", "{} <= {}", "{} == {}", "tf.equal({}, {})"))
    _compute(g, form.format(operand, g.literal(operand.dtype, ())), "bool", operand.shape)


@RULES.add(1)
def matmul(g: Builder) -> None:
    first = g.pick(
        lambda one: (
            one.type.kind in ("tensor", "variable") and one.dtype in FLOATS and len(one.shape) == 2
        )
    )
    form = g.choice(("tf.matmul({0}, {0}, transpose_b=True)", "{0} @ tf.transpose({0})"))
    _compute(g, form.format(first), first.dtype, (first.shape[0], first.shape[0]))


@RULES.add(1)
def random_values(g: Builder) -> None:
    shape, seed = g.choice(SHAPES), g.random.randrange(9)
    text = g.choice(
        [
            f"tf.random.stateless_normal({list(shape)}, seed=[1, {seed}])",
            f"tf.random.Generator.from_seed({seed}).normal({list(shape)})",
            f"tf.random.uniform({list(shape)}, seed={seed})",
            f"tf.random.normal({list(shape)})",
        ]
    )
    if "seed" not in text:
        g.say(f"tf.random.set_seed({seed})")
    _compute(g, text, "float32", shape)


@RULES.add(0.7)
def words(g: Builder) -> None:
    operand = g.tensor((*INTS, "string"))
    if operand.dtype == "string":
        form = g.choice(("tf.strings.upper({})", "tf.strings.join([{0}, {0}], '-')", "{0} + {0}"))
        _compute(g, form.format(operand), "string", operand.shape)
        g.say(f"at.note(lambda: tf.strings.split({operand}))")
    else:
        _compute(g, f"tf.strings.as_string({operand})", "string", operand.shape)


# ---- variables


@RULES.add(2)
def variable(g: Builder) -> None:
    dtype, shape = g.choice((*FLOATS, "float32", "int32")), g.choice(SHAPES)
    options = g.choice(("", ", trainable=False", f', name="v{g.random.randrange(3)}"'))
    text = f"tf.Variable({g.literal(dtype, shape)}, dtype=tf.{dtype}{options})"
    g.make("v", text, Type("variable", dtype, shape))


@RULES.add(3)
def assignment(g: Builder) -> None:
    target = g.of_kind("variable")
    value: object = g.literal(target.dtype, target.shape)
    if g.chance(0.5):
        value = g.tensor([target.dtype], target.shape)
    g.say(f"at.note({target}.{g.choice(('assign', 'assign_add', 'assign_sub'))}, {value})")
    if g.chance(0.5):
        g.say(f"at.note({target}.read_value)")


@RULES.add(1)
def slice_assignment(g: Builder) -> None:
    target = g.pick(lambda one: one.type.kind == "variable" and bool(one.shape))
    row = g.literal(target.dtype, target.shape[1:])
    text = g.choice(
        [
            f"{target}.scatter_nd_add, [[0]], [{row}]",
            f"{target}.scatter_add, tf.IndexedSlices(tf.constant([{row}], tf.{target.dtype}), [1])",
            f"{target}.assign, {g.literal(target.dtype, (7,))}",
        ]
    )
    g.say(f"at.note({text})\nat.note({target}.numpy)")


# ---- gradients


@RULES.add(3)
def tape(g: Builder) -> None:
    """A tape with what is computed under it, and gradients."""
    source = g.pick(lambda one: one.type.kind in ("tensor", "variable") and one.dtype in FLOATS)
    name = g.name("tape")
    options = g.choice(("", "persistent=True", "watch_accessed_variables=False"))
    with g.block(f"with tf.GradientTape({options}) as {name}:"):
        if source.type.kind == "tensor" or "watch" in options:
            g.say(f"{name}.watch({source})")
        made = _compute(g, formula(g, str(source), source.dtype, 3), source.dtype, source.shape)
        if g.chance(0.5):
            made = _compute(g, f"tf.reduce_sum({made} * {made})", source.dtype, ())
    form = g.choice(
        (
            f"gradient, {made}, {source}",
            f"gradient, {made}, [{source}, {source}]",
            f'gradient, {made}, {{"a": {source}}}',
            f"jacobian, {made}, {source}",
        )
    )
    g.say(f"at.note({name}.{form})")
    if g.chance(0.3):
        g.say(f"at.note({name}.gradient, {made}, {source})")


@RULES.add(1.5)
def training(g: Builder) -> None:
    """A linear model that an optimizer trains."""
    weights = g.make(
        "v", f"tf.Variable({g.literal('float32', (2, 1))})", Type("variable", "float32", (2, 1))
    )
    bias = g.make("v", "tf.Variable([0.5])", Type("variable", "float32", (1,)))
    optimizer = g.make("opt", f"tf.optimizers.{g.choice(_OPTIMIZERS)}", Type("optimizer"))
    features = g.literal("float32", (3, 2))
    compiled = g.chance(0.5)
    function = Value(g.name("f"), Type("step"))
    text = f"def {function.name}(x):"
    with g.function(function, "@tf.function\n" + text if compiled else text, []):
        with g.block("with tf.GradientTape() as tape:"):
            g.say(f"loss = tf.reduce_mean(tf.square(tf.matmul(x, {weights}) + {bias} - 1.0))")
        g.say(f"d = tape.gradient(loss, [{weights}, {bias}])")
        if g.chance(0.3):
            g.say("d, _ = tf.clip_by_global_norm(d, 0.5)")
        g.say(f"{optimizer}.apply_gradients(zip(d, [{weights}, {bias}]))\nreturn loss")
    with g.block("for _ in range(3):"):
        g.say(f"at.note({function}, tf.constant({features}))")
    g.say(f"at.note(lambda: [{weights}.numpy(), {bias}.numpy(), int({optimizer}.iterations)])")


# ---- functions


_BODIES = (
    "if tf.reduce_sum(a) > {n}:\n    a = {f}\nelse:\n    a = {h}\nreturn a",
    "for i in tf.range(3):\n    a = {f} * tf.cast(i, a.dtype)\nreturn a",
    "while tf.reduce_sum(tf.abs(a)) < 10 and tf.reduce_sum(tf.abs(a)) > 0.1:\n    a = a * 2\nreturn a",
    "for i in range(2):\n    a = {f}\nreturn {{'x': a, 'y': (a, {h})}}",
    "return tf.cond(tf.reduce_sum(a) > {n}, lambda: {f}, lambda: {h})",
    "return tf.while_loop(lambda i, b: i < 3, lambda i, b: (i + 1, b * 2), [0, a])[1]",
    "c = a\nfor e in tf.range(5):\n    if e == 3:\n        break\n    if e == 1:\n        continue\n    c += {f}\nreturn c",
    "return tf.map_fn(lambda e: e * 2, tf.stack([a, {f}]))",
    "l = tf.TensorArray(a.dtype, 2)\nl = l.write(0, a)\nl = l.write(1, {f})\nreturn l.stack()",
    "return [{f}, None, {h}]",
    "assert tf.reduce_all(a < {n}), 'too large'\nreturn {f}",
    "tf.debugging.assert_less(a, tf.cast({n}, a.dtype))\nreturn {h}",
)


@RULES.add(4)
def function(g: Builder) -> None:
    """A traced function, called with tensors, numbers and other shapes."""
    dtype = g.choice(("float32", "float32", "float64", "int32"))
    made = Value(g.name("f"), Type("function", dtype))
    f, h = formula(g, "a", dtype), formula(g, "a", dtype)
    body = g.choice(_BODIES).format(f=f, h=h, n=g.random.randrange(-2, 3))
    if dtype == "int32":
        body = body.replace("> 0.1", "> 0")
    options = g.choice(
        (
            "",
            "",
            f"(input_signature=[tf.TensorSpec(None, tf.{dtype})])",
            "(reduce_retracing=True)",
            "(autograph=True)",
        )
    )
    variables = g.all(
        lambda one: one.type.kind == "variable" and one.dtype == dtype and one.shape == ()
    )
    with g.function(made, f"@tf.function{options}\ndef {made.name}(a):", []):
        if variables and g.chance(0.5):
            g.say(f"{variables[-1]}.assign_add({g.literal(dtype, ())})")
            g.say(f"a = a + {variables[-1]}")
        g.say(body)
    _calls(g, made)


def _calls(g: Builder, function: Value) -> None:
    dtype = function.dtype
    for _ in range(g.random.randrange(1, 4)):
        literal = g.literal(dtype, g.choice(SHAPES))
        argument = g.choice(
            (f"tf.constant({literal}, tf.{dtype})", f"np.array({literal}, np.{dtype})", literal)
        )
        g.say(f"at.note({function}, {argument})")


@RULES.add(1.5)
def more_of_a_function(g: Builder) -> None:
    function = g.of_kind("function")
    operand = g.all(
        lambda one: one.type.kind in ("tensor", "variable") and one.dtype == function.dtype
    )
    if operand and g.chance(0.5):
        g.say(f"at.note({function}, {g.choice(operand)})")
    elif operand and g.chance(0.5) and function.dtype in FLOATS:
        one = g.choice(operand)
        name = g.name("tape")
        with g.block(f"with tf.GradientTape() as {name}:"):
            g.say(f"{name}.watch({one})")
            g.say(f"y = tf.nest.flatten({function}({one}))[0]")
        g.say(f"at.note({name}.gradient, y, {one})")
    else:
        spec = f"tf.TensorSpec({g.choice(('[]', '[2]', '[None]'))}, tf.{function.dtype})"
        g.say(f"at.note(lambda: len({function}.get_concrete_function({spec}).inputs))")
    if g.chance(0.3):
        g.say(f"at.note({function}.experimental_get_tracing_count)")


@RULES.add(0.7)
def tracing_count(g: Builder) -> None:
    function = g.of_kind("function")
    _calls(g, function)
    g.say(f"at.note({function}.experimental_get_tracing_count)")


# ---- datasets


@RULES.add(2)
def dataset(g: Builder) -> None:
    source = g.choice(
        [
            "tf.data.Dataset.range(6)",
            f"tf.data.Dataset.from_tensor_slices({g.literal('float32', (5,))})",
            "tf.data.Dataset.from_tensor_slices({'a': [1, 2, 3], 'b': [[1.0], [2.0], [3.0]]})",
            "tf.data.Dataset.zip((tf.data.Dataset.range(4), tf.data.Dataset.range(4, 9)))",
        ]
    )
    flat = "{'a'" not in source and "zip" not in source
    text = source
    for _ in range(g.random.randrange(4)):
        forms = [
            ".repeat(2)",
            ".take(3)",
            ".skip(1)",
            ".shuffle(10, seed=3)",
            ".prefetch(2)",
            ".cache()",
            ".enumerate()",
            ".shard(2, 1)",
            ".batch(2)",
        ]
        if flat:
            forms += [
                ".map(lambda e: e * 2)",
                ".filter(lambda e: e > 1)",
                ".map(lambda e: (e, e + 1), num_parallel_calls=2)",
                ".scan(tf.constant(0.0), lambda s, e: (s + 1.0, s))",
                ".flat_map(lambda e: tf.data.Dataset.from_tensors(e).repeat(2))",
                ".interleave(lambda e: tf.data.Dataset.from_tensors(e).repeat(2), cycle_length=2)",
                ".take_while(lambda e: e < 4)",
            ]
        form = g.choice(forms)
        text += form
        if any(word in form for word in ("enumerate", "batch", "(e, e")):
            flat = False
    made = g.make("ds", text, Type("dataset", "flat" if flat else ""))
    g.say(f"at.note(lambda: list({made}.as_numpy_iterator()))")
    if g.chance(0.5):
        g.say(f"at.note(lambda: {made}.cardinality())")
    if g.chance(0.3):
        g.say(f"at.note(lambda: str({made}.element_spec))")
    if flat and g.chance(0.4):
        g.say(f"at.note(lambda: {made}.reduce(0.0, lambda a, e: a + tf.cast(e, tf.float32)))")


@RULES.add(0.7)
def iterator(g: Builder) -> None:
    made = g.of_kind("dataset")
    name = g.name("it")
    g.say(f"{name} = iter({made})\nat.note_all(next, {name})")


# ---- containers, checkpoints, tables, strategies


@RULES.add(1)
def checkpoint(g: Builder) -> None:
    variable = g.of_kind("variable")
    name, path = g.name("ckpt"), g.name("path")
    others = "".join(
        optional(f", s{i}={one}")
        for i, one in enumerate(
            g.all(lambda one: one.type.kind == "variable" and one != variable)[:2]
        )
    )
    g.say(f"{name} = tf.train.Checkpoint(v={variable}{others})")
    g.say(f"{path} = {name}.save(at.directory + '/c')")
    g.say(f"at.note({variable}.assign, {g.literal(variable.dtype, variable.shape)})")
    g.say(f"{name}.restore({path}).assert_consumed()\nat.note({variable}.numpy)")
    if g.chance(0.5):
        g.say(f"at.note(lambda: tf.train.list_variables({path}))")


@RULES.add(0.7)
def table(g: Builder) -> None:
    name = g.name("table")
    form = g.choice(
        [
            "tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(['a', 'bc'], [1, 2]), -1)",
            "tf.lookup.experimental.MutableHashTable(tf.string, tf.int32, -1)",
        ]
    )
    g.say(f"{name} = {form}")
    if "Mutable" in form:
        g.say(f"{name}.insert(['a'], [5])")
    g.say(f"at.note({name}.lookup, tf.constant(['a', '', 'bc']))\nat.note({name}.size)")


@RULES.add(0.7)
def array(g: Builder) -> None:
    operand = g.tensor(FLOATS)
    name = g.name("ta")
    g.say(f"{name} = tf.TensorArray(tf.{operand.dtype}, 0, dynamic_size=True)")
    g.say(f"{name} = {name}.write(0, {operand}).write(1, {operand} * 2)")
    g.say(f"at.note({g.choice((f'{name}.stack', f'{name}.size', f'{name}.read, 1'))})")


@RULES.add(1)
def ragged_or_sparse(g: Builder) -> None:
    text = g.choice(
        [
            "tf.ragged.constant([[1, 2], [], [3]])",
            "tf.ragged.constant([['a'], ['b', 'c']])",
            "tf.RaggedTensor.from_row_lengths([1.0, 2.0, 3.0], [1, 0, 2])",
        ]
    )
    name = g.name("r")
    g.say(f"{name} = {text}")
    form = g.choice(
        (
            "{}.to_list()",
            "{}.row_lengths()",
            "{}.to_tensor()",
            "tf.concat([{0}, {0}], 0).to_list()",
            "{}[0]",
            "tf.strings.length(tf.cast({}.to_tensor(), tf.string))",
            "{}.shape.as_list()",
        )
    )
    g.say(f"at.note(lambda: {form.format(name)})")


@RULES.add(1)
def strategy(g: Builder) -> None:
    name, variable = g.name("st"), g.name("sv")
    form = g.choice(
        (
            "at.mirrored_strategy()",
            'tf.distribute.OneDeviceStrategy("/cpu:0")',
            "tf.distribute.get_strategy()",
        )
    )
    g.say(f"{name} = {form}")
    with g.block(f"with {name}.scope():"):
        g.say(
            f"{variable} = tf.Variable({g.literal('float32', ())}, aggregation=tf.VariableAggregation.SUM)"
        )
    body = g.choice(
        (
            "return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, x * {v})",
            "{v}.assign_add(x)\nreturn {v} + 1.0",
            "return x * {v}",
        )
    ).format(v=variable)
    function = Value(g.name("f"), Type("step"))
    wrapped = g.choice(("", "@tf.function\n"))
    with g.function(function, f"{wrapped}def {function.name}(x):", []):
        g.say(body)
    kind = g.choice(("SUM", "MEAN"))
    g.say(f"y = {name}.run({function}, (tf.constant({g.literal('float32', ())}),))")
    g.say(f"at.note({name}.reduce, tf.distribute.ReduceOp.{kind}, y, axis=None)")
    g.say(f"at.note({variable}.numpy)\nat.note(lambda: {name}.num_replicas_in_sync)")


@RULES.add(2)
def look(g: Builder) -> None:
    one = g.of_kind("tensor", "variable")
    g.say(
        f"at.note({one}.numpy)"
        if g.chance(0.7)
        else f"at.note(lambda: [{one}.shape.as_list(), {one}.dtype.name])"
    )


@RULES.add(0.7)
def python_views(g: Builder) -> None:
    one = g.of_kind("tensor", "variable")
    form = g.choice(
        (
            f"bool({one})",
            f"len({one})",
            f"[e.numpy() for e in {one}]",
            f"float({one})",
            f"hash({one})",
            f"np.array({one})",
            f"{one}[0].numpy()",
            f"int({one})",
            f"f'{{{one}}}'",
        )
    )
    # The last digits of what is computed depend on the order of operations.
    if "f'" in form and one.dtype in FLOATS:
        form = f"f'{{tf.constant({g.literal(one.dtype, one.shape)}, tf.{one.dtype})}}'"
    if "hash" not in form or one.type.kind == "tensor":
        g.say(f"at.note(lambda: {form})")


@RULES.add(2)
def placed(g: Builder) -> None:
    with g.block(f'with tf.device(at.device("{g.choice(_DEVICES)}")):'):
        g.apply(_PLACED, 1 + g.random.randrange(3))


_PLACED = Rules(
    rule
    for rule in RULES
    if rule.make.__name__
    in (
        "constant",
        "unary",
        "binary",
        "variable",
        "assignment",
        "tape",
        "function",
        "reduction",
        "matmul",
        "training",
        "look",
        "more_of_a_function",
        "table",
        "random_values",
    )
)


def program(g: Builder, rules: Rules) -> None:
    """Add the statements of an eager program."""
    # Without it TensorFlow's numbers go on from those of programs before this one.
    g.say(f"tf.random.set_seed({g.random.randrange(99)})")
    g.apply(rules, 5 + g.random.randrange(12))
    for one in g.all(lambda one: one.type.kind in ("tensor", "variable"))[-3:]:
        g.say(f"at.note({one}.numpy)")
