"""Metrics of the k best classes; each takes the API and what it is given: dense and sparse labels,
scores, classes by falling score, weights or None."""

from __future__ import annotations

from typing import Any

import numpy as np

_SCORES = np.float32(
    [[0.1, 0.5, 0.3, 0.05, 0.05], [0.2, 0.1, 0.1, 0.4, 0.2], [0.9, 0.02, 0.03, 0.03, 0.02]]
)
# One of them is a class without a score, and one is none.
_LABELS = np.array([[1, 2], [0, 7], [3, -1]])
_BATCHES = [(_LABELS, _SCORES), (_LABELS[::-1], _SCORES * np.float32([1, 0.5, 2, 1, 3]))]
_WEIGHTS = (0.5, 2.0, 0.0)

METRICS = {
    "recall": lambda m, y, s, p, i, w: m.recall_at_k(y, p, 2, weights=w),
    "recall_of_a_class": lambda m, y, s, p, i, w: m.recall_at_k(y, p, 2, 3, w),
    "recall_of_sparse": lambda m, y, s, p, i, w: m.recall_at_k(s, p, 2, weights=w),
    "recall_of_a_sparse_class": lambda m, y, s, p, i, w: m.recall_at_k(s, p, 2, 0, w, name="own"),
    "recall_of_one_label": lambda m, y, s, p, i, w: m.recall_at_k(y[:, 0], p, 2, weights=w),
    "recall_of_classes": lambda m, y, s, p, i, w: m.recall_at_top_k(y, i, weights=w),
    "recall_of_a_named_k": lambda m, y, s, p, i, w: m.recall_at_top_k(s, i, 2, 1, w),
    "precision": lambda m, y, s, p, i, w: m.precision_at_k(y, p, 2, weights=w),
    "precision_of_a_class": lambda m, y, s, p, i, w: m.precision_at_k(y, p, 2, 3, w),
    "precision_of_sparse": lambda m, y, s, p, i, w: m.sparse_precision_at_k(s, p, 3, weights=w),
    "precision_of_classes": lambda m, y, s, p, i, w: m.precision_at_top_k(s, i, None, 2, w),
    "average": lambda m, y, s, p, i, w: m.average_precision_at_k(y, p, 3, w),
    "average_of_sparse": lambda m, y, s, p, i, w: m.sparse_average_precision_at_k(s, p, 2, w),
    "average_of_one_label": lambda m, y, s, p, i, w: m.average_precision_at_k(y[:, 0], p, 2, w),
    "average_of_none": lambda m, y, s, p, i, w: m.average_precision_at_k(y, p, 0, w),
    "labels_of_another_rank": lambda m, y, s, p, i, w: m.recall_at_k(y[None, None], p, 2),
    "labels_of_another_type": lambda m, y, s, p, i, w: m.recall_at_top_k(i, i, weights=w),
}


def look(tf: Any, name: str, is_weighted: bool, knows_shapes: bool = True) -> Any:
    """Return what a metric makes and gives over two batches, or the class of its error."""
    with tf.Graph().as_default() as graph:
        labels = tf.placeholder(tf.int64, [3, 2])
        scores = tf.placeholder(tf.float32, [3, 5])
        flat = tf.concat([labels[0], labels[1:, 0]], 0)
        sparse = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 1]], flat, [3, 2])
        best = tf.nn.top_k(scores, 2).indices
        given = [labels, sparse, scores, best]
        if not knows_shapes:
            given[0], given[3] = (tf.placeholder_with_default(x, None) for x in (labels, best))
        weights = tf.constant(_WEIGHTS) if is_weighted else None
        try:
            value, update = METRICS[name](tf.metrics, *given, weights)
            found = [
                [v.name for v in graph.get_collection(tf.GraphKeys.METRIC_VARIABLES)],
                *([one.name, one.dtype.name, one.shape.as_list()] for one in (value, update)),
            ]
            with tf.Session() as session:
                session.run(tf.local_variables_initializer())
                found.append(session.run(value))
                for truth, guess in _BATCHES:
                    found.append(session.run(update, {labels: truth, scores: guess}))
                    found.append(session.run(value))
        except Exception as error:
            return type(error).__name__
    # Nothing over nothing is no number, which equals nothing.
    return [*found[:3], *(np.format_float_positional(one, 5, trim="-") for one in found[3:])]
