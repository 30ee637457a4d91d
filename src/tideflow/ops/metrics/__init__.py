"""`tf.metrics`: what runs over batches, kept in local variables: means, counts, curves.

Each metric gives a value and an operation that takes the current batch into account.
"""
