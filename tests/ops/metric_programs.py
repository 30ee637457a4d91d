"""Metrics of `tf.metrics` in all their forms; each takes the API, labels, predictions, weights."""

from __future__ import annotations

from typing import Any

import numpy as np

_LIMITS = [0.2, 0.5, 0.7]
_SCORES = (0.1, 0.4, 0.35, 0.8, 0.6)
_LABELS = (0, 0, 1, 1, 1)
_WEIGHTS = (0.5, 1, 2, 0, 1)


def _classes(tf: Any, y: Any, p: Any) -> list[Any]:
    return [tf.cast(y, tf.int32), tf.cast(p * 3.0, tf.int32), 3]


METRICS = {
    "mean": lambda tf, y, p, w: tf.metrics.mean(p, w),
    "accuracy": lambda tf, y, p, w: tf.metrics.accuracy(y, tf.cast(p > 0.3, tf.float32), w),
    "mean_tensor": lambda tf, y, p, w: tf.metrics.mean_tensor(p, w),
    "squared": lambda tf, y, p, w: tf.metrics.mean_squared_error(y, p, w),
    "root": lambda tf, y, p, w: tf.metrics.root_mean_squared_error(y, p, w),
    "relative": lambda tf, y, p, w: tf.metrics.mean_relative_error(y, p, y, w),
    "cosine": lambda tf, y, p, w: tf.metrics.mean_cosine_distance(
        tf.reshape(y, [1, 5]), tf.reshape(p, [1, 5]), 1, None if w is None else 2.0
    ),
    "below": lambda tf, y, p, w: tf.metrics.percentage_below(p, 0.5, w),
    "true_positives": lambda tf, y, p, w: tf.metrics.true_positives(y > 0.5, p > 0.3, w),
    "true_negatives": lambda tf, y, p, w: tf.metrics.true_negatives(y, p > 0.3, w),
    "false_positives": lambda tf, y, p, w: tf.metrics.false_positives(y, p > 0.3, w),
    "false_negatives": lambda tf, y, p, w: tf.metrics.false_negatives(y, p > 0.3, w),
    "precision": lambda tf, y, p, w: tf.metrics.precision(y, p > 0.3, w),
    "recall": lambda tf, y, p, w: tf.metrics.recall(y, p > 0.3, w, name="named"),
    "of_another_rank": lambda tf, y, p, w: tf.metrics.precision(tf.reshape(y, [5, 1]), p > 0.3),
    "of_another_shape": lambda tf, y, p, w: tf.metrics.precision(y, [True]),
    "mean_iou": lambda tf, y, p, w: tf.metrics.mean_iou(*_classes(tf, y, p), w),
    "by_class": lambda tf, y, p, w: tf.metrics.mean_per_class_accuracy(*_classes(tf, y, p), w),
    "auc": lambda tf, y, p, w: tf.metrics.auc(y, p, w),
    "auc_pr": lambda tf, y, p, w: tf.metrics.auc(y, p, w, num_thresholds=5, curve="PR"),
    "auc_careful": lambda tf, y, p, w: tf.metrics.auc(
        y, p, w, curve="PR", summation_method="careful_interpolation"
    ),
    "auc_minoring": lambda tf, y, p, w: tf.metrics.auc(y, p, w, 7, summation_method="minoring"),
    "auc_majoring": lambda tf, y, p, w: tf.metrics.auc(y, p, w, 7, summation_method="majoring"),
    "auc_thresholds": lambda tf, y, p, w: tf.metrics.auc(y, p, w, thresholds=[0.3, 0.5]),
    "auc_of_no_scores": lambda tf, y, p, w: tf.metrics.auc(y, p * 3.0, w),
    "auc_of_no_curve": lambda tf, y, p, w: tf.metrics.auc(y, p, curve="X"),
    "sensitivity": lambda tf, y, p, w: tf.metrics.sensitivity_at_specificity(y, p, 0.6, w),
    "specificity": lambda tf, y, p, w: tf.metrics.specificity_at_sensitivity(y, p, 0.6, w),
    "no_specificity": lambda tf, y, p, w: tf.metrics.sensitivity_at_specificity(y, p, 1.5),
    **{
        name: lambda tf, y, p, w, name=name: getattr(tf.metrics, name)(y, p, _LIMITS, w)
        for name in (
            "true_positives_at_thresholds",
            "true_negatives_at_thresholds",
            "false_positives_at_thresholds",
            "false_negatives_at_thresholds",
            "precision_at_thresholds",
            "recall_at_thresholds",
        )
    },
}


def look(tf: Any, name: str, is_weighted: bool) -> Any:
    """Return what a metric makes and gives over two batches, or the class of its error."""
    with tf.Graph().as_default():
        labels, scores = (tf.placeholder(tf.float32, [5]) for _ in range(2))
        weights = tf.constant(_WEIGHTS, tf.float32) if is_weighted else None
        try:
            value, update = METRICS[name](tf, labels, scores, weights)
            kinds = [[v.name for v in tf.local_variables()], value.dtype.name, update.dtype.name]
            kinds += [[one.op.type, one.name] for one in (value, update)]
            sizes = [one.shape.as_list() for one in (value, update)]
            found = []
            with tf.Session() as session:
                session.run(tf.local_variables_initializer())
                for given in (_LABELS, _LABELS[::-1]):
                    found.append(session.run(value))
                    found.append(session.run(update, {labels: given, scores: _SCORES}))
                found.append(session.run(value))
        except Exception as error:
            return type(error).__name__
    return [*kinds, *sizes, [np.round(np.float64(one), 4).tolist() for one in found]]
