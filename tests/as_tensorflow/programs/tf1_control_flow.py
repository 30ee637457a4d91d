"""Branches, loops and gradients of graphs."""

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
with tf.Graph().as_default():
    n = tf.placeholder_with_default(5, [])
    _, total = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i * i), [0, 0])
    x = tf.constant(2.0)
    y = tf.cond(n > 3, lambda: x * x * x, lambda: -x)
    grad = tf.gradients(y, x)[0]
    arrays = tf.TensorArray(tf.float32, 3, infer_shape=False).unstack([1.0, 2.0, 3.0])
    folded = tf.foldl(lambda a, b: 2.0 * a + b, arrays.stack())
    print(
        sorted(
            {op.type for op in tf.get_default_graph().get_operations()} & {"Switch", "Enter", "If"}
        )
    )
    with tf.control_dependencies([tf.assert_greater(n, 0)]):
        checked = tf.identity(n)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        print(session.run([total, y, grad, folded]), session.run([total, y, grad], {n: 3}))
        try:
            session.run(checked, {n: -1})
        except tf.errors.InvalidArgumentError as error:
            print(type(error).__name__, error.op.type)
