"""Errors are of TensorFlow's classes."""

import tensorflow as tf


def attempt(what, function):
    try:
        function()
    except Exception as error:
        kinds = [
            c.__name__
            for c in type(error).__mro__
            if c.__name__ in ("OpError", "ValueError", "TypeError")
        ]
        print(what, type(error).__module__, type(error).__name__, kinds)
    else:
        print(what, "worked")


attempt("shapes", lambda: tf.matmul(tf.ones([2, 3]), tf.ones([2, 3])))
attempt("types", lambda: tf.add(tf.constant(1), tf.constant(1.0)))
attempt("index", lambda: tf.gather([1, 2], [5]))
attempt("file", lambda: tf.io.read_file("/no/such/file"))
attempt("end", lambda: [next(it) for it in [iter(tf.data.Dataset.range(0))]])
attempt("nan", lambda: tf.debugging.check_numerics(tf.constant(float("nan")), "it"))
attempt("assert", lambda: tf.debugging.assert_equal(1, 2))
attempt("attribute", lambda: tf.no_such_name)
attempt("import", lambda: __import__("tensorflow.no_such_module"))
attempt("reshape", lambda: tf.reshape(tf.range(5), [2, 3]))
