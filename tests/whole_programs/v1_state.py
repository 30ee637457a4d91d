"""The grammar of graphs, part 2: variables, queues, datasets, metrics, training."""

from __future__ import annotations

from whole_programs.builder import NUMBERS, SHAPES, Builder, Rules, SkipError, Value, together
from whole_programs.effects import Effects
from whole_programs.syntax import Type
from whole_programs.v1_values import draw_dtype, tensor_type

RULES = Rules()

OP = Type("op")
DEVICES = ("/job:ps", "/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:1/cpu:0")
OPTIMIZERS = (
    "GradientDescentOptimizer(0.1)",
    "MomentumOptimizer(0.1, 0.9)",
    "MomentumOptimizer(0.1, 0.9, use_nesterov=True)",
    "AdamOptimizer(0.1)",
    "AdagradOptimizer(0.1)",
    "RMSPropOptimizer(0.01)",
    "RMSPropOptimizer(0.01, momentum=0.5, centered=True)",
    "AdadeltaOptimizer(1.0)",
    "FtrlOptimizer(0.1)",
    "ProximalAdagradOptimizer(0.1)",
    "AdamOptimizer(0.1, epsilon=1.0)",
    "ProximalGradientDescentOptimizer(0.1)",
)
_RATES = (
    "tf.train.exponential_decay(0.1, {}, 2, 0.5, staircase=True)",
    "tf.train.piecewise_constant({}, [2], [0.1, 0.01])",
    "tf.train.polynomial_decay(0.1, {}, 4)",
)


def change(
    g: Builder, states: list[str], text: str, type_: Type, *operands: Value, after: str = ""
) -> Value:
    """Add what changes states.

    after is the name of a value that is there before the change.  Raises: SkipError where the
    operands would race.
    """
    statement = g.name("w")
    writes = frozenset((state, statement) for state in states)
    effects = together(*operands) | Effects(writes=writes, after=frozenset([after] * bool(after)))
    return g.make("u", text, type_, effects)


def reading(g: Builder, prefix: str, text: str, type_: Type) -> Value:
    """Add a state, which whoever uses it reads."""
    made = g.make(prefix, text, type_)
    g.values[-1] = Value(made.name, made.type, Effects(reads=frozenset([made.name])))
    g.facts.setdefault("devices", {})[made.name] = g.facts.get("device", "")
    return g.values[-1]


def _is_beside(g: Builder, states: frozenset[str]) -> bool:
    """Whether what is made now is on the devices of variables, as far as is known."""
    here = g.facts.get("device", "")
    return here in ("", *DEVICES) and all(g.facts["devices"].get(one) == here for one in states)


def draw_kind(g: Builder) -> str:
    """Return an argument that asks for a resource variable, for a reference, or for neither."""
    return str(g.choice(("", ", use_resource=True", ", use_resource=False")))


@RULES.add(3)
def variable(g: Builder) -> None:
    dtype, shape = draw_dtype(g), g.choice(SHAPES)
    if dtype not in NUMBERS:
        dtype = "float32"
    kind = draw_kind(g)
    trainable = ", trainable=False" if g.chance(0.15) else ""
    initial = f"tf.constant({g.literal(dtype, shape)}, tf.{dtype})"
    name = f"v{g.random.randrange(10000)}"
    forms = [
        f'tf.Variable({initial}, name="{name}"{trainable}{kind})',
        f'tf.get_variable("{name}", initializer={initial}{trainable}{kind})',
    ]
    if dtype == "float32":
        initializer = g.choice(
            [
                "tf.zeros_initializer()",
                "tf.ones_initializer()",
                "tf.constant_initializer(0.5)",
                "tf.random_uniform_initializer(seed=3)",
                "tf.truncated_normal_initializer(seed=4)",
            ]
        )
        forms.append(f'tf.get_variable("{name}", {list(shape)}, initializer={initializer}{kind})')
    made = reading(g, "v", g.choice(forms), Type("variable", dtype, shape))
    if "True" in kind:
        g.facts.setdefault("resources", set()).add(made.name)


@RULES.add(3)
def assignment(g: Builder) -> None:
    target = g.of_kind("variable")
    form = tensor_type(target.dtype, target.shape)
    if target.shape and g.chance(0.3):
        row = g.literal(target.dtype, (1, *target.shape[1:]))
        function = g.choice(("scatter_add", "scatter_update", "scatter_sub"))
        # One that fails may leave what else the step draws or changes done or not.
        at = [0] if target.shape[0] == 1 else [1]
        change(g, list(target.effects.reads), f"tf.{function}({target}, {at}, {row})", form)
        return
    used = [g.tensor([target.dtype], target.shape)] if g.chance(0.6) else []
    shown = str(used[0]) if used else g.literal(target.dtype, target.shape)
    function = g.choice(("assign", "assign_add", "assign_sub"))
    text = g.choice([f"tf.{function}({target}, {shown})", f"{target}.{function}({shown})"])
    change(g, list(target.effects.reads), text, form, *used)


@RULES.add(2)
def ordered_read(g: Builder) -> None:
    """Read a variable when a change, or any other value, is there."""
    first = g.pick(lambda one: bool(one.effects.writes) or one.type.kind == "placeholder")
    target = g.of_kind("variable")
    changed = {state for state, _ in first.effects.writes}
    reads = Effects() if target.effects.reads <= changed else target.effects
    forms = [f"{target}.read_value()", f"tf.identity({target})", f"{target} + 0"]
    if reads == Effects() and not target.effects.reads <= g.facts.get("resources", set()):
        # A reference is read where it is: for another device before the change, or after it.
        if not _is_beside(g, target.effects.reads):
            raise SkipError
        forms = forms[:1]
    form = g.choice(forms)
    with g.block(f"with tf.control_dependencies([{first}]):"):
        g.make("t", form, tensor_type(target.dtype, target.shape), first.effects | reads)


@RULES.add(0.7)
def grouped(g: Builder) -> None:
    first = g.pick(lambda one: bool(one.effects.writes))
    second = g.pick(lambda one: bool(one.effects.writes))
    if first == second:
        raise SkipError
    text = g.choice([f"tf.group({first}, {second})", f"tf.group([{first}, {second}])"])
    g.make("o", text, OP, together(first, second))


@RULES.add(0.5)
def reused_variable(g: Builder) -> None:
    name, scope = f"w{g.random.randrange(10000)}", g.choice("ab")
    first = f'tf.get_variable("{name}", [2], initializer=tf.ones_initializer())'
    with g.block(f'with tf.variable_scope("{scope}"):'):
        made = reading(g, "v", first, Type("variable", "float32", (2,)))
    reuse = g.choice(("reuse=True", "reuse=tf.AUTO_REUSE"))
    with g.block(f'with tf.variable_scope("{scope}", {reuse}):'):
        text = f'tf.get_variable("{name}", [2])'
        again = g.make("v", text, made.type)
        g.values[-1] = Value(again.name, again.type, made.effects)


@RULES.add(0.4)
def partitioned_variable(g: Builder) -> None:
    name = f"p{g.random.randrange(10000)}"
    text = (
        f'tf.get_variable("{name}", [4, 2], initializer=tf.ones_initializer(), '
        f"use_resource={g.chance(0.5)}, partitioner=tf.fixed_size_partitioner(2))"
    )
    made = reading(g, "p", text, Type("partitioned", "float32", (4, 2)))
    form = g.choice([f"tf.nn.embedding_lookup({made}, [0, 3])", f"tf.convert_to_tensor({made})"])
    shape = (2, 2) if "lookup" in form else (4, 2)
    g.make("t", form, tensor_type("float32", shape), made.effects)


@RULES.add(1)
def embedding(g: Builder) -> None:
    table = g.pick(lambda one: one.type.kind == "variable" and len(one.shape) == 2)
    text = f"tf.nn.embedding_lookup({table}, [1, 0, 1])"
    g.make("t", text, tensor_type(table.dtype, (3, table.shape[1])), table.effects)


# ---- queues


@RULES.add(1)
def queue(g: Builder) -> None:
    dtype = g.choice(("float32", "int32", "string"))
    shape = g.choice(((), (2,)))
    form = g.choice(
        [
            f"tf.FIFOQueue(20, [tf.{dtype}], shapes=[{list(shape)}])",
            f"tf.RandomShuffleQueue(20, 0, [tf.{dtype}], shapes=[{list(shape)}], seed=2)",
            f"tf.PaddingFIFOQueue(20, [tf.{dtype}], shapes=[{list(shape)}])",
        ]
    )
    made = g.make("q", form, Type("queue", dtype, shape))
    g.facts.setdefault("queues", {})[made.name] = 0
    move(g, made, f"{made}.enqueue_many([{g.literal(dtype, (3, *shape))}])", OP, 3)
    move(g, made, f"{made}.dequeue()", tensor_type(dtype, shape), -1)


def move(g: Builder, queue: Value, text: str, type_: Type, delta: int, *operands: Value) -> None:
    """Add what changes how many elements a queue has."""
    made = change(g, [queue.name], text, type_, *operands)
    for move in made.effects.writes - together(*operands).writes:
        g.facts.setdefault("moves", {})[move] = delta


@RULES.add(1)
def use_of_a_queue(g: Builder) -> None:
    queue = g.of_kind("queue")
    kind = g.random.randrange(5)
    if kind == 0:
        source = g.tensor([queue.dtype], queue.shape)
        if source.effects.writes:
            raise SkipError
        move(g, queue, f"{queue}.enqueue({source})", OP, 1, source)
    elif kind == 1:
        move(g, queue, f"{queue}.dequeue_many(2)", tensor_type(queue.dtype, (2, *queue.shape)), -2)
    elif kind == 2:
        effects = Effects(reads=frozenset([queue.name]))
        g.make("t", f"{queue}.size()", tensor_type("int32", ()), effects)
    elif kind == 3:
        move(g, queue, f"{queue}.dequeue()", tensor_type(queue.dtype, queue.shape), -1)
    else:
        move(g, queue, f"{queue}.close()", OP, 0)
        g.facts.setdefault("closing", set()).update(g.values[-1].effects.writes)


# ---- datasets


@RULES.add(1.2)
def dataset(g: Builder) -> None:
    dtype = g.choice(("int64", "float32"))
    source = "tf.data.Dataset.range(5)"
    if dtype == "float32":
        source = f"tf.data.Dataset.from_tensor_slices({g.literal(dtype, (4,))})"
    made, shape = g.make("ds", source, Type("dataset", dtype, ())), ()
    for _ in range(g.random.randrange(4)):
        forms = [".repeat(2)", ".take(3)", ".skip(1)", ".prefetch(1)", ".shuffle(10, seed=3)"]
        if not shape:
            forms += [
                ".map(lambda e: e * 2)",
                ".filter(lambda e: e > 0)",
                ".batch(2)",
                ".map(lambda e: tf.cond(e > 1, lambda: e, lambda: -e))",
                ".map(lambda e: e + 1, num_parallel_calls=2)",
                ".batch(2, drop_remainder=True)",
            ]
        form = g.choice(forms)
        if ".batch(" in form:
            shape = (2,) if "drop" in form else (None,)
        made = g.make("ds", f"{made}{form}", Type("dataset", dtype, shape))
    text = f"tf.data.make_initializable_iterator({made})"
    iterator = g.make("it", text, Type("iterator", dtype, shape))
    change(g, [iterator.name], f"{iterator}.initializer", OP)
    made = change(g, [iterator.name], f"{iterator}.get_next()", tensor_type(dtype, shape))
    g.values[-1] = Value(made.name, made.type, made.effects | Effects(may_fail=True))
    g.facts.setdefault("elements", []).append((g.values[-2], g.values[-1]))


# ---- metrics


@RULES.add(1)
def metric(g: Builder) -> None:
    shape = g.choice(SHAPES[1:3])
    first = g.tensor(["float32"], shape)
    text = f"tf.metrics.mean({first})"
    operands = [first]
    if g.chance(0.5):
        second = g.tensor(["float32"], shape)
        operands.append(second)
        name = g.choice(("mean_squared_error", "mean_absolute_error", "accuracy"))
        text = f"tf.metrics.{name}({first}, {second})"
    _metric(g, text, (), (), *operands)


def _metric(
    g: Builder, text: str, shape: tuple[int, ...], updated: tuple[int, ...], *operands: Value
) -> None:
    """Add a metric: its value of a shape, and what updates it, which gives another."""
    state, statement = g.name("m"), g.name("w")
    effects = together(*operands) | Effects(writes=frozenset([(state, statement)]))
    reads = Effects(reads=frozenset([state]))
    value = ("t", tensor_type("float32", shape), reads)
    g.make_several(text, [value, ("u", tensor_type("float32", updated), effects)])


@RULES.add(1)
def metric_of_classes(g: Builder) -> None:
    first = g.tensor(["float32"], (3,))
    second = g.tensor(["float32"], (3,))
    form, shape, updated = g.choice(
        [
            ("precision({0} > 0.0, {1} > 0.0)", (), ()),
            ("recall({0} > 0.0, {1} > 0.0)", (), ()),
            ("true_positives({0} > 0.0, {1} > 0.0)", (), ()),
            ("root_mean_squared_error({0}, {1})", (), ()),
            ("percentage_below({0}, 0.5, weights=tf.abs({1}))", (), ()),
            ("mean({0}, weights=tf.square({1}))", (), ()),
            ("mean_tensor({0} + {1})", (3,), (3,)),
            ("auc({0} > 0.0, tf.sigmoid({1}), num_thresholds=10)", (), ()),
            ("mean_iou(tf.cast({0} > 0.0, tf.int32), tf.cast({1} > 0.0, tf.int32), 2)", (), (2, 2)),
            ("mean_relative_error({0}, {1}, tf.abs({1}) + 1.0)", (), ()),
            ("mean_per_class_accuracy({0} > 0.0, {1} > 0.0, 2)", (), (2,)),
        ]
    )
    _metric(g, f"tf.metrics.{form.format(first, second)}", shape, updated, first, second)


# ---- training


@RULES.add(2)
def training(g: Builder) -> None:
    """A linear model, its loss, and what trains it."""
    features = "tf.constant([[1.0, 2.0], [0.5, -1.0], [0.0, 1.0]])"
    if g.chance(0.5):
        made = g.make(
            "x", "tf.placeholder(tf.float32, [None, 2])", Type("placeholder", "float32", (None, 2))
        )
        g.values[-1] = Value(made.name, made.type, Effects(needs=frozenset([made.name])))
        g.facts.setdefault("fed shapes", {})[made.name] = (3, 2)
    else:
        g.make("t", features, tensor_type("float32", (3, 2)))
    rows = g.values[-1]
    kind = draw_kind(g)
    number = g.random.randrange(10000)
    weights = reading(
        g,
        "v",
        f'tf.get_variable("w{number}", [2, 1], initializer=tf.ones_initializer(){kind})',
        Type("variable", "float32", (2, 1)),
    )
    bias = reading(
        g, "v", f'tf.Variable([0.5], name="b{number}"{kind})', Type("variable", "float32", (1,))
    )
    effects = together(rows, weights, bias)
    output = g.make(
        "t",
        f"tf.matmul({rows}, {weights}) + {bias}",
        tensor_type("float32", (rows.shape[0], 1)),
        effects,
    )
    loss = g.make(
        "loss", f"tf.reduce_mean(tf.square({output} - 1.0))", tensor_type("float32", ()), effects
    )
    _train(g, loss, [weights, bias])


@RULES.add(0.7)
def training_of_an_embedding(g: Builder) -> None:
    """A table of which a step changes some rows."""
    kind, number = draw_kind(g), g.random.randrange(10000)
    table = reading(
        g,
        "v",
        f'tf.get_variable("e{number}", [4, 2], initializer=tf.ones_initializer(){kind})',
        Type("variable", "float32", (4, 2)),
    )
    rows = g.choice(("[1, 3, 1]", "tf.constant([0, 2], tf.int64)", "tf.constant([[0], [3]])"))
    looked_up = f"tf.nn.embedding_lookup({table}, {rows})"
    if g.chance(0.5):
        looked_up = f"tf.gather({table}, {rows})"
    text = f"tf.reduce_sum(tf.square({looked_up}))"
    loss = g.make("loss", text, tensor_type("float32", ()), table.effects)
    _train(g, loss, [table])


def _train(g: Builder, loss: Value, variables: list[Value]) -> None:
    states = [one.name for one in variables]
    step = ""
    if g.chance(0.6):
        step = str(_global_step(g))
        states.append("global step")
    optimizer = g.choice(OPTIMIZERS)
    if step and g.chance(0.3):
        optimizer = f"GradientDescentOptimizer({g.choice(_RATES).format(step)})"
    made = g.make("opt", f"tf.train.{optimizer}", Type("optimizer"))
    named = f", global_step={step}" if step else ""
    kind = g.random.randrange(4)
    if kind == 0:
        pairs = g.make("gv", f"{made}.compute_gradients({loss})", Type("gradients"))
        clip = "[(tf.clip_by_norm(d, 0.5), v) for d, v in {} if d is not None]"
        text = f"{made}.apply_gradients({clip.format(pairs)}{named})"
        if g.chance(0.3):
            norm = f"tf.clip_by_global_norm([d for d, _ in {pairs}], 1.0)[0]"
            text = f"{made}.apply_gradients(zip({norm}, [v for _, v in {pairs}]){named})"
    elif kind == 1 and len(variables) > 1:
        text = f"{made}.minimize({loss}, var_list=[{variables[0]}]{named})"
    else:
        more = g.choice(("", "", ", colocate_gradients_with_ops=True", ', name="trains"'))
        text = f"{made}.minimize({loss}{named}{more})"
    train = change(g, states, text, OP, loss, after=loss.name)
    if (
        g.chance(0.2) and g.facts["control flow"] == 1
    ):  # in TensorFlow, version 2 fails now and then
        average = g.make("ema", "tf.train.ExponentialMovingAverage(0.5)", Type("average"))
        with g.block(f"with tf.control_dependencies([{train}]):"):
            change(g, [average.name], f"{average}.apply([{variables[0]}])", OP, train)
        g.make(
            "t",
            f"{average}.average({variables[0]}) + 0.0",
            tensor_type("float32", variables[0].shape),
            Effects(reads=frozenset([average.name])),
        )


def _global_step(g: Builder) -> Value:
    """Return the graph's step, which is made once."""
    found = g.all(lambda one: one.type.kind == "variable" and one.name.startswith("step"))
    if found:
        return found[0]
    made = g.make("step", "tf.train.get_or_create_global_step()", Type("variable", "int64", ()))
    g.values[-1] = Value(made.name, made.type, Effects(reads=frozenset(["global step"])))
    return g.values[-1]


@RULES.add(0.6)
def summaries(g: Builder) -> None:
    single = g.tensor(["float32"], ())
    names = [f"a{g.random.randrange(100)}"]
    operands = [single]
    g.make("sm", f'tf.summary.scalar("{names[0]}", {single})', Type("summary"), single.effects)
    if g.chance(0.5):
        wide = g.tensor(["float32"], g.choice(SHAPES[1:]))
        effects = together(single, wide)
        other = g.make(
            "sm",
            f'tf.summary.histogram("h{g.random.randrange(100)}", {wide})',
            Type("summary"),
            effects,
        )
        operands.append(other)
        g.make("sm", f"tf.summary.merge([{g.values[-2]}, {other}])", Type("summary"), effects)
