"""Models that either library makes, saves, loads, uses and trains further.

A program is a function of the library's API and a folder for files; it returns the model, what is
saved as its signatures, and a function that uses a model: the original, or a loaded one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Use = Callable[[Any], Any]


class Saved(NamedTuple):
    """What a program gives.

    Attributes: signatures, None for the model's own; use; train, what a model's loss is, None for
    one without anything to train.
    """

    model: Any
    use: Use
    signatures: Any = None
    loss: Use | None = None


Program = Callable[[Any, str], Saved]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def floats(*shape: int) -> Any:
    return np.linspace(-1.0, 1.0, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def results(value: Any) -> Any:
    """Return a structure of results as arrays."""
    if isinstance(value, dict):
        return {name: results(value[name]) for name in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [results(item) for item in value]
    if hasattr(value, "to_list"):
        return value.to_list()
    if hasattr(value, "dense_shape"):
        return [results(part) for part in (value.indices, value.values, value.dense_shape)]
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def train_step(tf: Any, loaded: Any, loss: Use) -> list[Any]:
    """Make a step down the gradient and return the variables."""
    with tf.GradientTape() as tape:
        value = loss(loaded)
    watched = sorted(tape.watched_variables(), key=lambda v: (v.name, v.shape.as_list()))
    for variable, grad in zip(watched, tape.gradient(value, watched)):
        variable.assign_sub(0.1 * tf.convert_to_tensor(grad))
    return [results(value), *map(results, watched)]


@program
def dense_layers(tf: Any, folder: str) -> Saved:
    class Dense(tf.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.w = tf.Variable(floats(inputs, outputs), name="w")
            self.b = tf.Variable(tf.zeros([outputs]), name="b")

        def __call__(self, x: Any) -> Any:
            return tf.nn.relu(x @ self.w + self.b)

    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [Dense(3, 4), Dense(4, 2)]
            self.steps = tf.Variable(7, trainable=False, dtype=tf.int64)

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
        def __call__(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return x

    def use(model: Any) -> Any:
        served = getattr(model, "signatures", None)
        x = tf.constant(floats(2, 3))
        found = [model(x), model.layers[0].w, model.steps]
        return found if served is None else [served["serving_default"](x)["output_0"], *found[1:]]

    x = tf.constant(floats(5, 3))
    return Saved(Model(), use, loss=lambda model: tf.reduce_sum(model(x) ** 2))


@program
def polymorphic_function(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.v = tf.Variable(2.0)

    @tf.function
    def scaled(x: Any, twice: bool = False, *, shift: float = 1.0) -> Any:
        return x * model.v * (2.0 if twice else 1.0) + shift

    model.scaled = scaled
    scaled(tf.constant(1.0))
    scaled(tf.constant([1.0, 2.0]), twice=True)
    scaled(tf.constant(3.0), shift=4.0)

    def use(loaded: Any) -> Any:
        f = loaded.scaled
        return [
            f(tf.constant(5.0)),
            f(tf.constant([1.0, 3.0]), True),
            f(x=tf.constant(1.0), shift=4.0),
            f(tf.constant(1.0), twice=False, shift=1.0),
        ]

    return Saved(model, use, loss=lambda loaded: loaded.scaled(tf.constant(3.0)))


@program
def named_signatures(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.table = tf.Variable(floats(4, 3))

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.int32, "ids"), tf.TensorSpec([], tf.float32)]
    )
    def rows(ids: Any, scale: Any) -> Any:
        found = tf.gather(model.table, ids) * scale
        return {"rows": found, "sum": tf.reduce_sum(found)}

    @tf.function(input_signature=[])
    def everything() -> Any:
        return model.table.read_value(), tf.shape(model.table)

    model.rows = rows

    def use(loaded: Any) -> Any:
        ids, scale = tf.constant([2, 0]), tf.constant(2.0)
        if not hasattr(loaded, "signatures"):
            first, second = everything()
            return [rows(ids, scale), {"output_0": first, "output_1": second}]
        signatures = loaded.signatures
        return [signatures["rows"](ids=ids, scale=scale), signatures["everything"]()]

    return Saved(model, use, {"rows": rows, "everything": everything})


@program
def tables_from_files(tf: Any, folder: str) -> Saved:
    path = os.path.join(folder, "words.txt")
    with open(path, "w") as file:
        file.write("cat\ndog\nbird\n")
    initializer = tf.lookup.TextFileInitializer(
        path,
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    model = tf.Module()
    model.table = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets=2)
    model.back = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            tf.constant([0, 1, 2], tf.int64), tf.constant(["cat", "dog", "bird"])
        ),
        default_value="?",
    )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def look_up(words: Any) -> Any:
        ids = model.table.lookup(words)
        return {"ids": ids, "words": model.back.lookup(ids)}

    model.look_up = look_up
    words = ["dog", "fish", "bird", "cow"]
    return Saved(model, lambda loaded: loaded.look_up(tf.constant(words)))


@program
def tables_that_change(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, -1.0)
    model.dense = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.int64, default_value=-1, empty_key=-1, deleted_key=-2
    )
    model.table.insert(tf.constant(["a", "b"]), tf.constant([1.0, 2.0]))
    model.dense.insert(tf.constant([1, 2], tf.int64), tf.constant([10, 20], tf.int64))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def find(keys: Any) -> Any:
        return model.table.lookup(keys), model.dense.lookup(tf.constant([2, 3], tf.int64))

    @tf.function(input_signature=[tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.float32)])
    def put(key: Any, value: Any) -> Any:
        model.table.insert(key[None], value[None])
        return model.table.size()

    model.find, model.put = find, put

    def use(loaded: Any) -> Any:
        keys = tf.constant(["b", "c", "a"])
        before = loaded.find(keys)
        return [before, loaded.put(tf.constant("c"), tf.constant(3.0)), loaded.find(keys)]

    return Saved(model, use)


@program
def recurrent_loop(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.kernel = tf.Variable(floats(3, 3) * 0.5, name="kernel")

    @tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.float32)])
    def states(x: Any) -> Any:
        def body(time: Any, state: Any) -> Any:
            return time + 1, tf.tanh(state @ model.kernel + x[:, time])

        steps = tf.shape(x)[1]
        _, state = tf.while_loop(
            lambda time, state: time < steps,
            body,
            [tf.constant(0), tf.zeros_like(x[:, 0])],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])],
        )
        return state

    model.states = states
    x = floats(2, 4, 3)
    return Saved(
        model,
        lambda loaded: loaded.states(tf.constant(x)),
        loss=lambda loaded: tf.reduce_sum(loaded.states(tf.constant(x)) ** 2),
    )


@program
def branches_on_values(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.calls = tf.Variable(0, trainable=False, name="calls")
    model.w = tf.Variable(3.0, name="w")

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def branch(x: Any) -> Any:
        model.calls.assign_add(1)
        y = x * model.w
        if x < 0:
            y = y * model.w
        for i in tf.range(3):
            if i == 1:
                continue
            y += tf.cast(i, tf.float32)
        return y

    model.branch = branch

    def use(loaded: Any) -> Any:
        first = int(loaded.calls)
        found = [loaded.branch(tf.constant(2.0)), loaded.branch(tf.constant(-2.0))]
        return [*found, int(loaded.calls) - first]

    return Saved(model, use, loss=lambda loaded: loaded.branch(tf.constant(-2.0)))


@program
def ragged_rows(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.scale = tf.Variable(2.0)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.float32)])
    def scaled(rows: Any) -> Any:
        return rows * model.scale, tf.reduce_sum(rows, axis=1)

    model.scaled = scaled
    rows = [[1.0], [], [2.0, 3.0]]
    return Saved(model, lambda loaded: loaded.scaled(tf.ragged.constant(rows)))


@program
def sparse_matrix(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.w = tf.Variable(floats(3, 2))

    @tf.function(input_signature=[tf.SparseTensorSpec([None, 3], tf.float32)])
    def product(x: Any) -> Any:
        return tf.sparse.sparse_dense_matmul(x, model.w), tf.sparse.map_values(tf.negative, x)

    model.product = product

    def use(loaded: Any) -> Any:
        x = tf.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])
        return list(loaded.product(x))

    return Saved(model, use)


@program
def text_in_and_out(tf: Any, folder: str) -> Saved:
    model = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def words(text: Any) -> Any:
        split = tf.strings.split(tf.strings.lower(text))
        return {"count": split.row_lengths(), "joined": tf.strings.reduce_join(split, axis=-1)}

    model.words = words
    return Saved(model, lambda loaded: loaded.words(tf.constant(["The cat", "A b  C"])))


@program
def pictures(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.filters = tf.Variable(floats(3, 3, 3, 2) * 0.1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def features(encoded: Any) -> Any:
        def decode(one: Any) -> Any:
            picture = tf.io.decode_png(one, channels=3)
            return tf.image.resize(tf.cast(picture, tf.float32) / 255.0, [6, 6])

        batch = tf.map_fn(decode, encoded, fn_output_signature=tf.float32)
        found = tf.nn.conv2d(batch, model.filters, strides=1, padding="SAME")
        return tf.nn.max_pool2d(found, 2, 2, "VALID")

    model.features = features
    plain = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)

    def use(loaded: Any) -> Any:
        return loaded.features(tf.io.encode_png(plain)[None])

    return Saved(model, use, loss=lambda loaded: tf.reduce_sum(use(loaded)))


@program
def own_gradients(tf: Any, folder: str) -> Saved:
    @tf.custom_gradient
    def doubled_backwards(x: Any) -> Any:
        y = tf.exp(x)
        return y, lambda dy: dy * y * 2.0

    model = tf.Module()
    model.v = tf.Variable([0.5, -0.5])

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32)])
    def call(x: Any) -> Any:
        return tf.reduce_sum(doubled_backwards(x * model.v))

    model.call = call
    x = [1.0, 2.0]
    return Saved(
        model,
        lambda loaded: loaded.call(tf.constant(x)),
        loss=lambda loaded: loaded.call(tf.constant(x)),
    )


@program
def functions_in_functions(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.a = tf.Variable(2.0, name="a")
    model.b = tf.Variable(5.0, name="b")

    @tf.function
    def inner(x: Any) -> Any:
        return x * model.a

    @tf.function
    def middle(x: Any) -> Any:
        return inner(x) + inner(x * 2.0) * model.b

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def outer(x: Any) -> Any:
        return middle(x) - 1.0

    model.outer, model.inner = outer, inner

    def use(loaded: Any) -> Any:
        return loaded.outer(tf.constant([1.0, 2.0]))

    return Saved(model, use, loss=lambda loaded: tf.reduce_sum(use(loaded)))


@program
def structured_arguments(tf: Any, folder: str) -> Saved:
    model = tf.Module()

    @tf.function
    def mixed(inputs: Any, options: Any) -> Any:
        first, rest = inputs
        return {"out": [first * options["scale"], rest["x"] + 1], "kept": (rest["y"],)}

    model.mixed = mixed

    def use(loaded: Any) -> Any:
        given = [tf.constant(2.0), {"x": tf.constant([1, 2]), "y": tf.constant("t")}]
        return loaded.mixed(given, {"scale": tf.constant(3.0)})

    use(model)
    return Saved(model, use)


@program
def lists_dicts_and_shared(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    shared = tf.Variable(1.5, name="shared")
    model.layers = [shared, {"inner": [tf.Variable([1, 2]), shared]}]
    model.named = {"one": tf.Variable(True), "again": shared}
    model.pair = (tf.Variable("text"), shared)

    def use(loaded: Any) -> Any:
        return [
            loaded.layers[0],
            loaded.layers[1]["inner"][0],
            loaded.named["one"],
            loaded.named["again"],
            loaded.pair[0],
            loaded.layers[1]["inner"][1] is loaded.layers[0],
        ]

    return Saved(model, use)


@program
def large_constants(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    table = tf.constant(floats(40, 30))
    names = tf.constant([f"name {i}" for i in range(200)])

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def pick(i: Any) -> Any:
        return table[i], names[i]

    model.pick = pick
    return Saved(model, lambda loaded: list(loaded.pick(tf.constant(17))))


@program
def kinds_of_numbers(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    kinds = ["float16", "bfloat16", "float64", "complex64", "int8", "uint16", "bool", "int64"]
    model.values = {kind: tf.Variable(tf.cast([1, 0, 3], kind)) for kind in kinds}

    @tf.function(input_signature=[])
    def read() -> Any:
        return {kind: tf.cast(value, tf.complex128) for kind, value in model.values.items()}

    model.read = read
    return Saved(model, lambda loaded: loaded.read())


@program
def random_numbers(tf: Any, folder: str) -> Saved:
    model = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([2], tf.int32)])
    def draw(seed: Any) -> Any:
        return tf.random.stateless_normal([3], seed), tf.random.stateless_uniform([2], seed)

    model.draw = draw
    return Saved(model, lambda loaded: list(loaded.draw(tf.constant([3, 4]))))


@program
def training_function(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.w = tf.Variable([1.0, 1.0], name="w")
    model.momentum = tf.Variable([0.0, 0.0], trainable=False, name="momentum")

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(x, model.w) - 3.0) ** 2)
        model.momentum.assign(0.9 * model.momentum + tape.gradient(loss, model.w))
        model.w.assign_sub(0.1 * model.momentum)
        return loss

    model.train = train

    def use(loaded: Any) -> Any:
        start = [tf.identity(loaded.w), tf.identity(loaded.momentum)]
        losses = [loaded.train(tf.constant(floats(4, 2))) for _ in range(3)]
        found = [*losses, tf.identity(loaded.w)]
        loaded.w.assign(start[0])
        loaded.momentum.assign(start[1])
        return found

    return Saved(model, use)


@program
def open_shapes(tf: Any, folder: str) -> Saved:
    model = tf.Module()
    model.v = tf.Variable(tf.ones([2, 3]), shape=tf.TensorShape([None, 3]))

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def total(x: Any) -> Any:
        return tf.reduce_sum(x), tf.rank(x), tf.shape(model.v)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def grow(x: Any) -> Any:
        model.v.assign(tf.concat([model.v, x], 0))
        return tf.shape(model.v)

    model.total, model.grow = total, grow

    def use(loaded: Any) -> Any:
        before = tf.identity(loaded.v)
        found = [loaded.total(tf.constant([[1.0], [2.0]])), loaded.grow(tf.ones([1, 3]))]
        loaded.v.assign(before)
        return found

    return Saved(model, use)
