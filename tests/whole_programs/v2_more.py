"""The grammar of eager programs, part 4: more datasets, variables, derivatives and functions."""

from __future__ import annotations

from whole_programs.builder import FLOATS, NUMBERS, Builder, Rules, SkipError, Value
from whole_programs.syntax import Type
from whole_programs.v1_flow import formula

RULES = Rules()


def _float(g: Builder) -> Value:
    return g.pick(lambda one: one.type.kind in ("tensor", "variable") and one.dtype in FLOATS)


@RULES.add(2)
def more_of_datasets(g: Builder) -> None:
    text = g.choice(
        [
            "tf.data.Dataset.range(7).window(3, shift=2, drop_remainder=True).flat_map(lambda w: w.batch(3))",
            "tf.data.Dataset.range(6).group_by_window(lambda e: e % 2, lambda k, w: w.batch(2), 2)",
            "tf.data.Dataset.range(5).map(lambda e: tf.range(e)).padded_batch(2)",
            "tf.data.Dataset.range(5).map(lambda e: tf.range(e)).padded_batch(2, padding_values=tf.constant(-1, tf.int64), drop_remainder=True)",
            "tf.data.Dataset.range(6).map(lambda e: tf.ones([e])).bucket_by_sequence_length(lambda e: tf.shape(e)[0], [2, 4], [1, 2, 2])",
            "tf.data.Dataset.from_tensors([1, 2, 1, 3]).unbatch().unique()",
            "tf.data.Dataset.sample_from_datasets([tf.data.Dataset.range(3), tf.data.Dataset.range(9, 12)], [0.5, 0.5], seed=3)",
            "tf.data.Dataset.choose_from_datasets([tf.data.Dataset.range(3), tf.data.Dataset.range(9, 12)], tf.data.Dataset.range(2).repeat(2))",
            "tf.data.Dataset.from_generator(lambda: ((i, [i] * i) for i in range(3)), output_signature=(tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.int32)))",
            "tf.data.Dataset.range(5).concatenate(tf.data.Dataset.range(2)).rebatch(3)",
            "tf.data.Dataset.range(4).ragged_batch(2)",
            "tf.data.Dataset.range(4).map(lambda e: tf.range(e)).ragged_batch(2)",
            "tf.data.Dataset.range(4).batch(2).map(lambda e: {'a': e, 'b': (e, -e)}).unbatch()",
            "tf.data.Dataset.random(seed=4).take(3)",
            "tf.data.Dataset.range(4).snapshot(at.directory + '/snap')",
            "tf.data.Dataset.range(4).apply(tf.data.experimental.dense_to_ragged_batch(3))",
            "tf.data.Dataset.range(8).shuffle(8, seed=2, reshuffle_each_iteration=False).repeat(2)",
            "tf.data.Dataset.range(8).shard(3, 1).prefetch(tf.data.AUTOTUNE)",
            "tf.data.Dataset.range(6).interleave(lambda e: tf.data.Dataset.range(e), cycle_length=2, block_length=2, num_parallel_calls=2)",
            "tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1, 2], [3]]))",
            "tf.data.Dataset.from_tensor_slices(tf.sparse.from_dense([[1, 0], [0, 2]])).map(tf.sparse.to_dense)",
            "tf.data.Dataset.range(3).map(lambda e: tf.numpy_function(lambda a: a + 1, [e], tf.int64))",
            "tf.data.Dataset.range(3).map(lambda e: 10 // (e - 1)).ignore_errors()",
            "tf.data.Dataset.range(4).scan(np.int64(0), lambda s, e: (s + e, s * e)).take_while(lambda e: e < 5)",
            "tf.data.Dataset.zip({'a': tf.data.Dataset.range(2), 'b': tf.data.Dataset.range(5)})",
            "tf.data.Dataset.range(5).batch(2).enumerate(start=3)",
        ]
    )  # fmt: skip
    name = g.name("ds")
    g.say(f"{name} = {text}")
    if "random(" not in text:
        g.say(
            f"at.note(lambda: [tf.nest.map_structure(np.asarray, e) for e in {name}.as_numpy_iterator()])"
            if "ragged" not in text
            else f"at.note(lambda: [e.to_list() if hasattr(e, 'to_list') else e.numpy() for e in {name}])"
        )
    g.say(f"at.note(lambda: str({name}.element_spec))")
    g.say(f"at.note(lambda: int({name}.cardinality()))")


@RULES.add(1.5)
def more_of_variables(g: Builder) -> None:
    one = g.pick(lambda one: one.type.kind == "variable" and len(one.shape) >= 1)
    row = g.literal(one.dtype, one.shape[1:])
    slices = f"tf.IndexedSlices(tf.constant([{row}], tf.{one.dtype}), [1])"
    text = g.choice(
        [
            f"{one}.scatter_update, {slices}",
            f"{one}.scatter_max, {slices}",
            f"{one}.scatter_mul, {slices}",
            f"{one}.scatter_div, {slices}",
            f"{one}.scatter_nd_update, [[1]], [{row}]",
            f"{one}.scatter_nd_sub, [[0]], [{row}]",
            f"{one}.batch_scatter_update, {slices}",
            f"{one}.gather_nd, [[1]]",
            f"{one}.sparse_read, [1, 0]",
            f"{one}[0].assign, {row}",
            f"{one}[1:].assign, [{row}] * {(one.shape[0] or 1) - 1}",
            f"{one}.value",
            f"{one}.count_up_to, 3",
            f"lambda: tf.gather({one}, [1, 1])",
            f"lambda: {one}.shape.as_list()",
            f"lambda: repr({one}.dtype)",
        ]
    )
    g.say(f"at.note({text})\nat.note({one}.numpy)")


@RULES.add(1.5)
def more_derivatives(g: Builder) -> None:
    one = _float(g)
    body = formula(g, "x", one.dtype, 2)
    name = g.name("tape")
    kind = g.random.randrange(6)
    if kind == 0:
        with g.block(f"with tf.autodiff.ForwardAccumulator({one}, tf.ones_like({one})) as {name}:"):
            g.say(f"x = tf.identity({one})\ny = {body}")
        g.say(f"at.note({name}.jvp, y)")
    elif kind == 1:
        g.say(f"at.note(lambda: tf.vectorized_map(lambda x: {body}, tf.stack([{one}, {one}])))")
    elif kind == 2:
        with g.block(f"with tf.GradientTape(persistent=True) as {name}:"):
            g.say(f"x = tf.convert_to_tensor({one})\n{name}.watch(x)\ny = {body}")
            with g.block(f"with {name}.stop_recording():"):
                g.say("z = y * 2")
            g.say("w = y * z")
        g.say(f"at.note({name}.gradient, w, x)\nat.note({name}.gradient, z, x)")
        g.say(f"at.note({name}.gradient, z, x, unconnected_gradients='zero')")
    elif kind == 3:
        g.say(f"f{name} = tf.recompute_grad(lambda x: {body})")
        with g.block(f"with tf.GradientTape() as {name}:"):
            g.say(f"x = tf.convert_to_tensor({one})\n{name}.watch(x)\ny = f{name}(x)")
        g.say(f"at.note({name}.gradient, y, x)")
    elif kind == 4:
        with g.block(f"with tf.GradientTape() as {name}:"):
            g.say(f"x = tf.convert_to_tensor({one})\n{name}.watch(x)\ny = [{body}, x * x]")
        g.say(f"at.note({name}.gradient, y, x, output_gradients=[tf.ones_like(y[0]), y[1]])")
    else:
        with g.block(f"with tf.GradientTape() as {name}:"):
            g.say(f"x = tf.convert_to_tensor({one})\n{name}.watch(x)")
            g.say(f"y = tf.stack([{body}, x])")
        form = g.choice(("batch_jacobian, y, y", "jacobian, y, x, experimental_use_pfor=False"))
        if "batch" in form and not one.shape:
            raise SkipError
        g.say(f"at.note({name}.{form})")


_BODIES = (
    "b = a\nfor e in tf.unstack(a):\n    b = b + e\nreturn b",
    "l = []\nfor i in range(3):\n    l.append({f})\nreturn tf.stack(l)",
    "i = tf.constant(0)\nwhile i < 4:\n    i += 1\n    if i == 2:\n        continue\n    if tf.reduce_sum(a) > 50:\n        break\n    a = {f}\nreturn a, i",
    "if tf.reduce_sum(a) > 0:\n    return {f}\nreturn {h}",
    "b = {f} if tf.reduce_sum(a) > 0 else {h}\nreturn b",
    "if tf.reduce_sum(a) > 0 and tf.reduce_max(a) < 3 or tf.reduce_min(a) < -1:\n    a = {f}\nreturn not tf.reduce_sum(a) > 0",
    "tf.print('x', a, output_stream='file:///dev/null')\nreturn {f}",
    "b = tf.TensorArray(a.dtype, 0, dynamic_size=True)\nfor i in tf.range(3):\n    b = b.write(i, {f})\nreturn b.stack()",
    "def inner(c):\n    if tf.reduce_sum(c) > 0:\n        return c * 2\n    else:\n        return c - 1\nreturn inner({f})",
    "for i in tf.range(2):\n    for j in tf.range(2):\n        if i == j:\n            a = {f}\nreturn a",
    "x, y = a, {f}\nwhile tf.reduce_sum(tf.abs(x)) < 8 and tf.reduce_sum(tf.abs(x)) > 1:\n    x, y = x * 2, x\nreturn {{'x': x, 'y': y}}",
    "f = lambda q: {f} + q\nreturn f(a)",
    "try:\n    b = {f}\nfinally:\n    c = 1\nreturn b * c",
    "with tf.name_scope('n'):\n    b = {f}\nreturn b, tf.shape(b)",
    "return tf.scan(lambda c, e: c + e, tf.stack([a, {f}]))",
    "return tf.foldl(lambda c, e: c * e, tf.stack([a, {f}]))",
    "return tf.nest.map_structure(lambda q: q * 2, {{'a': a, 'b': [{f}, {h}]}})",
    "return tf.switch_case(tf.cast(tf.reduce_sum(a) > 0, tf.int32), [lambda: {f}, lambda: {h}])",
    "return tf.case([(tf.reduce_sum(a) > 1, lambda: {f})], default=lambda: {h})",
    "return tf.map_fn(lambda e: (e[0] * 2, e[1]), (tf.stack([a, a]), tf.stack([{f}, a])))",
    "b = [e for e in [a, {f}] if e is not None]\nreturn b",
    "a = tf.identity(a)\na.set_shape(a.shape)\nreturn tf.size(a), {f}",
    "total = tf.zeros([], a.dtype)\nfor k, e in {{'p': a, 'q': {f}}}.items():\n    total += tf.reduce_sum(e)\nreturn total",
    "for e, n in zip([1, 2], [a, {h}]):\n    a = a + n * e\nreturn a",
    "for i, e in enumerate(tf.data.Dataset.range(3)):\n    a = a + tf.cast(e, a.dtype)\nreturn a",
)


@RULES.add(3)
def more_functions(g: Builder) -> None:
    dtype = g.choice(("float32", "float64", "int32"))
    made = Value(g.name("f"), Type("function", dtype))
    f, h = formula(g, "a", dtype, 1), formula(g, "a", dtype, 1)
    body = g.choice(_BODIES).format(f=f, h=h)
    with g.function(made, f"@tf.function\ndef {made.name}(a):", []):
        g.say(body)
    shapes: tuple[tuple[int, ...], ...] = ((), (2,), (2, 3))
    for _ in range(2):
        literal = g.literal(dtype, g.choice(shapes))
        g.say(f"at.note({made}, tf.constant({literal}, tf.{dtype}))")
    # Loops over datasets have gradients here, and none in TensorFlow.
    if g.chance(0.5) and dtype in FLOATS and "Dataset" not in body:
        name = g.name("tape")
        g.say(f"x = tf.constant({g.literal(dtype, (2,))}, tf.{dtype})")
        with g.block(f"with tf.GradientTape() as {name}:"):
            g.say(f"{name}.watch(x)\ny = tf.nest.flatten({made}(x))[0]")
        g.say(f"at.note({name}.gradient, y, x)")


@RULES.add(1.5)
def ragged(g: Builder) -> None:
    name = g.name("r")
    g.say(
        f"{name} = "
        + g.choice(
            (
                "tf.ragged.constant([[1.0, 2.0], [], [3.0]])",
                "tf.RaggedTensor.from_value_rowids([1.0, 2.0, 5.0], [0, 0, 2])",
            )
        )
    )
    form = g.choice(
        [
            "({} * 2 + 1).to_list()", "tf.reduce_sum({}, 1)", "tf.reduce_mean({}, axis=0)", "tf.reduce_max({}, axis=None)",
            "{}[1:].to_list()", "{}[:, :1].to_list()", "{}.flat_values", "{}.row_splits", "{}.value_rowids()",
            "tf.ragged.boolean_mask({0}, {0} > 1.5).to_list()", "tf.gather({}, [2, 0]).to_list()", "{}.to_sparse().indices",
            "tf.concat([{0}, {0}], 1).to_list()", "tf.stack([{0}, {0}]).to_list()", "tf.expand_dims({}, 1).to_list()",
            "tf.map_fn(tf.reduce_sum, {})", "tf.ragged.map_flat_values(tf.square, {}).to_list()", "{}.bounding_shape()",
            "tf.tile({}, [1, 2]).to_list()", "tf.reverse({}, [1]).to_list()", "tf.where({} > 1.5)", "str({})", "repr({}.shape)",
            "{}.to_tensor(-1.0, shape=[None, 3])", "{}.with_row_splits_dtype(tf.int32).row_splits.dtype.name", "{}.nrows()",
            "tf.size({})", "tf.cast({}, tf.int32).to_list()", "[e.numpy().tolist() for e in {}]", "({0} == {0}).to_list()",
        ]
    )  # fmt: skip
    g.say(f"at.note(lambda: {form.format(name)})")


@RULES.add(2)
def functions_of_arrays(g: Builder) -> None:
    one = g.pick(
        lambda one: (
            one.type.kind in ("tensor", "variable")
            and one.dtype in NUMBERS
            and len(one.shape) == 2
            and None not in one.shape
        )
    )
    form = g.choice(
        [
            "tf.einsum('ij->ji', {})", "tf.linalg.diag({})", "tf.pad({}, [[0, 1], [1, 0]])", "tf.argsort({})", "tf.sort({}, direction='DESCENDING')",
            "tf.math.cumulative_logsumexp(tf.cast({}, tf.float32))", "tf.roll({}, 1, 0)", "tf.repeat({}, [1, 2], axis=1)[:1]", "tf.repeat({}, 2)",
            "tf.unique(tf.reshape({}, [-1]))", "tf.math.top_k({}, 1)", "tf.where({} > 0)", "tf.where({0} > 0, {0}, 0)", "tf.boolean_mask({0}, {0} > 0)",
            "tf.meshgrid({0}[0], {0}[1])", "tf.tensor_scatter_nd_add({0}, [[0]], {0}[:1])", "tf.math.segment_max({}, [0, 1, 1])", "tf.clip_by_norm(tf.cast({}, tf.float32), 1.0)",
            "tf.image.resize(tf.cast({}, tf.float32)[tf.newaxis, :, :, tf.newaxis], [4, 4])", "tf.signal.fft(tf.cast({}, tf.complex64))", "tf.math.reduce_std(tf.cast({}, tf.float32))",
            "tf.math.divide_no_nan(tf.cast({0}, tf.float32), 0.0)", "tf.math.floormod({}, 2)", "{} // 2", "{} % 3", "-{} ** 2", "abs({})", "{0} @ tf.transpose({0})", "{} / 2",
            "tf.bitwise.bitwise_and(tf.cast({}, tf.int32), 3)", "tf.strings.as_string(tf.cast({}, tf.int32), width=4)", "tf.one_hot(tf.cast({}, tf.int32), 3, on_value=2.0)", "tf.math.confusion_matrix([0, 1], tf.cast(tf.abs({}[0, :2]), tf.int32), 9)",
            "tf.nn.embedding_lookup({}, [[0, 1], [1, 1]])", "tf.reduce_any({} > 0, axis=0, keepdims=True)", "tf.math.count_nonzero({}, axis=1)", "tf.reverse_sequence({}, [1, 2, 1][:len({0})], 1)", "tf.transpose({}, [1, 0])",
            "tf.math.lbeta(tf.abs(tf.cast({}, tf.float32)) + 1)", "tf.linalg.norm(tf.cast({}, tf.float32), ord=1)", "tf.sequence_mask(tf.cast(tf.abs({}), tf.int32))", "tf.shape_n([{0}, {0}])[1]", "tf.nn.log_softmax(tf.cast({}, tf.float64))",
            "tf.math.in_top_k([0, 1], tf.cast({}[:2], tf.float32), 1)", "tf.ensure_shape({}, [2, 3])", "tf.debugging.assert_shapes([({}, ('N', 3))])", "tf.slice({}, [0, 0], [1, -1])", "tf.split({}, [1, -1], axis=1)", "tf.unstack({}, axis=1)", "{}[tf.newaxis, ..., 0]", "{}[0, ::-1]", "{}[-1][-1]", "{}[5]",
            "tf.searchsorted(tf.sort({0}), {0})", "tf.math.polyval([1.0, 2.0], tf.cast({}, tf.float32))", "tf.math.igamma(1.0, tf.abs(tf.cast({}, tf.float32)))", "tf.quantization.fake_quant_with_min_max_args(tf.cast({}, tf.float32))", "tf.edit_distance(tf.sparse.from_dense({0}), tf.sparse.from_dense({0}))", "tf.sparse.to_dense(tf.sparse.from_dense({}))", "tf.sparse.reduce_sum(tf.sparse.from_dense({}), 1)", "str(tf.sparse.from_dense(tf.cast({}, tf.int32)))", "tf.histogram_fixed_width({}, [0, 2], 3)", "tf.math.bincount(tf.cast(tf.abs({}), tf.int32), axis=-1)",
        ]
    )  # fmt: skip
    form = form.replace("{}", "{0}").format(one)
    if g.chance(0.3):
        g.say(f"at.note(tf.function(lambda: {form}))")
    else:
        g.say(f"at.note(lambda: {form})")


@RULES.add(1)
def schedules(g: Builder) -> None:
    kind = g.choice(
        (
            "ExponentialDecay(0.1, 2, 0.5, staircase=True)", "PiecewiseConstantDecay([1, 2], [0.3, 0.2, 0.1])", "PolynomialDecay(0.1, 4, cycle=True)",
            "InverseTimeDecay(0.1, 2, 0.5)", "CosineDecay(0.1, 5)", "CosineDecayRestarts(0.1, 2)",
        )
    )  # fmt: skip
    name = g.name("opt")
    optimizer = g.choice(("SGD", "Adam", "Adagrad", "Nadam", "Adamax", "Adadelta", "Lion"))
    more = g.choice(
        (
            "",
            ", clipnorm=0.5",
            ", clipvalue=0.1",
            ", global_clipnorm=1.0",
            ", weight_decay=0.1",
            ", use_ema=True",
        )
    )
    v = g.name("v")
    g.say(f"{v} = tf.Variable({g.literal('float32', (2,))})")
    g.say(f"{name} = tf.optimizers.{optimizer}(tf.optimizers.schedules.{kind}{more})")
    with g.block("for _ in range(3):"):
        g.say(f"{name}.apply_gradients([({v} * 2.0 + 1.0, {v})])\nat.note({v}.numpy)")
    g.say(f"at.note(lambda: [float({name}.learning_rate), int({name}.iterations)])")
