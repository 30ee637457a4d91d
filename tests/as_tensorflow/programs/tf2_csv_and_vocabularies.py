"""Tables of text: read by column, looked up in vocabularies that are files, and fitted."""

import os
import tempfile

import numpy as np
import tensorflow as tf

PLANTS = ["fern", "moss", "oak", "pine"]
rng = np.random.RandomState(4)


def write(path, lines):
    with open(path, "w") as file:
        file.writelines(f"{line}\n" for line in lines)
    return path


def row(i):
    kind, height = PLANTS[i % 4], float(rng.randint(1, 40)) / 4
    return f'{kind},{height},"shade, {i % 3}",{int(height > 4)}'


with tempfile.TemporaryDirectory() as folder:
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    header = "plant,height,place,tall"
    files = [write(at(f"{n}.csv"), [header, *(row(i + n) for i in range(6))]) for n in range(2)]
    vocabulary = write(at("plants.txt"), PLANTS)
    weights = write(at("weights.txt"), [f"{plant}\t{i / 2}" for i, plant in enumerate(PLANTS)])

    data = tf.data.experimental.make_csv_dataset(
        at("*.csv"), batch_size=4, label_name="tall", shuffle=False, num_epochs=1
    )
    features, labels = next(iter(data))
    print(sorted(features), {name: value.dtype.name for name, value in sorted(features.items())})
    print(features["place"].numpy().tolist(), labels.numpy().tolist())
    chosen = tf.data.experimental.make_csv_dataset(
        files[0], 3, column_defaults=[tf.string, tf.float64], select_columns=["plant", "height"],
        shuffle=False, num_epochs=2,
    )  # fmt: skip
    for columns in chosen.take(2):
        print(list(columns), columns["height"].dtype.name, columns["plant"].numpy().tolist())
    rows = tf.data.experimental.CsvDataset(
        files, [tf.constant(0.0), tf.int32], header=True, select_cols=[1, 3]
    )
    print(rows.element_spec, len(list(rows)), round(sum(float(h) for h, _ in rows), 2))
    lines = tf.data.TextLineDataset(files).filter(lambda line: line != header)
    parsed = lines.map(lambda line: tf.io.decode_csv(line, [[""], [0.0], [""], [0]]))
    print([int(tall) for *_, tall in parsed][:6])
    wrong = write(at("wrong"), ["1,2", "3,x", "5,6"])
    for pipeline in (
        tf.data.experimental.CsvDataset(wrong, [tf.int32, tf.int32]),
        tf.data.experimental.CsvDataset(wrong, [tf.int32, tf.int32]).ignore_errors(),
        tf.data.experimental.CsvDataset(wrong, [tf.int32]),
    ):
        try:
            print([tuple(int(one) for one in element) for element in pipeline])
        except tf.errors.InvalidArgumentError as error:
            print(type(error).__name__)

    # ---- vocabularies

    index = tf.lookup.TextFileIndex
    initializer = tf.lookup.TextFileInitializer(
        vocabulary, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER
    )
    known = tf.lookup.StaticHashTable(initializer, -1)
    print(int(known.size()), known[tf.constant(["oak", "palm"])].numpy().tolist())
    buckets = tf.lookup.StaticVocabularyTable(initializer, 3)
    found = buckets.lookup(tf.constant(["moss", "palm", "cactus", "palm"])).numpy()
    print(int(buckets.size()), found[0], found[1] == found[3], bool((found[1:] >= 4).all()))
    weigh = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(weights, tf.string, 0, tf.float32, 1, delimiter="\t"), 9.0
    )
    print(weigh.lookup(tf.constant(["pine", "palm"])).numpy().tolist())
    names = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(
            vocabulary, tf.int64, index.LINE_NUMBER, tf.string, index.WHOLE_LINE, vocab_size=4
        ),
        "?",
    )
    print(names.lookup(tf.constant([3, 7], tf.int64)).numpy().tolist())
    for path, size in ((at("nothing"), None), (vocabulary, 9)):
        try:
            tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(
                    path, tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER, size
                ),
                -1,
            )
            print("made")
        except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
            print(type(error).__name__)

    # ---- a model of the columns

    embedded = tf.Variable(tf.zeros([buckets.size(), 1]))
    slope, bias = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function
    def step(features, labels):
        with tf.GradientTape() as tape:
            each = tf.nn.embedding_lookup(embedded, buckets.lookup(features["plant"]))
            logits = each[:, 0] + slope * features["height"] + bias
            wanted = tf.cast(labels, tf.float32)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits))
        variables = [embedded, slope, bias]
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))
            else:
                variable.assign_sub(0.1 * gradient)
        return loss

    for _ in range(3):
        print([round(float(step(*batch)), 4) for batch in data])
    print(np.round(embedded.numpy()[:4, 0], 4).tolist(), round(float(slope), 4))
