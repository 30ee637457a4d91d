"""Datasets with the iterators of sessions, and queues."""

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
with tf.Graph().as_default():
    dataset = tf.data.Dataset.range(5).map(lambda x: x * x).batch(2)
    one_shot = tf.data.make_one_shot_iterator(dataset).get_next()
    limit = tf.placeholder(tf.int64, [])
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(limit))
    element = iterator.get_next()
    queue = tf.FIFOQueue(3, [tf.int32], shapes=[[]])
    fill, taken = queue.enqueue_many([[7, 8, 9]]), queue.dequeue()
    with tf.Session() as session:
        while True:
            try:
                print(session.run(one_shot).tolist())
            except tf.errors.OutOfRangeError:
                break
        session.run(iterator.initializer, {limit: 2})
        print(session.run(element), session.run(element))
        session.run(fill)
        print(session.run(taken), session.run([taken, queue.size()])[0])
    print(element.shape, iterator.output_types, dataset.output_shapes)
