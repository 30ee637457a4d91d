"""Models of Keras exported for serving, with signatures of their own, and read as layers."""

import os
import tempfile

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
rng = np.random.RandomState(21)
x = rng.randn(6, 4).astype("float32")


def shown(value):
    return np.round(np.asarray(value), 3).tolist()


keras.utils.set_random_seed(5)
inputs = keras.Input((4,), name="features")
hidden = layers.Dense(3, activation="tanh")(inputs)
hidden = layers.BatchNormalization()(hidden)
outputs = {"score": layers.Dense(1)(hidden), "kinds": layers.Softmax()(hidden)}
model = keras.Model(inputs, outputs)
wanted = model(x)
with tempfile.TemporaryDirectory() as folder:
    served, parts = os.path.join(folder, "served"), os.path.join(folder, "parts")
    model.export(served, verbose=False)
    loaded = tf.saved_model.load(served)
    print(sorted(loaded.signatures), np.allclose(loaded.serve(x)["score"], wanted["score"]))
    signature = loaded.signatures["serving_default"]
    print(sorted(signature.structured_outputs), signature.structured_input_signature[1])
    found = signature(features=tf.constant(x[:2]))
    print({name: np.allclose(found[name], wanted[name][:2]) for name in sorted(found)})
    layer = layers.TFSMLayer(served, call_endpoint="serve")
    print(np.allclose(layer(x)["kinds"], wanted["kinds"], atol=1e-6))

    archive = keras.export.ExportArchive()
    archive.track(model)
    spec = tf.TensorSpec([None, 4], tf.float32)
    archive.add_endpoint("score", lambda rows: model(rows, training=False)["score"], [spec])
    archive.add_endpoint("doubled", lambda rows: 2.0 * rows, [spec])
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), default_value=0
    )
    archive.track(table)
    words = tf.TensorSpec([None], tf.string)
    archive.add_endpoint("numbers", lambda texts: table.lookup(texts), [words])
    archive.write_out(parts, verbose=False)
    revived = tf.saved_model.load(parts)
    print(np.allclose(revived.score(x), wanted["score"], atol=1e-6), shown(revived.doubled(x[:1])))
    print(revived.numbers(tf.constant(["b", "c"])).numpy().tolist())

text = keras.Sequential(
    [keras.Input((), dtype="string"), layers.StringLookup(vocabulary=["a", "b"])]
)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "text")
    text.export(path, verbose=False)
    print(tf.saved_model.load(path).serve(tf.constant(["b", "z"])).numpy().tolist())
