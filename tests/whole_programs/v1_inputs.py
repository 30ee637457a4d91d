"""The grammar of graphs, part 4: other iterators, queues of several parts, what threads fill, tables,
sparse tensors."""

from __future__ import annotations

from whole_programs.builder import Builder, Rules, SkipError, Value
from whole_programs.effects import Effects
from whole_programs.syntax import Type
from whole_programs.v1_state import OP, change, move
from whole_programs.v1_values import tensor_type

RULES = Rules()

STRUCTURE = Type("structure")


def _element(g: Builder, iterator: Value, initializer: Value | None, type_: Type) -> None:
    made = change(g, [iterator.name], f"{iterator}.get_next()", type_)
    g.values[-1] = Value(made.name, made.type, made.effects | Effects(may_fail=True))
    g.facts.setdefault("elements", []).append((initializer, g.values[-1]))


@RULES.add(0.5)
def one_shot_iterator(g: Builder) -> None:
    dataset = g.of_kind("dataset")
    text = f"tf.data.make_one_shot_iterator({dataset})"
    iterator = g.make("it", text, Type("iterator", dataset.dtype, dataset.shape))
    _element(g, iterator, None, tensor_type(dataset.dtype, dataset.shape))


@RULES.add(0.5)
def iterator_of_a_structure(g: Builder) -> None:
    """An iterator that two datasets may be put into."""
    dataset = g.of_kind("dataset")
    other = g.make("ds", f"{dataset}.take(2)", dataset.type)
    kinds = f"tf.data.get_output_types({dataset}), tf.data.get_output_shapes({dataset})"
    iterator = g.make("it", f"tf.data.Iterator.from_structure({kinds})", Type("iterator"))
    for one in (dataset, other):
        initializer = change(g, [iterator.name], f"{iterator}.make_initializer({one})", OP)
    _element(g, iterator, initializer, tensor_type(dataset.dtype, dataset.shape))


@RULES.add(0.6)
def dataset_of_structures(g: Builder) -> None:
    text = g.choice(
        [
            "tf.data.Dataset.zip((tf.data.Dataset.range(3), tf.data.Dataset.range(5, 9)))",
            "tf.data.Dataset.from_tensor_slices({'a': [1, 2, 3], 'b': [[1.0], [2.0], [3.0]]})",
            "tf.data.Dataset.range(5).map(lambda e: (e, {'s': e * 2}))",
            "tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]]).padded_batch(2, [3])",
            "tf.data.Dataset.range(6).window(2).flat_map(lambda w: w.batch(2))",
            "tf.data.Dataset.range(3).interleave(lambda e: tf.data.Dataset.range(e), 2)",
        ]
    )
    text += g.choice(("", ".repeat(2)", ".prefetch(1)", ".enumerate()", ".take(2)"))
    made = g.make("ds", text, Type("datasets"))
    iterator = g.make("it", f"tf.data.make_initializable_iterator({made})", Type("iterator"))
    initializer = change(g, [iterator.name], f"{iterator}.initializer", OP)
    _element(g, iterator, initializer, STRUCTURE)


@RULES.add(0.5)
def queue_of_pairs(g: Builder) -> None:
    numbers, words = g.literal("float32", (3,)), g.literal("string", (3,))
    text, given = g.choice(
        [
            ("tf.FIFOQueue(20, [tf.float32, tf.string], shapes=[[], []])", numbers),
            ("tf.PriorityQueue(20, [tf.string], shapes=[[]])", g.literal("int64", (3,))),
            ("tf.FIFOQueue(20, [tf.float32, tf.string], [[], []], names=['n', 'w'])", numbers),
        ]
    )
    made = g.make("q", text, Type("pairs"))
    g.facts.setdefault("queues", {})[made.name] = 0
    parts = f"{{'n': {given}, 'w': {words}}}" if "names" in text else f"[{given}, {words}]"
    move(g, made, f"{made}.enqueue_many({parts})", OP, 3)
    move(g, made, f"{made}.dequeue()", STRUCTURE, -1)
    move(g, made, f"{made}.dequeue_{g.choice(('many', 'up_to'))}(2)", STRUCTURE, -2)


@RULES.add(0.5)
def input_producer(g: Builder) -> None:
    """What threads of the program fill (see v1_sessions)."""
    made = g.literal("float32", (5,))
    epochs = g.choice((1, 2))
    name = g.name("q")
    g.say(
        f"{name} = tf.train.input_producer(tf.constant({made}), num_epochs={epochs}, shuffle=False)"
    )
    text = f"{name}.dequeue()"
    if g.chance(0.6):
        text = f"tf.train.batch([{text}], 2, allow_smaller_final_batch={g.chance(0.5)})"
    element = g.make("e", text, Type("element"))
    g.facts.setdefault("produced", []).append(element)


@RULES.add(0.7)
def table(g: Builder) -> None:
    keys, values = "['a', 'bc', 'x y']", "tf.constant([1, 2, 3], tf.int64)"
    made = g.make(
        "table",
        f"tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer({keys}, {values}), -1)",
        Type("table"),
    )
    effects = Effects(reads=frozenset([made.name]))
    words = g.all(lambda one: one.type.kind in ("tensor", "placeholder") and one.dtype == "string")
    if words and g.chance(0.6):
        word = g.choice(words)
        text, shape, effects = str(word), word.shape, word.effects | effects
    else:
        text, shape = "tf.constant(['a', '', 'bc'])", (3,)
    g.make("t", f"{made}.lookup({text})", tensor_type("int64", shape), effects)
    if g.chance(0.3):
        size = Effects(reads=frozenset([made.name]))
        g.make("t", f"{made}.size()", tensor_type("int64", ()), size)


@RULES.add(0.7)
def sparse_tensor(g: Builder) -> None:
    values = g.literal("float32", (2,))
    effects = Effects()
    given = f"tf.constant({values})"
    found = g.all(
        lambda one: one.type.kind == "tensor" and one.type == tensor_type("float32", (2,))
    )
    if found and g.chance(0.5):
        given, effects = str(found[-1]), found[-1].effects
    made = g.make("sp", f"tf.SparseTensor([[0, 0], [1, 2]], {given}, [2, 3])", STRUCTURE, effects)
    forms: list[tuple[str, Type]] = [
        ("tf.sparse_tensor_to_dense({})", tensor_type("float32", (2, 3))),
        ("tf.sparse_reduce_sum({}, 1)", tensor_type("float32", (2,))),
        ("tf.sparse_tensor_dense_matmul({}, tf.ones([3, 2]))", tensor_type("float32", (2, 2))),
        ("tf.sparse_reorder(tf.sparse_transpose({}))", STRUCTURE),
        ("{} * 2.0", STRUCTURE),
        ("tf.sparse_add({0}, {0})", STRUCTURE),
        ("tf.sparse_concat(0, [{0}, {0}])", STRUCTURE),
    ]
    text, type_ = g.choice(forms)
    g.make("t", text.format(made), type_, effects)


@RULES.add(0.5)
def words_of_texts(g: Builder) -> None:
    word = g.tensor(["string"])
    if len(word.shape) != 1:
        raise SkipError
    text, type_ = g.choice(
        [
            (f"tf.string_split({word})", STRUCTURE),
            (f"tf.strings.split({word}).to_sparse()", STRUCTURE),
            (f"tf.string_to_hash_bucket_fast({word}, 9)", tensor_type("int64", word.shape)),
            (f"tf.strings.substr({word}, 0, 1)", tensor_type("string", word.shape)),
            (f"tf.reduce_join({word}, 0)", tensor_type("string", ())),
            (f"tf.strings.regex_replace({word}, 'a', 'b')", tensor_type("string", word.shape)),
        ]
    )
    effects = word.effects | Effects(may_fail="substr" in text)
    g.make("t", text, type_, effects)
