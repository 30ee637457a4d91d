"""Rows of different lengths everywhere: maps, datasets, functions, loops, embeddings, gradients."""

import numpy as np
import tensorflow as tf

rows = tf.ragged.constant([[3, 1, 2], [], [5], [4, 4]], tf.int64)


def shown(value):
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


# ---- maps and folds

print(shown(tf.map_fn(tf.reduce_sum, rows, fn_output_signature=tf.int64)))
spec = tf.RaggedTensorSpec([None], tf.int64)
print(shown(tf.map_fn(lambda row: row * 2, rows, fn_output_signature=spec)))
print(shown(tf.map_fn(tf.range, tf.constant([2, 0, 3]), fn_output_signature=tf.RaggedTensorSpec(
    [None], tf.int32))))  # fmt: skip
both = tf.map_fn(
    lambda pair: (tf.sort(pair[0]), tf.size(pair[0]) + pair[1]), (rows, tf.constant([1, 2, 3, 4])),
    fn_output_signature=(spec, tf.int32),
)  # fmt: skip
print(shown(both[0]), shown(both[1]))
print(shown(tf.vectorized_map(lambda n: n * n, tf.constant([1, 2, 3]))))

# ---- datasets

data = tf.data.Dataset.from_tensor_slices({"row": rows, "n": [0, 1, 2, 3]})
print(data.element_spec["row"], [shown(one["row"]) for one in data])
batches = data.batch(3)
print(batches.element_spec["row"], [shown(batch["row"]) for batch in batches])
print([shown(tf.reduce_sum(batch["row"], axis=1)) for batch in batches.shuffle(1).prefetch(1)])
print([shown(one) for one in data.map(lambda one: one["row"][:1])
       .filter(lambda v: tf.size(v) > 0).ragged_batch(2)])  # fmt: skip
print([shown(one) for one in batches.unbatch().map(lambda one: one["row"]).take(2)])
whole = data.map(lambda one: one["row"]).ragged_batch(4).map(lambda r: r.to_tensor(9))
print([shown(one) for one in whole])
made = tf.data.Dataset.from_generator(
    lambda: iter([tf.ragged.constant([[1], [2, 3]]), tf.ragged.constant([[], [4]], tf.int32)]),
    output_signature=tf.RaggedTensorSpec([2, None], tf.int32),
)
print([shown(one) for one in made])

# ---- functions

traces = []


@tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int64)])
def middle(rows):
    traces.append(rows.shape.as_list())
    total = tf.constant(0, tf.int64)
    for i in tf.range(rows.nrows()):
        row = rows[i]
        if tf.size(row) > 1:
            total += row[1]
    longest = tf.reduce_max(rows.row_lengths())
    return rows + total, longest


for one in (rows, rows[1:], tf.ragged.constant([[7, 8]], tf.int64)):
    print([shown(value) for value in middle(one)])
print(traces)
try:
    middle(tf.constant([[1, 2]], tf.int64))
except (TypeError, ValueError) as error:
    print("refused", isinstance(error, (TypeError, ValueError)))


@tf.function
def nested(rows):
    grown = tf.concat([rows, rows[:, ::-1]], axis=1)
    count, _ = tf.while_loop(
        lambda i, r: i < 3,
        lambda i, r: (i + 1, tf.concat([r, r[:, :1]], axis=1)),
        [tf.constant(0), rows],
        shape_invariants=[tf.TensorShape([]), tf.RaggedTensorSpec([None, None], tf.int64)],
    )
    return grown, count, tf.cond(tf.size(rows.values) > 3, lambda: rows, lambda: rows * 2)


print([shown(value) for value in nested(rows)])

# ---- embeddings and gradients

table = tf.Variable(np.arange(12, dtype="float32").reshape(6, 2) / 10)
with tf.GradientTape() as tape:
    found = tf.nn.embedding_lookup(table, rows)
    pooled = tf.reduce_mean(found[:2], axis=1)
    loss = tf.reduce_sum(found * found) + tf.reduce_sum(pooled[0])
print(found.shape, np.round(pooled.numpy()[0], 3).tolist())
slices = tape.gradient(loss, table)
print(np.round(tf.convert_to_tensor(slices).numpy(), 3).tolist())
sparse = rows.to_sparse()
combined = tf.nn.safe_embedding_lookup_sparse(table, sparse, combiner="sum")
print(np.round(combined.numpy(), 3).tolist())
weights = tf.ragged.constant([[1.0, 2.0, 1.0], [], [0.5], [1.0, 1.0]])
print(np.round(tf.nn.embedding_lookup_sparse(table, rows, weights, "mean").numpy(), 3).tolist())
with tf.GradientTape() as tape:
    values = tf.constant([1.0, 2.0, 3.0])
    tape.watch(values)
    ragged = tf.RaggedTensor.from_row_splits(values, [0, 2, 3])
    out = tf.reduce_sum(ragged.to_tensor() @ tf.constant([[2.0], [3.0]]))
print(shown(tf.convert_to_tensor(tape.gradient(out, values))))

# ---- what is made of them

words = tf.strings.split(["a b c", "d", "e f"])
print(
    shown(tf.strings.ngrams(words, [1, 2])), shown(tf.strings.reduce_join(words, 1, separator="-"))
)
print(shown(tf.ragged.stack([rows, rows[:, :1]], axis=0)[:, :1]), shown(tf.ragged.range([2, 0, 3])))
print(shown(tf.gather(rows, [3, 0])), shown(tf.gather(words, [[0], [0], [1]], batch_dims=1)))
print(shown(tf.ragged.boolean_mask(rows, rows > 2)), shown(tf.where(rows > 2, rows, -rows)))
print(shown(tf.expand_dims(rows, 0).merge_dims(0, 1)), shown(tf.tile(rows[:2], [1, 2])))
print(shown(tf.cast(rows, tf.float32) / 2), rows.bounding_shape().numpy().tolist())
cross = tf.ragged.cross([words, tf.ragged.constant([["x"], ["y", "z"], []])])
print(shown(cross), shown(tf.sets.size(tf.sets.intersection(sparse, sparse))))
print(rows.nested_row_splits[0].dtype, rows.flat_values.shape)
outer = tf.RaggedTensor.from_nested_row_lengths([1, 2, 3, 4], [[1, 0, 2], [3, 0, 1]])
print(shown(outer), outer.shape, outer.ragged_rank, shown(tf.reduce_max(outer, axis=-1)))
