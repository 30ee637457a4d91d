"""Sequences of different lengths: written as examples, bucketed, and read by a small network."""

import os
import tempfile

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(5)
Feature, FeatureList = tf.train.Feature, tf.train.FeatureList


def ints(values):
    return Feature(int64_list=tf.train.Int64List(value=values))


def sentence(i):
    length = 1 + (i * 5) % 9
    tokens = rng.randint(1, 6, length)
    context = {"id": ints([i]), "label": ints([int(tokens.sum() % 2)])}
    lists = {
        "tokens": FeatureList(feature=[ints([token]) for token in tokens]),
        "words": FeatureList(
            feature=[
                Feature(bytes_list=tf.train.BytesList(value=[b"w"] * (token % 3)))
                for token in tokens
            ]
        ),
    }
    return tf.train.SequenceExample(
        context=tf.train.Features(feature=context),
        feature_lists=tf.train.FeatureLists(feature_list=lists),
    )


CONTEXT = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
    "weight": tf.io.FixedLenFeature([], tf.float32, default_value=0.5),
}
LISTS = {
    "tokens": tf.io.FixedLenSequenceFeature([], tf.int64),
    "words": tf.io.RaggedFeature(tf.string),
}


def parse(text):
    context, lists = tf.io.parse_single_sequence_example(text, CONTEXT, LISTS)
    return context["id"], lists["tokens"], context["label"]


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "sentences")
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    with tf.io.TFRecordWriter(path, options) as writer:
        for i in range(20):
            writer.write(sentence(i).SerializeToString())
    records = list(tf.data.TFRecordDataset(path, compression_type="GZIP"))
    whole = tf.train.SequenceExample.FromString(records[3].numpy())
    print(len(whole.feature_lists.feature_list["tokens"].feature), len(records))
    context, lists = tf.io.parse_single_sequence_example(records[1], CONTEXT, LISTS)
    print(float(context["weight"]), lists["tokens"].numpy().tolist(), lists["words"].to_list())
    context, lists, lengths = tf.io.parse_sequence_example(records[:3], CONTEXT, LISTS)
    print(context["id"].numpy().tolist(), lists["tokens"].numpy().tolist())
    print(lists["words"].to_list(), {name: n.numpy().tolist() for name, n in lengths.items()})
    sparse = {"tokens": tf.io.VarLenFeature(tf.int64)}
    _, lists = tf.io.parse_single_sequence_example(records[2], {}, sparse)
    print(lists["tokens"].indices.numpy().tolist(), lists["tokens"].dense_shape.numpy().tolist())
    try:
        tf.io.parse_single_sequence_example(
            records[0], {"none": tf.io.FixedLenFeature([], tf.int64)}
        )
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        print(type(error).__name__)
    data = tf.data.TFRecordDataset(path, compression_type="GZIP").map(parse).cache()

    # ---- batches of like lengths

    buckets = data.bucket_by_sequence_length(
        lambda i, tokens, label: tf.shape(tokens)[0],
        bucket_boundaries=[3, 6], bucket_batch_sizes=[4, 3, 2],
        padded_shapes=([], [None], []), padding_values=(None, tf.constant(-1, tf.int64), None),
    )  # fmt: skip
    for ids, tokens, _ in buckets:
        print(ids.numpy().tolist(), tokens.shape, int(tf.reduce_sum(tf.cast(tokens < 0, tf.int32))))
    full = data.bucket_by_sequence_length(
        lambda i, tokens, label: tf.shape(tokens)[0],
        [4, 10], [2, 2, 2], pad_to_bucket_boundary=True, drop_remainder=True,
        padded_shapes=([], [None], []),
    )  # fmt: skip
    print([tokens.shape.as_list() for _, tokens, _ in full])
    grouped = data.map(lambda i, tokens, label: (label, tokens)).group_by_window(
        key_func=lambda label, tokens: label,
        reduce_func=lambda key, group: group.map(lambda label, tokens: tokens).padded_batch(3),
        window_size=3,
    )
    print([batch.shape.as_list() for batch in grouped])
    ragged = data.map(lambda i, tokens, label: tokens).ragged_batch(6)
    print(ragged.element_spec, [batch.row_lengths().numpy().tolist() for batch in ragged])

    # ---- a recurrent network

    table = tf.Variable(rng.randn(6, 4).astype("float32") * 0.5)
    inner = tf.Variable(rng.randn(4, 4).astype("float32") * 0.5)
    outer = tf.Variable(rng.randn(4, 2).astype("float32") * 0.5)

    def read(tokens):
        mask = tf.sequence_mask(
            tf.reduce_sum(tf.cast(tokens > 0, tf.int32), axis=1), tf.shape(tokens)[1]
        )
        steps = tf.transpose(tf.nn.embedding_lookup(table, tf.maximum(tokens, 0)), [1, 0, 2])

        def advance(state, inputs):
            x, goes_on = inputs
            return tf.where(goes_on[:, None], tf.tanh(x + state @ inner), state)

        begin = tf.zeros([tf.shape(tokens)[0], 4])
        return tf.scan(advance, (steps, tf.transpose(mask)), initializer=begin)[-1] @ outer

    @tf.function(reduce_retracing=True)
    def step(tokens, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, read(tokens))
            loss = tf.reduce_mean(losses)
        variables = [table, inner, outer]
        gradients = tape.gradient(loss, variables)
        gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(0.3 * tf.convert_to_tensor(gradient))
        return loss, norm

    for _ in range(2):
        for _, tokens, labels in buckets:
            print([round(float(one), 3) for one in step(tokens, labels)], end=" ")
        print()
