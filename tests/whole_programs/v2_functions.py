"""The grammar of eager programs, part 2: functions of other kinds, derivatives of derivatives."""

from __future__ import annotations

from whole_programs.builder import FLOATS, SHAPES, Builder, Rules, SkipError, Value
from whole_programs.syntax import Type
from whole_programs.v1_flow import formula

RULES = Rules()


def _float(g: Builder) -> Value:
    return g.pick(lambda one: one.type.kind in ("tensor", "variable") and one.dtype in FLOATS)


@RULES.add(1)
def nested_functions(g: Builder) -> None:
    inner, outer = Value(g.name("f"), Type("inner")), Value(g.name("f"), Type("outer"))
    operand = _float(g)
    with g.function(inner, f"@tf.function\ndef {inner.name}(a, n=2):", []):
        g.say(f"for _ in range(n):\n    a = {formula(g, 'a', operand.dtype)}\nreturn a")
    form = g.choice(
        [
            f"return {inner}(a) + {inner}(a, n=1)",
            f"return tf.map_fn(lambda e: {inner}(e), tf.stack([a, a]))",
            f"return tf.cond(tf.reduce_sum(a) > 0, lambda: {inner}(a), lambda: {inner}(a, 3))",
            f"with tf.GradientTape() as t:\n    t.watch(a)\n    b = {inner}(a)\nreturn t.gradient(b, a)",
        ]
    )
    with g.function(outer, f"@tf.function\ndef {outer.name}(a):", []):
        g.say(form)
    g.say(f"at.note({outer}, tf.convert_to_tensor({operand}))")
    g.say(f"at.note({outer}.experimental_get_tracing_count)")


@RULES.add(1)
def structures_of_arguments(g: Builder) -> None:
    made = Value(g.name("f"), Type("structured"))
    operand = _float(g)
    with g.function(made, f"@tf.function\ndef {made.name}(a, *rest, k=None, **more):", []):
        g.say(
            "b = a['x'] + tf.add_n([tf.cast(r, a['x'].dtype) for r in rest]) if rest else a['x']\n"
            "if k is not None:\n    b = b * k\n"
            "return {'b': b, 'more': sorted(more)}"
        )
    calls = [
        f"{{'x': {operand}}}",
        f"{{'x': {operand}}}, {operand}, {operand}",
        f"{{'x': {operand}}}, k=2.0",
        f"{{'x': {operand}}}, k=3.0, z=1",
        f"{{'y': {operand}}}",
        f"{{'x': {operand}}}, 'word'",
    ]
    for _ in range(g.random.randrange(1, 4)):
        g.say(f"at.note(lambda: {made}({g.choice(calls)}))")
    g.say(f"at.note({made}.experimental_get_tracing_count)")


@RULES.add(1)
def module(g: Builder) -> None:
    kind, made = g.name("M"), g.name("m")
    with g.block(f"class {kind}(tf.Module):"):
        with g.block("def __init__(self, name=None):"):
            g.say("super().__init__(name=name)\nself.w = tf.Variable([1.0, 2.0], name='w')")
            g.say("self.parts = [tf.Variable(3.0), {'k': tf.Variable(4.0, trainable=False)}]")
        wrapped = g.choice(("", "@tf.function\n"))
        with g.block(f"{wrapped}def __call__(self, x):"):
            g.say("self.w.assign_add(x)\nreturn self.w * self.parts[0]")
    named = g.choice(("", 'name="n"'))
    g.say(f"{made} = {kind}({named})")
    g.say(f"at.note({made}, tf.constant([0.5, {g.literal('float32', ())}]))")
    forms = [
        f"[v.name for v in {made}.variables]",
        f"[v.name for v in {made}.trainable_variables]",
        f"{made}.name",
        f"len({made}.submodules)",
    ]
    g.say(f"at.note(lambda: {g.choice(forms)})")


@RULES.add(1)
def custom_gradient(g: Builder) -> None:
    function, operand = Value(g.name("f"), Type("custom")), _float(g)
    wrapped = g.choice(("", "@tf.function\n"))
    with g.function(function, f"{wrapped}@tf.custom_gradient\ndef {function.name}(a):", []):
        g.say(f"return {formula(g, 'a', operand.dtype)}, lambda d: d * 3")
    name = g.name("tape")
    with g.block(f"with tf.GradientTape() as {name}:"):
        g.say(f"{name}.watch({operand})\ny = {function}({operand} * 2)")
    g.say(f"at.note({name}.gradient, y, {operand})")


@RULES.add(1)
def second_derivatives(g: Builder) -> None:
    operand = _float(g)
    outer, inner = g.name("tape"), g.name("tape")
    body = formula(g, "x", operand.dtype, 3)
    with g.block(f"with tf.GradientTape(persistent={g.chance(0.5)}) as {outer}:"):
        g.say(f"x = tf.convert_to_tensor({operand})\n{outer}.watch(x)")
        with g.block(f"with tf.GradientTape() as {inner}:"):
            g.say(f"{inner}.watch(x)\ny = tf.reduce_sum(({body}) ** 3)")
        g.say(f"d = {inner}.gradient(y, x)")
    g.say(f"at.note(lambda: d)\nat.note({outer}.{g.choice(('gradient', 'jacobian'))}, d, x)")


@RULES.add(0.7)
def branch_of_several(g: Builder) -> None:
    operand, function = _float(g), Value(g.name("f"), Type("switch"))
    # Of a branch `a + a + 2.0` TensorFlow makes an empty array.
    cases = ", ".join(f"lambda: {formula(g, 'a', operand.dtype, 1)}" for _ in range(3))
    with g.function(function, f"@tf.function\ndef {function.name}(i, a):", []):
        g.say(f"return tf.switch_case(i, [{cases}], default=lambda: a)")
    for i in (g.random.randrange(3), 7):
        g.say(f"at.note({function}, tf.constant({i}), {operand})")


@RULES.add(0.7)
def variable_in_a_function(g: Builder) -> None:
    kind, made = g.name("C"), g.name("c")
    shape = g.choice(SHAPES)
    with g.block(f"class {kind}:"):
        g.say("v = None")
        with g.block("@tf.function\ndef __call__(self, x):"):
            with g.block("if self.v is None:"):
                g.say(f"self.v = tf.Variable(tf.ones({list(shape)}))")
            g.say("return self.v.assign_add(x * tf.ones_like(self.v))")
    g.say(
        f"{made} = {kind}()\nat.note({made}, tf.constant(2.0))\nat.note({made}, tf.constant(1.0))"
    )
    g.say(f"at.note({made}.v.read_value)")


@RULES.add(0.7)
def dataset_in_a_function(g: Builder) -> None:
    made = g.pick(lambda one: one.type.kind == "dataset" and one.dtype == "flat")
    function = Value(g.name("f"), Type("walks"))
    with g.function(function, f"@tf.function\ndef {function.name}(d):", []):
        g.say("s = 0.0\nfor e in d:\n    s += tf.cast(e, tf.float32)\nreturn s")
    g.say(f"at.note({function}, {made}.take({g.random.randrange(1, 5)}))")


@RULES.add(0.7)
def function_of_python(g: Builder) -> None:
    operand, function = _float(g), Value(g.name("f"), Type("python"))
    kind = g.choice(("py_function", "numpy_function"))
    with g.function(function, f"@tf.function\ndef {function.name}(a):", []):
        g.say(f"return tf.{kind}(lambda b: b * 2, [a], a.dtype) + 1")
    if operand.shape:
        raise SkipError
    g.say(f"at.note({function}, {operand})")
