"""The grammar of graphs, part 5: more of what is computed, and of states."""

from __future__ import annotations

from whole_programs.builder import FLOATS, Builder, Rules, SkipError, Value
from whole_programs.effects import Effects
from whole_programs.syntax import Type
from whole_programs.v1_inputs import STRUCTURE
from whole_programs.v1_state import OP, change, draw_kind, reading
from whole_programs.v1_values import compute, tensor_type

RULES = Rules()


def _of_shape(g: Builder, dtypes: tuple[str, ...], *shapes: tuple[int, ...]) -> Value:
    return g.pick(
        lambda one: (
            one.type.kind in ("tensor", "placeholder", "variable")
            and one.dtype in dtypes
            and one.shape in shapes
        )
    )


@RULES.add(2)
def arrays(g: Builder) -> None:
    """Functions that arrange, choose and combine elements of a matrix."""
    one = _of_shape(g, (*FLOATS, "int32"), (2, 3), (3, 2))
    d, (rows, columns) = one.dtype, one.shape
    assert rows is not None
    assert columns is not None
    text, type_ = g.choice(
        [
            (f"tf.pad({one}, [[1, 0], [0, 2]])", tensor_type(d, (rows + 1, columns + 2))),
            (f"tf.pad({one}, [[1, 1], [0, 0]], 'REFLECT')", tensor_type(d, (rows + 2, columns))),
            (f"tf.tile({one}, [2, 1])", tensor_type(d, (2 * rows, columns))),
            (f"tf.slice({one}, [0, 1], [-1, 1])", tensor_type(d, (rows, 1))),
            (f"{one}[:, 1:, tf.newaxis]", tensor_type(d, (rows, columns - 1, 1))),
            (f"{one}[..., ::-1]", tensor_type(d, (rows, columns))),
            (f"{one}[1, -1]", tensor_type(d, ())),
            (f"tf.gather_nd({one}, [[0, 1], [1, 0]])", tensor_type(d, (2,))),
            (f"tf.gather({one}, [1, 0], axis=1)", tensor_type(d, (rows, 2))),
            (f"tf.boolean_mask({one}, {one} > 0)", tensor_type(d, (None,))),
            (
                f"tf.boolean_mask({one}, tf.reduce_any({one} > 0, 1))",
                tensor_type(d, (None, columns)),
            ),
            (f"tf.where({one} > 0)", tensor_type("int64", (None, 2))),
            (f"tf.reverse({one}, [1])", tensor_type(d, (rows, columns))),
            (f"tf.roll({one}, [1], [1])", tensor_type(d, (rows, columns))),
            (f"tf.tensordot({one}, {one}, [[1], [1]])", tensor_type(d, (rows, rows))),
            (f"tf.einsum('ij,kj->ik', {one}, {one})", tensor_type(d, (rows, rows))),
            (f"tf.broadcast_to({one}, [2, {rows}, {columns}])", tensor_type(d, (2, rows, columns))),
            (
                f"tf.reduce_logsumexp(tf.cast({one}, tf.float32), 1)",
                tensor_type("float32", (rows,)),
            ),
            (f"tf.cumsum({one}, 1, exclusive=True, reverse=True)", tensor_type(d, (rows, columns))),
            (f"tf.cumprod({one}, 0)", tensor_type(d, (rows, columns))),
            (f"tf.unique(tf.reshape({one}, [-1]))[0]", tensor_type(d, (None,))),
            (f"tf.unique_with_counts(tf.reshape({one}, [-1]))[2]", tensor_type("int32", (None,))),
            (f"tf.sort({one})", tensor_type(d, (rows, columns))),
            (
                f"tf.argsort({one}, 0, direction='DESCENDING')",
                tensor_type("int32", (rows, columns)),
            ),
            (
                f"tf.searchsorted([0, 1, 2], tf.cast({one}[0], tf.int32))",
                tensor_type("int32", (columns,)),
            ),
            (
                f"tf.dynamic_partition({one}, [0, 1, 0][:{rows}], 2)[0]",
                tensor_type(d, (None, columns)),
            ),
            (
                f"tf.dynamic_stitch([[1], [0]], [{one}[:1], {one}[1:2]])",
                tensor_type(d, (2, columns)),
            ),
            (f"tf.scatter_nd([[1], [1]], {one}[:2], [3, {columns}])", tensor_type(d, (3, columns))),
            (
                f"tf.tensor_scatter_nd_update({one}, [[0]], {one}[1:2])",
                tensor_type(d, (rows, columns)),
            ),
            (f"tf.meshgrid({one}[0], {one}[1])[1]", tensor_type(d, (columns, columns))),
            (f"tf.matrix_band_part({one}, 0, -1)", tensor_type(d, (rows, columns))),
            (f"tf.diag({one}[0])", tensor_type(d, (columns, columns))),
            (f"tf.matrix_diag({one})", tensor_type(d, (rows, columns, columns))),
            (f"tf.reduce_any({one} > 0, axis=[0, 1])", tensor_type("bool", ())),
            (f"tf.count_nonzero({one})", tensor_type("int64", ())),
            (
                f"tf.invert_permutation(tf.argsort(tf.cast({one}[0], tf.float32)))",
                tensor_type("int32", (columns,)),
            ),
            (
                f"tf.confusion_matrix([0, 1], [1, 1], 3) + tf.cast({one}[0, 0], tf.int32)",
                tensor_type("int32", (3, 3)),
            ),
            (
                f"tf.sequence_mask(tf.cast(tf.abs({one}[0]), tf.int32), 4)",
                tensor_type("bool", (columns, 4)),
            ),
            (
                f"tf.bitcast(tf.cast({one}, tf.float32), tf.int32)",
                tensor_type("int32", (rows, columns)),
            ),
            (f"tf.unravel_index([1, 2], tf.shape({one}))", tensor_type("int32", (2, 2))),
            (f"tf.accumulate_n([{one}, {one}])", tensor_type(d, (rows, columns))),
            (
                f"tf.nn.in_top_k(tf.cast({one}, tf.float32), [0, 1, 0][:{rows}], 1)",
                tensor_type("bool", (rows,)),
            ),
            (
                f"tf.clip_by_global_norm([tf.cast({one}, tf.float32)], 1.0)[1]",
                tensor_type("float32", ()),
            ),
            (f"tf.histogram_fixed_width({one}, [-1, 3], 4)", tensor_type("int32", (4,))),
            # Of what an assignment to a reference gives TensorFlow makes no other type so.
            (f"tf.saturate_cast(tf.identity({one}), tf.uint8)[0, 0] > 1", tensor_type("bool", ())),
            (
                f"tf.math.bincount(tf.cast(tf.abs({one}), tf.int32), minlength=3, maxlength=3)",
                tensor_type("int32", (3,)),
            ),
            (
                f"tf.linalg.norm(tf.cast({one}, tf.float64), axis=1)",
                tensor_type("float64", (rows,)),
            ),
            (f"tf.squeeze(tf.expand_dims({one}, -1), [2])", tensor_type(d, (rows, columns))),
            (f"tf.zeros_like({one}, dtype=tf.int64)", tensor_type("int64", (rows, columns))),
            (f"tf.fill(tf.shape({one}), 2.5)", tensor_type("float32", (rows, columns))),
            (f"tf.range(tf.shape({one})[0])", tensor_type("int32", (rows,))),
            (f"tf.linspace(0.0, 1.0, tf.shape({one})[1])", tensor_type("float32", (columns,))),
            (
                f"tf.eye({rows}, {columns}) * tf.cast({one}, tf.float32)",
                tensor_type("float32", (rows, columns)),
            ),
        ]
    )
    compute(g, text, type_, one)


@RULES.add(1)
def segments(g: Builder) -> None:
    one = _of_shape(g, (*FLOATS, "int32"), (3,), (3, 2))
    left = one.shape[1:]
    name = g.choice(("sum", "mean", "max", "min", "prod"))
    text, rows = g.choice(
        [
            (f"tf.segment_{name}({one}, [0, 0, 1])", None),
            (f"tf.unsorted_segment_{name}({one}, [1, 0, 1], 3)", 3),
            (f"tf.sparse_segment_sum({one}, [0, 2], [0, 1])", None),
        ]
    )
    if "mean" in text and one.dtype == "int32":
        raise SkipError
    compute(g, text, tensor_type(one.dtype, (rows, *left)), one)


@RULES.add(1)
def convolutions(g: Builder) -> None:
    one = _of_shape(g, ("float32",), (2, 3), (3, 2))
    image = f"tf.reshape({one}, [1, {one.shape[0]}, {one.shape[1]}, 1])"
    text, shape = g.choice(
        [
            (f"tf.nn.conv2d({image}, tf.ones([2, 2, 1, 3]), [1, 1, 1, 1], 'SAME')", (1, *one.shape, 3)),
            (f"tf.nn.max_pool({image}, [1, 2, 2, 1], [1, 1, 1, 1], 'SAME')", (1, *one.shape, 1)),
            (f"tf.nn.avg_pool({image}, [1, 2, 2, 1], [1, 1, 1, 1], 'VALID')", (1, one.shape[0] - 1, one.shape[1] - 1, 1)),
            (f"tf.nn.bias_add({one}, tf.ones([{one.shape[1]}]))", one.shape),
            (f"tf.nn.batch_normalization({one}, 0.5, 2.0, None, 1.5, 0.001)", one.shape),
            (f"tf.nn.fused_batch_norm({image}, [1.0], [0.5])[0]", (1, *one.shape, 1)),
            (f"tf.nn.local_response_normalization({image})", (1, *one.shape, 1)),
            (f"tf.nn.depthwise_conv2d({image}, tf.ones([1, 2, 1, 2]), [1, 1, 1, 1], 'SAME')", (1, *one.shape, 2)),
            (f"tf.space_to_batch_nd({image}, [1, 1], [[0, 0], [0, 0]])", (1, *one.shape, 1)),
            (f"tf.image.resize_bilinear({image}, [4, 4])", (1, 4, 4, 1)),
            (f"tf.image.flip_left_right({image}[0])", (*one.shape, 1)),
            (f"tf.nn.crelu({one})", (one.shape[0], 2 * one.shape[1])),
            (f"tf.nn.elu({one}) + tf.nn.selu({one}) + tf.nn.leaky_relu({one}) + tf.nn.relu6({one})", one.shape),
            (f"tf.nn.weighted_cross_entropy_with_logits(tf.ones_like({one}), {one}, 2.0)", one.shape),
            (f"tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 1, 0][:{one.shape[0]}], logits={one})", one.shape[:1]),
            (f"tf.losses.mean_squared_error(tf.zeros_like({one}), {one})", ()),
            (f"tf.losses.huber_loss(tf.zeros_like({one}), {one}, weights=2.0)", ()),
            (f"tf.losses.softmax_cross_entropy(tf.nn.softmax({one}), {one}, reduction=tf.losses.Reduction.NONE)", one.shape[:1]),
            (f"tf.losses.sigmoid_cross_entropy(tf.ones_like({one}), {one}, label_smoothing=0.1)", ()),
            (f"tf.losses.absolute_difference(tf.ones_like({one}), {one}) + tf.losses.get_total_loss()", ()),
        ]
    )  # fmt: skip
    compute(g, text, tensor_type("float32", shape), one)


@RULES.add(1)
def gradients_of_more(g: Builder) -> None:
    source = g.pick(
        lambda one: one.dtype in FLOATS and one.type.kind in ("tensor", "variable", "placeholder")
    )
    target = g.pick(
        lambda one: (
            one.dtype == source.dtype and one.type.kind == "tensor" and None not in one.shape
        )
    )
    text = g.choice(
        [
            f"tf.gradients({target}, [{source}], grad_ys=[tf.fill({list(target.shape)}, tf.constant(2.0, tf.{source.dtype}))])[0]",
            f"tf.gradients({target} * {target}, [{source}], stop_gradients=[{target}])[0]",
            f"tf.gradients([{target}, {target}], [{source}, {source}])[1]",
            f"tf.gradients({target}, [{source}], unconnected_gradients='zero')[0]",
            f"tf.gradients(tf.gradients(tf.reduce_sum(tf.square({source})), [{source}])[0], [{source}])[0]",
            f"tf.hessians(tf.reduce_sum({source} ** 3), [{source}])[0]",
        ]
    )
    effects = source.effects | target.effects
    if source.effects.writes | target.effects.writes:
        raise SkipError
    g.make("d", text, Type("gradient", source.dtype, source.shape), effects)


@RULES.add(1)
def state_of_a_variable(g: Builder) -> None:
    target = g.of_kind("variable")
    states = list(target.effects.reads)
    form = tensor_type(target.dtype, target.shape)
    number = g.literal(target.dtype, target.shape)
    kind = g.random.randrange(6)
    if kind == 0:
        effects = target.effects
        g.make("t", f"tf.is_variable_initialized({target})", tensor_type("bool", ()), effects)
    elif kind == 1:
        change(g, states, f"{target}.initializer", OP)
    elif kind == 2 and target.shape:
        rows = g.literal(target.dtype, (1, *target.shape[1:]))
        name = g.choice(("update", "add", "sub"))
        change(g, states, f"tf.scatter_nd_{name}({target}, [[0]], {rows})", form)
    elif kind == 3:
        change(g, states, f"tf.assign({target}, {number}, use_locking=True)", form)
    elif kind == 4:
        change(g, states, f"tf.assign_add({target}, {number}, read_value=False)", OP)
    else:
        change(g, states, f"tf.variables_initializer([{target}])", OP)


@RULES.add(1)
def another_variable(g: Builder) -> None:
    kind, number = draw_kind(g), g.random.randrange(10000)
    text, shape = g.choice(
        [
            (f"tf.Variable(tf.zeros([2]), validate_shape=False, name='f{number}'{kind})", (2,)),
            (f"tf.Variable(lambda: tf.ones([3]), name='f{number}'{kind})", (3,)),
            (f"tf.get_variable('f{number}', [2, 3], initializer=tf.glorot_uniform_initializer(seed=1){kind})", (2, 3)),
            (f"tf.get_variable('f{number}', [2], initializer=tf.ones_initializer(), regularizer=lambda v: tf.reduce_sum(v){kind})", (2,)),
            (f"tf.get_local_variable('f{number}', [3], initializer=tf.zeros_initializer(){kind})", (3,)),
            (f"tf.get_variable('f{number}', [3, 2], initializer=tf.orthogonal_initializer(seed=1){kind})", (3, 2)),
            (f"tf.get_variable('f{number}', [2, 3], initializer=tf.variance_scaling_initializer(seed=2), constraint=tf.abs{kind})", (2, 3)),
        ]
    )  # fmt: skip
    reading(g, "v", text, Type("variable", "float32", shape))


@RULES.add(0.7)
def values_of_python(g: Builder) -> None:
    one = g.tensor((*FLOATS, "int32"))
    text = g.choice(
        [
            f"tf.py_func(lambda a: a * 2, [{one}], tf.{one.dtype})",
            f"tf.numpy_function(lambda a: a + 1, [{one}], tf.{one.dtype})",
            f"tf.py_function(lambda a: a - 1, [{one}], tf.{one.dtype})",
            f"tf.identity_n([{one}, {one}])[1]",
            f"tf.tuple([{one}, {one}])[0]",
            f"tf.Print({one}, [{one}])",
            f"tf.guarantee_const({one})",
            f"tf.parse_tensor(tf.serialize_tensor({one}), tf.{one.dtype})",
            f"tf.ensure_shape({one}, {one}.shape)",
        ]
    )
    if one.effects.writes:
        raise SkipError
    g.make("t", text, tensor_type(one.dtype, one.shape), one.effects)


@RULES.add(0.7)
def texts(g: Builder) -> None:
    one = g.tensor(["string"])
    text, dtype = g.choice(
        [
            (f"tf.strings.lower({one})", "string"),
            (f"tf.string_to_hash_bucket({one}, 7)", "int64"),
            (f"tf.string_to_hash_bucket_strong({one}, 7, [1, 2])", "int64"),
            (f"tf.strings.regex_full_match({one}, '.*a.*')", "bool"),
            (f"tf.encode_base64({one})", "string"),
            (f"tf.decode_base64(tf.encode_base64({one}))", "string"),
            (f"tf.strings.unicode_script(tf.strings.length({one}))", "int32"),
            (f"tf.strings.length({one}, unit='UTF8_CHAR')", "int32"),
            (f"tf.strings.format('{{}}!', {one})", "format"),
        ]
    )
    if dtype == "format":
        g.make("t", text, tensor_type("string", ()), one.effects)
    else:
        g.make("t", text, tensor_type(dtype, one.shape), one.effects)


@RULES.add(0.7)
def other_tables(g: Builder) -> None:
    text, lookup = g.choice(
        [
            ("tf.lookup.index_table_from_tensor(['a', 'bc'], num_oov_buckets=2)", "tf.constant(['a', 'z'])"),
            ("tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(['a'], tf.constant([0], tf.int64)), 3)", "tf.constant(['a', 'q'])"),
        ]
    )  # fmt: skip
    made = g.make("table", text, Type("table"))
    effects = Effects(reads=frozenset([made.name]))
    g.make("t", f"{made}.lookup({lookup})", tensor_type("int64", (2,)), effects)


@RULES.add(0.7)
def parsed(g: Builder) -> None:
    text = g.choice(
        [
            "tf.parse_example([tf.train.Example(features=tf.train.Features(feature={'a': tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))})).SerializeToString()], {'a': tf.VarLenFeature(tf.int64)})",
            "tf.parse_single_example(tf.constant(b''), {'a': tf.FixedLenFeature([1], tf.float32, default_value=[2.0])})",
            "tf.decode_csv(['1,2.5', '3,'], [[0], [1.5]])",
            "tf.string_to_number(['1.5', '-2'], tf.float64)",
            "tf.io.decode_json_example('{}')",
            "tf.io.decode_raw([b'abcd', b'efgh'], tf.int16)",
        ]
    )
    g.make("t", text, STRUCTURE, Effects())


@RULES.add(0.6)
def accumulator(g: Builder) -> None:
    made = g.make("acc", "tf.ConditionalAccumulator(tf.float32, shape=[2])", Type("accumulator"))
    number = g.literal("float32", (2,))
    change(g, [made.name], f"{made}.apply_grad(tf.constant({number}), local_step=0)", OP)
    g.make("t", f"{made}.num_accumulated()", tensor_type("int32", ()), Effects(reads=frozenset([made.name])))  # fmt: skip


@RULES.add(0.7)
def linear_algebra(g: Builder) -> None:
    one = _of_shape(g, FLOATS, (2, 3), (3, 2))
    n = one.shape[0]
    square = (
        f"(tf.matmul({one}, {one}, transpose_b=True) + 3.0 * tf.eye({n}, dtype=tf.{one.dtype}))"
    )
    text, shape = g.choice(
        [
            (f"tf.matrix_inverse({square})", (n, n)),
            (f"tf.matrix_determinant({square})", ()),
            (f"tf.cholesky({square})", (n, n)),
            (f"tf.matrix_solve({square}, {one})", one.shape),
            (f"tf.trace({square})", ()),
            (f"tf.diag_part({square})", (n,)),
            (f"tf.linalg.logdet({square})", ()),
            (f"tf.matrix_triangular_solve({square}, {one})", one.shape),
            (f"tf.self_adjoint_eig({square})[0]", (n,)),
            (f"tf.svd({one}, compute_uv=False)", (2,)),
            (f"tf.linalg.matvec({one}, {one}[0])", (n,)),
        ]
    )
    g.make("t", text, tensor_type(one.dtype, shape), one.effects)
