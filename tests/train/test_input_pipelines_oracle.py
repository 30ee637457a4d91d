"""Input pipelines of queues and threads give what they give in TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours

tensorflow = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

v1 = tensorflow.compat.v1


def steps(tf, fetches, most=50):
    """Return what all steps give until the end, in a session with its queue runners."""
    found = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while len(found) < most:
                found.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            pass
        finally:
            coordinator.request_stop()
            coordinator.join(threads)
    return found


def both(build, arrange=lambda found: found):
    """Check that a pipeline gives the same in both; `arrange` where the order is not fixed."""
    results = []
    for tf in (ours, v1):
        with tf.Graph().as_default() as graph:
            fetches = build(tf)
            static = tensorflow.nest.map_structure(lambda t: t.shape.as_list(), fetches)
            found = arrange(steps(tf, fetches))
            ops = sorted(op.type for op in graph.get_operations())
            results.append((found, static, [op for op in ops if op not in ("Const", "Cast")]))
    assert results[0][0]
    tensorflow.nest.map_structure(np.testing.assert_array_equal, results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    return results[0][0]


def rows(found):
    """Return the rows of all steps, in order."""
    flat = [[np.asarray(part) for part in tensorflow.nest.flatten(step)] for step in found]
    return sorted(tuple(row) for step in flat for row in zip(*(p.tolist() for p in step)))


def test_lines_of_files(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text("".join(f"{name}{i}\n" for i in range(5)))

    def build(tf):
        names = [str(tmp_path / name) for name in "ab"]
        queue = tf.train.string_input_producer(names, num_epochs=2, shuffle=False)
        key, value = tf.TextLineReader().read(queue)
        return tf.train.batch([key, value], 4, allow_smaller_final_batch=True)

    assert len(both(build)) == 5


@pytest.mark.parametrize("shuffle", [False, True])
def test_numbers_and_rows(shuffle):
    def numbers(tf):
        queue = tf.train.range_input_producer(7, num_epochs=3, shuffle=shuffle, seed=5)
        return queue.dequeue()

    def slices(tf):
        x = np.arange(12.0).reshape(6, 2)
        return tf.train.slice_input_producer([x, x[:, 0]], 2, shuffle=shuffle, seed=5)

    assert sorted(int(n) for n in both(numbers)) == sorted([*range(7)] * 3)
    assert len(both(slices)) == 12


@pytest.mark.parametrize("smaller", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_batches(smaller, many):
    def build(tf):
        queue = tf.train.range_input_producer(10, num_epochs=1, shuffle=False)
        x = queue.dequeue_many(2) if many else queue.dequeue()
        given = {"x": x, "double": tf.cast(x, tf.float32) * 2}
        return tf.train.batch(
            given, 4, enqueue_many=many, allow_smaller_final_batch=smaller, capacity=20
        )

    found = both(build)
    assert [len(step["x"]) for step in found] == [4, 4, 2][: 2 + smaller]


def test_padded_batches():
    def build(tf):
        x = tf.train.range_input_producer(6, num_epochs=1, shuffle=False).dequeue()
        return tf.train.batch([tf.range(x), x], 3, dynamic_pad=True)

    assert [padded.shape for padded, _ in both(build)] == [(3, 2), (3, 5)]


@pytest.mark.parametrize("many", [False, True])
def test_batches_of_what_is_kept(many):
    def build(tf):
        queue = tf.train.range_input_producer(12, num_epochs=1, shuffle=False)
        x = queue.dequeue_many(3) if many else queue.dequeue()
        return tf.train.maybe_batch([x], tf.equal(x % 2, 0), 2, enqueue_many=many)

    kept = [int(x) for step in both(build) for x in np.ravel(step)]
    assert kept == [0, 2, 4, 6, 8, 10]


def test_several_sources():
    def build(tf):
        queue = tf.train.range_input_producer(12, num_epochs=1, shuffle=False)
        x = [[queue.dequeue()] for _ in range(3)]
        return tf.train.batch_join(x, 3, allow_smaller_final_batch=True)

    found = both(build, lambda found: sorted(int(x) for step in found for x in np.ravel(step)))
    assert found == list(range(12))


@pytest.mark.parametrize("join", [False, True])
def test_shuffled_batches(join):
    def build(tf):
        queue = tf.train.range_input_producer(20, num_epochs=1, shuffle=False)
        x = queue.dequeue()
        options = {"seed": 3, "allow_smaller_final_batch": True}
        if join:
            return tf.train.shuffle_batch_join([[x, -x]], 4, 10, 5, **options)
        return tf.train.shuffle_batch([x, -x], 4, 10, 5, **options)

    assert both(build, rows) == [(x, -x) for x in range(20)]


def test_shuffled_batches_of_what_is_kept():
    def build(tf):
        queue = tf.train.range_input_producer(20, num_epochs=1, shuffle=False)
        x = queue.dequeue()
        return tf.train.maybe_shuffle_batch(
            [x, -x], 4, 10, 2, tf.less(x, 9), allow_smaller_final_batch=True
        )

    assert both(build, rows) == [(x, -x) for x in range(9)]


def test_file_names_are_found_once(tmp_path):
    for name in "ba":
        (tmp_path / name).write_text("")
    pattern = str(tmp_path / "*")
    found = []
    for tf in (ours, v1):
        with tf.Graph().as_default(), tf.Session() as session:
            names = tf.train.match_filenames_once(pattern)
            session.run(tf.local_variables_initializer())
            found.append(session.run(names).tolist())
    assert found[0] == found[1] == [str(tmp_path / name).encode() for name in "ab"]


def test_wrong_arguments_are_refused():
    for tf in (ours, v1):
        with tf.Graph().as_default():
            x = tf.constant([1, 2])
            wrong = [
                lambda tf=tf: tf.train.string_input_producer([]),
                lambda tf=tf, x=x: tf.train.limit_epochs(x, 0),
                lambda tf=tf, x=x: tf.train.shuffle_batch([x], 2, 5, 5),
                lambda tf=tf: tf.train.batch([], 2),
                lambda tf=tf: tf.train.slice_input_producer([]),
                lambda tf=tf, x=x: tf.train.maybe_batch([x], [True, False], 2),
                lambda tf=tf: tf.train.batch([tf.placeholder(tf.int32)], 2),
            ]
            for call in wrong:
                with pytest.raises(ValueError):
                    call()
