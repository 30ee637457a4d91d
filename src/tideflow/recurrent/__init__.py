"""Recurrent networks as programs for TensorFlow 1 write them: cells, and loops over time.

`layer` keeps the variables of a cell; `cells` and `wrappers` are `tf.nn.rnn_cell`; `dynamic`, `raw`
and `static` run a cell over a sequence.
"""
