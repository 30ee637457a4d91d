"""The grammar of graphs, part 3: branches, loops, functions, devices."""

from __future__ import annotations

from whole_programs.builder import (
    FLOATS,
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
from whole_programs.v1_state import DEVICES, change
from whole_programs.v1_state import RULES as STATE
from whole_programs.v1_values import RULES as VALUES
from whole_programs.v1_values import tensor_type

RULES = Rules()


def formula(g: Builder, leaf: str, dtype: str, depth: int = 2) -> str:
    """Return a formula of a leaf that has the leaf's type and shape."""
    if depth == 0 or g.chance(0.2):
        return leaf
    inner = formula(g, leaf, dtype, depth - 1)
    forms = [
        f"{inner} + {g.literal(dtype, ())}",
        f"{inner} * {g.literal(dtype, ())}",
        f"-({inner})",
        f"tf.abs({inner})",
        # TensorFlow's optimiser loses what a branch or loop adds to itself.
        f"({inner}) {'*' if inner == leaf else '+'} ({leaf})",
        f"tf.maximum({inner}, {g.literal(dtype, ())})",
    ]
    if dtype in FLOATS:
        forms += [f"tf.tanh({inner})", f"tf.sigmoid({inner})", f"tf.square({inner})"]
    return str(g.choice(forms))


def condition(g: Builder) -> Value:
    """Return a scalar bool, made of a number where there is none."""
    found = g.all(
        lambda one: one.dtype == "bool" and one.shape == () and one.type.kind != "variable"
    )
    if found and g.chance(0.7):
        return found[-1]
    operand = g.tensor(NUMBERS, ())
    text = f"{operand} > {g.literal(operand.dtype, ())}"
    return g.make("t", text, tensor_type("bool", ()), operand.effects)


@RULES.add(2)
def cond(g: Builder) -> None:
    predicate = condition(g)
    operand = g.tensor(NUMBERS)
    type_ = tensor_type(operand.dtype, operand.shape)
    branches = [formula(g, str(operand), operand.dtype) for _ in range(2)]
    if g.chance(0.1):
        branches[1] = f"tf.cond({operand} is None, lambda: {branches[1]}, lambda: {branches[0]})"
        branches[1] = branches[1].replace(f"{operand} is None", str(predicate))
    text = f"tf.cond({predicate}, lambda: {branches[0]}, lambda: {branches[1]})"
    g.make("t", text, type_, together(predicate, operand))


@RULES.add(1)
def cond_with_changes(g: Builder) -> None:
    predicate = condition(g)
    target = g.of_kind("variable")
    if target.effects.reads & predicate.effects.touches or not _may_be_changed(g, target):
        raise SkipError
    number = g.literal(target.dtype, target.shape)
    text = f"tf.cond({predicate}, lambda: tf.assign_add({target}, {number}), lambda: tf.identity({target}))"
    change(g, list(target.effects.reads), text, tensor_type(target.dtype, target.shape), predicate)


def _may_be_changed(g: Builder, variable: Value) -> bool:
    """Whether branches and loops may change a variable: those of version 2 take no references."""
    return g.facts["control flow"] == 1 or variable.name in g.facts.get("resources", ())


@RULES.add(0.7)
def case(g: Builder) -> None:
    predicate, operand = condition(g), g.tensor(FLOATS)
    first, other = (formula(g, str(operand), operand.dtype) for _ in range(2))
    text = f"tf.case([({predicate}, lambda: {first})], default=lambda: {other})"
    g.make("t", text, tensor_type(operand.dtype, operand.shape), together(predicate, operand))


@RULES.add(2)
def while_loop(g: Builder) -> None:
    # What changes a reference gives one, which loops of version 1 do not take.
    operand = g.pick(
        lambda one: (
            one.type.kind == "tensor"
            and one.dtype in FLOATS
            and None not in one.shape
            and not one.name.startswith("u")
            and not one.effects.may_fail  # see docs/compatibility.md, "Known differences"
        )
    )
    times = g.random.randrange(4)
    body = formula(g, "a", operand.dtype)
    extra, used = "", [operand]
    outside = g.all(
        lambda one: (
            one.dtype == operand.dtype
            and one.shape in ((), operand.shape)
            and one.type.kind in ("tensor", "variable")
        )
    )
    if outside and g.chance(0.5):
        used.append(g.choice(outside))
        extra = f" + {used[1]}"
    options = g.choice(("", ", parallel_iterations=1", ", swap_memory=True", ", back_prop=False"))
    text = f"tf.while_loop(lambda i, a: i < {times}, lambda i, a: (i + 1, {body}{extra}), [0, {operand}]{options})"
    effects = together(*used)
    several = [
        ("t", tensor_type("int32", ()), effects),
        ("t", tensor_type(operand.dtype, operand.shape), effects),
    ]
    g.make_several(text, several)


@RULES.add(0.7)
def while_with_changes(g: Builder) -> None:
    target = g.of_kind("variable")
    if not _may_be_changed(g, target):
        raise SkipError
    number = g.literal(target.dtype, target.shape)
    body = f"tf.group(tf.assign_add({target}, {number}))"
    text = (
        f"tf.while_loop(lambda i: i < 3, lambda i: tf.tuple([i + 1], control_inputs=[{body}]), [0])"
    )
    change(g, list(target.effects.reads), text, tensor_type("int32", ()))


@RULES.add(1)
def while_with_more_inside(g: Builder) -> None:
    operand = g.pick(
        lambda one: (
            one.type.kind == "tensor"
            and one.dtype in FLOATS
            and len(one.shape) > 0
            and None not in one.shape
            and not one.name.startswith("u")
            and not one.effects.may_fail
        )
    )
    body = formula(g, "a", operand.dtype)
    rows = g.random.randrange(1, 4)
    open_ = f"[tf.TensorShape([]), tf.TensorShape([None, *{list(operand.shape[1:])}])]"
    text, shape = g.choice(
        [
            (
                "tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.while_loop("
                f"lambda j, b: j < i, lambda j, b: (j + 1, b * 0.5), [0, {body}])[1]), "
                f"[0, {operand}])[1]",
                operand.shape,
            ),
            (
                "tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.cond("
                f"tf.equal(i, 1), lambda: {body}, lambda: a * 2.0)), [0, {operand}])[1]",
                operand.shape,
            ),
            (
                f"tf.while_loop(lambda i, a: i < {rows}, lambda i, a: (i + 1, "
                f"tf.concat([a, a[:1]], 0)), [0, {operand}], shape_invariants={open_})[1]",
                (None, *operand.shape[1:]),
            ),
            (
                f"tf.while_loop(lambda i, l: i < {rows}, lambda i, l: (i + 1, l.write(i, "
                f"{operand} * tf.cast(i, tf.{operand.dtype}))), "
                f"[0, tf.TensorArray(tf.{operand.dtype}, {rows})])[1].stack()",
                (rows, *operand.shape),
            ),
            (
                # With a limit, TensorFlow's loop of version 1 takes no tuple for a list.
                "tf.while_loop(lambda i, a: tf.reduce_sum(tf.abs(a)) < 20.0, lambda i, a: "
                f"[i + 1, a * 2.0], [0, {operand}], maximum_iterations=4)[1]",
                operand.shape,
            ),
        ]
    )
    g.make("t", text, tensor_type(operand.dtype, shape), operand.effects)


_FUNCTIONS = (
    "return {f}",
    "if tf.reduce_sum(a) > 0:\n    a = {f}\nreturn a",
    "for i in tf.range(3):\n    a = {f}\nreturn a",
    "while tf.reduce_sum(tf.abs(a)) < 10 and tf.reduce_sum(tf.abs(a)) > 1:\n    a = a * 2\nreturn a",
    "return tf.cond(tf.reduce_sum(a) > 0, lambda: {f}, lambda: a)",
)


@RULES.add(1)
def function_in_a_graph(g: Builder) -> None:
    # TensorFlow's functions take no references into branches.
    operand = g.pick(
        lambda one: (
            one.type.kind == "tensor" and one.dtype in FLOATS and not one.name.startswith("u")
        )
    )
    function = Value(g.name("f"), Type("function"))
    body = g.choice(_FUNCTIONS).format(f=formula(g, "a", operand.dtype))
    with g.function(function, f"@tf.function\ndef {function.name}(a):", []):
        g.say(body)
    type_ = tensor_type(operand.dtype, operand.shape)
    g.make("t", f"{function}({operand})", type_, operand.effects)


@RULES.add(1)
def functional(g: Builder) -> None:
    operand = g.tensor(NUMBERS)
    if not operand.shape or None in operand.shape:
        raise SkipError
    body = formula(g, "e", operand.dtype)
    text, shape = g.choice(
        [
            (f"tf.map_fn(lambda e: {body}, {operand})", operand.shape),
            (f"tf.scan(lambda a, e: a + ({body}), {operand})", operand.shape),
            (f"tf.foldl(lambda a, e: a + ({body}), {operand})", operand.shape[1:]),
            (f"tf.foldr(lambda a, e: a - ({body}), {operand})", operand.shape[1:]),
        ]
    )
    g.make("t", text, tensor_type(operand.dtype, shape), operand.effects)


@RULES.add(0.7)
def tensor_array(g: Builder) -> None:
    operand = g.pick(
        lambda one: (
            one.type.kind in ("tensor", "placeholder")
            and bool(one.shape)
            and one.shape[0] is not None
            and one.dtype in FLOATS
        )
    )
    rows = operand.shape[0]
    made = g.make(
        "ta",
        f"tf.TensorArray(tf.{operand.dtype}, {rows}).unstack({operand})",
        Type("array", operand.dtype, operand.shape),
        operand.effects,
    )
    text, shape = g.choice(
        [
            (f"{made}.stack()", operand.shape),
            (f"{made}.read(1)", operand.shape[1:]),
            (
                f"{made}.concat()" if len(operand.shape) > 1 else f"{made}.gather([1])",
                operand.shape if len(operand.shape) < 2 else (None, *operand.shape[2:]),
            ),
            (f"{made}.size()", ()),
        ]
    )
    dtype = "int32" if "size" in text else operand.dtype
    g.make("t", text, tensor_type(dtype, shape), operand.effects)


@RULES.add(0.5)
def custom_gradient(g: Builder) -> None:
    operand = g.tensor(FLOATS)
    body = formula(g, "a", operand.dtype)
    text = f"tf.custom_gradient(lambda a: ({body}, lambda d: d * 3.0))({operand})"
    g.make("t", text, tensor_type(operand.dtype, operand.shape), operand.effects)


@RULES.add(0.4)
def asserted(g: Builder) -> None:
    operand = g.tensor(NUMBERS)
    shape = operand.shape
    check = g.choice(
        [
            f"tf.assert_equal({operand}, {operand})",
            f"tf.assert_greater({operand}, tf.cast(-3, tf.{operand.dtype}))",
            f"tf.Assert(tf.reduce_all({operand} < 5), [{operand}])",
            f"tf.assert_rank({operand}, {g.choice((0, 1, 2))})",
        ]
    )
    effects = operand.effects | Effects(may_fail=True)
    made = g.make("o", check, Type("op"), effects)
    with g.block(f"with tf.control_dependencies([{made}]):"):
        g.make("t", f"tf.identity({operand})", tensor_type(operand.dtype, shape), effects)


@RULES.add(3)
def placed(g: Builder) -> None:
    device = g.choice(DEVICES)
    text = f'with tf.device(at.device("{device}")):'
    if g.chance(0.2):
        text = (
            "with tf.device(tf.train.replica_device_setter("
            'ps_tasks=at.ps_tasks(), worker_device=at.device("/job:worker/task:1"))):'
        )
    g.facts["device"] = device if device in text else "by what is placed"
    with g.block(text):
        g.apply(g.choice((VALUES, STATE, STATE)), 1 + g.random.randrange(3))
    g.facts["device"] = ""


@RULES.add(0.3)
def shapes_of_constants(g: Builder) -> None:
    shape = g.choice(SHAPES)
    form = g.choice(("tf.zeros", "tf.ones"))
    g.make("t", f"{form}({list(shape)})", tensor_type("float32", shape), Effects())
