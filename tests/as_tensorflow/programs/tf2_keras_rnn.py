"""Recurrent layers: masks, states, wrappers, and what is fitted with them."""

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers
keras.utils.set_random_seed(4)
rng = np.random.RandomState(0)
steps = rng.randn(3, 5, 2).astype("float32")
tokens = np.array([[1, 2, 3, 0, 0], [4, 1, 0, 0, 0], [2, 2, 2, 2, 2]])


def brief(value):
    return np.round(np.sum(np.asarray(value), axis=-1), 2).tolist()


for kind in (layers.SimpleRNN, layers.GRU, layers.LSTM):
    layer = kind(3, return_sequences=True, return_state=True)
    whole, *states = layer(steps)
    print(kind.__name__, brief(whole)[0], [brief(state) for state in states])
    mask = tokens > 0
    print(brief(kind(2)(steps, mask=mask)), [v.shape for v in layer.weights])
    print(brief(kind(2, go_backwards=True, unroll=True)(steps)))
print(brief(layers.GRU(2, reset_after=False)(steps)))
print(brief(layers.Bidirectional(layers.LSTM(2), merge_mode="sum")(steps)))
print(brief(layers.Bidirectional(layers.GRU(2, return_sequences=True))(steps))[0])
print(brief(layers.TimeDistributed(layers.Dense(2))(steps))[0])
stacked = layers.RNN([layers.LSTMCell(2), layers.GRUCell(3)])
print(brief(stacked(steps)), brief(layers.RNN(layers.SimpleRNNCell(2))(steps)))
conv = layers.ConvLSTM1D(2, 2)(rng.randn(2, 3, 4, 1).astype("float32"))
print(conv.shape)

stateful = keras.Sequential([keras.Input(batch_shape=(3, 5, 2)), layers.LSTM(2, stateful=True)])
first, second = stateful(steps), stateful(steps)
print(np.allclose(first, second))
stateful.layers[0].reset_state()
print(np.allclose(first, stateful(steps), atol=1e-6))

inputs = keras.Input((None,), dtype="int32")
embedded = layers.Embedding(6, 4, mask_zero=True)(inputs)
hidden = layers.LSTM(5, return_sequences=True, dropout=0.2, recurrent_dropout=0.1)(embedded)
hidden = layers.Bidirectional(layers.GRU(4))(hidden)
model = keras.Model(inputs, layers.Dense(1)(hidden))
model.compile("adam", "mse")
print(brief(model(tokens)), embedded._keras_mask is not None)
history = model.fit(tokens, np.ones((3, 1)), epochs=1, verbose=0)
print(len(history.history["loss"]), model.count_params())
masking = keras.Sequential([keras.Input((5, 2)), layers.Masking(9.0), layers.LSTM(2)])
padded = steps.copy()
padded[:, 3:] = 9.0
print(np.allclose(masking(padded), masking.layers[1](steps[:, :3]), atol=1e-6))
model = keras.Sequential([keras.Input((5, 2)), layers.LSTM(6, unroll=False), layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=True)
losses = model.fit(steps, np.ones((3, 1)), epochs=3, shuffle=False, verbose=0).history["loss"]
print(np.round(losses, 3).tolist())

# ---- one sequence to another

source, target = keras.Input((5, 2)), keras.Input((4, 2))
_, h, c = layers.LSTM(3, return_state=True)(source)
out = layers.LSTM(3, return_sequences=True)(target, initial_state=[h, c])
out = layers.Attention()([out, out])
both = keras.Model([source, target], layers.Dense(2)(out))
both.compile(keras.optimizers.Adam(0.01), "mse")
history = both.fit([steps, steps[:, :4]], steps[:, :4], epochs=2, shuffle=False, verbose=0)
print(np.round(history.history["loss"], 3).tolist())
attended, scores = layers.MultiHeadAttention(2, 3)(steps, steps, return_attention_scores=True)
print(attended.shape, scores.shape, np.allclose(tf.reduce_sum(scores, -1), 1.0))
print(
    brief(layers.LayerNormalization()(steps))[0], layers.Conv1D(3, 2, padding="causal")(steps).shape
)
