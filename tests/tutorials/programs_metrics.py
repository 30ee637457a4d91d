"""Streaming metrics: each over several batches, with and without weights."""

from __future__ import annotations

import numpy as np

from tutorials.recording import attempt, program

LABELS = np.array([[1, 0, 1, 0, 1], [0, 0, 1, 1, 0]])
SCORES = np.array([[0.9, 0.2, 0.4, 0.6, 0.5], [0.1, 0.7, 0.8, 0.45, 0.3]], np.float32)
WEIGHTS = np.array([[1.0, 2.0, 0.5, 0.0, 1.0], [1.0, 1.0, 3.0, 1.0, 0.25]], np.float32)


def stream(tf, make, *columns):
    """Return the values of a metric, and of its updates, before and over the batches."""
    with tf.Graph().as_default() as graph:
        given = [tf.placeholder(column.dtype, column.shape[1:]) for column in columns]
        value, update = make(*given)
        names = sorted(variable.name for variable in tf.local_variables())
        assert tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)
        found = []
        with tf.Session(graph=graph) as session:
            session.run(tf.local_variables_initializer())
            found.append(session.run(value))
            for rows in zip(*columns):
                found.append(session.run(update, dict(zip(given, rows))))
                found.append(session.run(value))
        ends = ("value:0", "update_op:0", "update:0")
        return found, names, [one.name for one in (value, update) if one.name.endswith(ends)]


def with_and_without_weights(tf, make, *columns):
    return [
        stream(tf, make, *columns),
        stream(tf, lambda *given: make(*given[:-1], weights=given[-1]), *columns, WEIGHTS),
    ]


@program
def means(tf, folder):
    return with_and_without_weights(tf, tf.metrics.mean, SCORES)


@program
def mean_tensors(tf, folder):
    return with_and_without_weights(tf, tf.metrics.mean_tensor, SCORES)


@program
def accuracies(tf, folder):
    return with_and_without_weights(
        tf, lambda y, x, **k: tf.metrics.accuracy(y, tf.round(x), **k), LABELS, SCORES
    )


@program
def errors(tf, folder):
    y = SCORES[:, ::-1].copy()
    return [
        with_and_without_weights(tf, make, SCORES, y)
        for make in (
            tf.metrics.mean_absolute_error,
            tf.metrics.mean_squared_error,
            tf.metrics.root_mean_squared_error,
        )
    ]


@program
def relative_errors(tf, folder):
    y = SCORES[:, ::-1].copy()
    return with_and_without_weights(
        tf,
        lambda a, b, **k: tf.metrics.mean_relative_error(a, b, tf.abs(a) + 0.5, **k),
        SCORES,
        y,
    )


@program
def cosine_distances(tf, folder):
    def make(a, b, **k):
        return tf.metrics.mean_cosine_distance(
            tf.nn.l2_normalize(tf.cast(a, tf.float32) + 0.1, 0), tf.nn.l2_normalize(b, 0), 0
        )

    return stream(tf, make, LABELS, SCORES)


@program
def counts(tf, folder):
    return [
        with_and_without_weights(
            tf, lambda y, x, make=make, **k: make(y, x > 0.5, **k), LABELS, SCORES
        )
        for make in (
            tf.metrics.true_positives,
            tf.metrics.true_negatives,
            tf.metrics.false_positives,
            tf.metrics.false_negatives,
        )
    ]


@program
def counts_at_thresholds(tf, folder):
    return [
        with_and_without_weights(
            tf, lambda y, x, make=make, **k: make(y, x, [0.25, 0.5, 0.75], **k), LABELS, SCORES
        )
        for make in (
            tf.metrics.true_positives_at_thresholds,
            tf.metrics.true_negatives_at_thresholds,
            tf.metrics.false_positives_at_thresholds,
            tf.metrics.false_negatives_at_thresholds,
            tf.metrics.precision_at_thresholds,
            tf.metrics.recall_at_thresholds,
        )
    ]


@program
def precision_and_recall(tf, folder):
    return [
        with_and_without_weights(
            tf, lambda y, x, make=make, **k: make(y, x > 0.5, **k), LABELS, SCORES
        )
        for make in (tf.metrics.precision, tf.metrics.recall)
    ]


@program
def areas_under_curves(tf, folder):
    return [
        with_and_without_weights(
            tf,
            lambda y, x, curve=curve, how=how, **k: tf.metrics.auc(
                y, x, num_thresholds=20, curve=curve, summation_method=how, **k
            ),
            LABELS,
            SCORES,
        )
        for curve in ("ROC", "PR")
        for how in ("trapezoidal", "minoring", "majoring")
    ] + [
        stream(tf, lambda y, x: tf.metrics.auc(y, x), LABELS, SCORES),
        stream(
            tf,
            lambda y, x: tf.metrics.auc(y, x, curve="PR", summation_method="careful_interpolation"),
            LABELS,
            SCORES,
        ),
    ]


@program
def sensitivity_and_specificity(tf, folder):
    return [
        with_and_without_weights(
            tf, lambda y, x, make=make, **k: make(y, x, 0.6, num_thresholds=30, **k), LABELS, SCORES
        )
        for make in (
            tf.metrics.sensitivity_at_specificity,
            tf.metrics.specificity_at_sensitivity,
        )
    ]


@program
def intersections_over_unions(tf, folder):
    return with_and_without_weights(
        tf, lambda y, x, **k: tf.metrics.mean_iou(y, tf.to_int64(x > 0.5), 2, **k), LABELS, SCORES
    )


@program
def accuracies_per_class(tf, folder):
    return with_and_without_weights(
        tf,
        lambda y, x, **k: tf.metrics.mean_per_class_accuracy(y, tf.to_int64(x > 0.5), 3, **k),
        LABELS,
        SCORES,
    )


@program
def percentages_below(tf, folder):
    return with_and_without_weights(
        tf, lambda x, **k: tf.metrics.percentage_below(x, 0.45, **k), SCORES
    )


RANKED = np.array(
    [
        [[0.1, 0.4, 0.2, 0.3], [0.5, 0.1, 0.3, 0.1]],
        [[0.7, 0.1, 0.1, 0.1], [0.2, 0.2, 0.5, 0.1]],
    ],
    np.float32,
)
TRUE_CLASSES = np.array([[[1, 2], [2, 3]], [[0, 3], [1, 2]]], np.int64)


@program
def at_k(tf, folder):
    found = []
    for k in (1, 2):
        for make in (
            tf.metrics.precision_at_k,
            tf.metrics.recall_at_k,
            tf.metrics.average_precision_at_k,
            tf.metrics.sparse_average_precision_at_k,
            tf.metrics.sparse_precision_at_k,
        ):
            found.append(
                stream(tf, lambda y, x, make=make, k=k: make(y, x, k), TRUE_CLASSES, RANKED)
            )
    for make in (tf.metrics.precision_at_k, tf.metrics.recall_at_k):
        found.append(
            stream(tf, lambda y, x, make=make: make(y, x, 2, class_id=2), TRUE_CLASSES, RANKED)
        )
    weights = np.array([[1.0, 0.5], [0.0, 2.0]], np.float32)
    for make in (
        tf.metrics.precision_at_k,
        tf.metrics.recall_at_k,
        tf.metrics.average_precision_at_k,
    ):
        found.append(
            stream(
                tf,
                lambda y, x, w, make=make: make(y, x, 2, weights=w),
                TRUE_CLASSES,
                RANKED,
                weights,
            )
        )
    return found


@program
def top_k(tf, folder):
    classes = np.array([[[1, 0], [0, 2]], [[0, 3], [2, 1]]], np.int64)
    found = []
    for make in (tf.metrics.precision_at_top_k, tf.metrics.recall_at_top_k):
        for class_id in (None, 2):
            found.append(
                stream(
                    tf,
                    lambda y, x, make=make, class_id=class_id: make(y, x, 2, class_id=class_id),
                    TRUE_CLASSES,
                    classes,
                )
            )
    return found


@program
def one_label_at_k(tf, folder):
    labels = np.array([[1, 2], [0, 1]], np.int64)
    return [
        stream(tf, lambda y, x, make=make: make(y, x, 2), labels, RANKED)
        for make in (tf.metrics.precision_at_k, tf.metrics.recall_at_k)
    ]


@program
def collections_and_refusals(tf, folder):
    x, y = tf.constant([1.0, 2.0]), tf.constant([1.0, 3.0])
    tf.metrics.recall(x, y, metrics_collections="m", updates_collections=["u", "w"], name="mine")
    tf.metrics.mean(x, metrics_collections=["m"])
    return (
        [[one.name for one in tf.get_collection(key)] for key in ("m", "u", "w")],
        [
            attempt(lambda: tf.metrics.accuracy(x, tf.constant([1.0, 2.0, 3.0])) and None),
            attempt(lambda: tf.metrics.mean(x, weights=[[1.0], [2.0], [3.0]]) and None),
            attempt(lambda: tf.metrics.auc(x, y, curve="XYZ") and None),
            attempt(lambda: tf.metrics.sensitivity_at_specificity(x, y, 1.5) and None),
            attempt(lambda: tf.metrics.recall_at_k([[1.5]], [[0.1, 0.2]], 1) and None),
        ],
        sorted(v.name for v in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)),
        [v.name for v in tf.global_variables()],
    )


@program
def reset_by_scope(tf, folder):
    x = tf.placeholder(tf.float32, [None])
    value, update = tf.metrics.mean(x, name="average")
    running = tf.get_collection(tf.GraphKeys.LOCAL_VARIABLES, scope="average")
    reset = tf.variables_initializer(running)
    found = [[v.name for v in running]]
    with tf.Session() as session:
        for batch in ([1.0], [3.0, 5.0]):
            session.run(reset)
            session.run(update, {x: batch})
            found.append(session.run(value))
    return found


@program
def confusion_matrices(tf, folder):
    with tf.Session() as session:
        return session.run(
            [
                tf.confusion_matrix([1, 2, 4], [2, 2, 4]),
                tf.confusion_matrix(
                    [0, 1], [1, 1], num_classes=3, weights=[0.5, 2.0], dtype=tf.float32
                ),
                tf.math.confusion_matrix([0, 1], [0, 1]),
            ]
        )
