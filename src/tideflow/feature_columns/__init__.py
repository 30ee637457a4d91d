"""Feature columns: how raw features become the inputs of a model, `tf.feature_column`.

`columns` says what a column is, and transforms features once for all columns; `categorical`,
`dense`, `embeddings` and `sequences` are the kinds; `models` makes inputs and linear models.
"""
