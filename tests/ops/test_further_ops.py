"""Ops that other tests only compare with TensorFlow, by what a user sees of them."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf


def run(made):
    with tf.Session() as session:
        return session.run(made)


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def test_a_script_is_icus_number_of_it():
    assert run(tf.strings.unicode_script([97, 0x3B1, 0x4E00, -1])).tolist() == [25, 14, 17, -1]


def test_audio_comes_back_from_a_file():
    audio = np.float32([[0.5, -0.25], [0, 2]])
    found, rate = run(tf.audio.decode_wav(tf.audio.encode_wav(audio, 8000)))
    assert rate == 8000
    np.testing.assert_allclose(found, [[0.5, -0.25], [0, 32767 / 32768]])


def test_boxes_are_drawn_in_the_colors_given():
    image = np.zeros((1, 3, 3, 1), np.float32)
    drawn = run(tf.image.draw_bounding_boxes(image, [[[0, 0, 1, 1]]], colors=[[0.5]]))
    assert drawn[0, :, :, 0].tolist() == [[0.5, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0.5]]


def test_a_glimpse_is_taken_around_its_offset():
    image = np.arange(25, dtype=np.float32).reshape(1, 5, 5, 1)
    found = run(tf.image.extract_glimpse(image, [1, 3], [[0, 0]]))
    assert found[0, :, :, 0].tolist() == [[11, 12, 13]]


def test_windows_of_volumes_are_laid_flat():
    volume = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2, 1)
    found = run(tf.extract_volume_patches(volume, [1, 2, 1, 2, 1], [1] * 5, "VALID"))
    assert found[0, 0, :, 0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]


def test_a_sparse_tensor_comes_back_from_strings():
    made = tf.raw_ops.SerializeSparse(
        sparse_indices=[[0, 1]], sparse_values=["a"], sparse_shape=[2, 3]
    )
    found = tf.raw_ops.DeserializeSparse(serialized_sparse=made, dtype=tf.string)
    assert [part.tolist() for part in run(list(found))] == [[[0, 1]], [b"a"], [2, 3]]


def test_who_takes_what_is_not_staged_waits_for_it():
    area = {"dtypes": [tf.int32], "shared_name": "waited"}
    take = tf.raw_ops.MapUnstage(key=7, indices=[0], **area)
    put = tf.raw_ops.MapStage(key=7, indices=[0], values=[5], **area)
    # Both are of one step: whichever comes first, the value arrives.
    with tf.Session() as session:
        assert session.run([take, put])[0] == [5]


def test_a_barrier_keeps_keys_apart_until_they_are_complete():
    held = tf.raw_ops.Barrier(component_types=[tf.int32, tf.int32], shapes=[[], []])
    inserts = [
        tf.raw_ops.BarrierInsertMany(
            handle=held, keys=["a", "b"][i:], values=[1, 2][i:], component_index=i
        )
        for i in range(2)
    ]
    taken = tf.raw_ops.BarrierTakeMany(
        handle=held, num_elements=1, component_types=[tf.int32, tf.int32]
    )
    with tf.Session() as session:
        _, _, (_, keys, values) = session.run([*inserts, taken])
    assert keys.tolist() == [b"b"]
    assert [part.tolist() for part in values] == [[2], [2]]


def test_a_picture_comes_back_from_a_file():
    pytest.importorskip("PIL.Image")
    pixels = np.full((8, 8, 3), [250, 20, 30], np.uint8)
    file = tf.image.encode_jpeg(pixels, quality=100, chroma_downsampling=False)
    found = run([tf.image.decode_jpeg(file), tf.image.decode_image(file), file])
    for one in found[:2]:
        assert one.shape == (8, 8, 3)
        assert np.abs(one.astype(int) - pixels).max() <= 2
    assert run(tf.image.extract_jpeg_shape(found[2])).tolist() == [8, 8, 3]


def test_a_picture_of_another_format_is_read_too():
    file = run(tf.image.encode_png(np.uint8([[[1, 2, 3]]])))
    assert run(tf.image.decode_jpeg(file)).tolist() == [[[1, 2, 3]]]


def test_a_queue_by_reference_keeps_its_order():
    queue = tf.raw_ops.FIFOQueue(component_types=[tf.int32], shapes=[[]])
    put = tf.raw_ops.QueueEnqueueMany(handle=queue, components=[[1, 2, 3]])
    take = tf.raw_ops.QueueDequeueMany(handle=queue, n=2, component_types=[tf.int32])
    with tf.Session() as session:
        session.run(put)
        assert session.run(take)[0].tolist() == [1, 2]


def test_a_table_is_filled_from_a_file(tmp_path):
    path = tmp_path / "words"
    path.write_text("one\ntwo\n")
    table = tf.raw_ops.HashTable(key_dtype=tf.string, value_dtype=tf.int64)
    fill = tf.raw_ops.InitializeTableFromTextFile(
        table_handle=table, filename=str(path), key_index=-2, value_index=-1
    )
    found = tf.raw_ops.LookupTableFind(
        table_handle=table, keys=["two", "three"], default_value=np.int64(-1)
    )
    with tf.Session() as session:
        session.run(fill)
        assert session.run(found).tolist() == [1, -1]


def test_the_first_versions_of_diagonals_know_the_main_one():
    made = run(tf.raw_ops.MatrixDiag(diagonal=[1, 2]))
    assert made.tolist() == [[1, 0], [0, 2]]
    assert run(tf.raw_ops.MatrixDiagPart(input=made)).tolist() == [1, 2]


def test_pools_take_their_windows_as_inputs():
    image = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
    sizes = tf.constant([1, 2, 2, 1])
    made = tf.raw_ops.MaxPoolV2(input=image, ksize=sizes, strides=sizes, padding="VALID")
    assert run(made).ravel().tolist() == [5, 7, 13, 15]
    slope = run(tf.gradients(made, image)[0])
    assert slope.sum() == 4
    assert slope[0, 1, 1, 0] == 1


def test_products_and_solutions_of_few_diagonals_undo_each_other():
    lower = np.float32([[2, 2, 2], [0, 1, 1]])
    rhs = np.float32([[1], [2], [3]])
    found = tf.linalg.banded_triangular_solve(lower, rhs)
    none = np.zeros((1, 3), np.float32)
    again = tf.raw_ops.TridiagonalMatMul(
        superdiag=none, maindiag=lower[:1], subdiag=lower[1:], rhs=found
    )
    assert run(again).tolist() == rhs.tolist()


def test_the_best_boxes_of_all_classes():
    boxes = np.float32([[[[0, 0, 1, 1]], [[0, 0, 1, 0.9]], [[2, 2, 3, 3]]]])
    scores = np.float32([[[0.5, 0.1], [0.9, 0.2], [0.3, 0.8]]])
    made = tf.image.combined_non_max_suppression(
        boxes, scores, 2, 3, iou_threshold=0.5, score_threshold=0.15, clip_boxes=False
    )
    found = run(list(made))
    np.testing.assert_allclose(found[1], [[0.9, 0.8, 0.3]])
    assert found[2].tolist() == [[0, 1, 0]]
    assert found[3].tolist() == [3]
    assert found[0][0, 1].tolist() == [2, 2, 3, 3]


def test_levels_of_each_channel():
    made = tf.quantization.fake_quant_with_min_max_vars_per_channel(
        [[0.3, 9.0], [0.7, -9.0]], [0.0, -3.0], [1.0, 0.0], num_bits=2
    )
    np.testing.assert_allclose(run(made), [[1 / 3, 0], [2 / 3, -3]], rtol=1e-6)


def test_the_order_of_sizes_follows_the_layout():
    made = tf.raw_ops.DataFormatVecPermute(x=[1, 2, 3, 4], src_format="NHWC", dst_format="NCHW")
    assert run(made).tolist() == [1, 4, 2, 3]
    assert run(tf.raw_ops.DataFormatDimMap(x=[3, -1])).tolist() == [1, 1]


def test_the_nth_of_each_row_shares_its_gradient_with_its_equals():
    x = tf.constant([[3.0, 1.0, 3.0, 2.0]])
    made = tf.raw_ops.NthElement(input=x, n=0, reverse=True)
    assert run(made).tolist() == [3]
    assert run(tf.gradients(made, x)[0]).tolist() == [[0.5, 0, 0.5, 0]]


def test_regions_of_drawn_sizes_are_the_same_for_the_same_seeds():
    image = np.arange(70, dtype=np.float32).reshape(1, 10, 7, 1)
    ratio = [1.0, 1.44, 1.73, 1.0]
    made = [
        run(list(tf.nn.fractional_max_pool(image, ratio, deterministic=True, seed=1, seed2=3)))
        for _ in range(2)
    ]
    for one, other in zip(*made, strict=True):
        assert one.tolist() == other.tolist()
    pooled, rows, columns = made[0]
    assert pooled.shape == (1, 6, 4, 1)
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (0, 10, 0, 7)
    assert pooled[0, -1, -1, 0] == 69


def test_an_image_is_moved_and_filled():
    image = np.float32([[1, 2], [3, 4]]).reshape(1, 2, 2, 1)
    made = tf.raw_ops.ImageProjectiveTransformV3(
        images=image,
        transforms=np.float32([[1, 0, 1, 0, 1, 0, 0, 0]]),
        output_shape=[2, 2],
        fill_value=9.0,
        interpolation="BILINEAR",
    )
    assert run(made)[0, :, :, 0].tolist() == [[2, 9], [4, 9]]


def test_a_sequence_of_a_cell_is_its_steps():
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(2, 1, 3)).astype(np.float32)
    w = numbers.normal(size=(5, 8)).astype(np.float32)
    state, peep, b = np.zeros((1, 2), np.float32), np.zeros(2, np.float32), np.zeros(8, np.float32)
    shared = {"w": w, "wci": peep, "wcf": peep, "wco": peep, "b": b}
    whole = tf.raw_ops.BlockLSTM(
        seq_len_max=np.int64(2), x=x, cs_prev=state, h_prev=state, cell_clip=-1.0, **shared
    )
    first = tf.raw_ops.LSTMBlockCell(x=x[0], cs_prev=state, h_prev=state, cell_clip=-1.0, **shared)
    second = tf.raw_ops.LSTMBlockCell(
        x=x[1], cs_prev=first[1], h_prev=first[6], cell_clip=-1.0, **shared
    )
    found, steps = run(whole[6]), run([first[6], second[6]])
    np.testing.assert_allclose(found, steps, rtol=1e-6)


def test_json_becomes_a_record():
    text = '{"features": {"feature": {"a": {"int64List": {"value": [3, "-4"]}}}}}'
    record = tf.train.Example.FromString(run(tf.io.decode_json_example(text)))
    assert list(record.features.feature["a"].int64_list.value) == [3, -4]
    with pytest.raises(tf.errors.InvalidArgumentError, match="JSON"):
        run(tf.io.decode_json_example("{"))
