"""Bundles without graphs: what is written is read, damage is found, and nothing is held twice."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.formats import BundleReader, BundleWriter, merge_bundles
from tideflow.formats.sorted_table import read_table, write_table
from tideflow.graph.building import apply_op
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.checksum import extend, masked
from tideflow.wire.handles import Variant
from tideflow.wire.tensor_slice import slice_key

FLOAT, STRING = dtypes.float32, dtypes.string
TENSOR = pb.TensorProto(dtype=1)


def write(prefix, **values):
    with BundleWriter(str(prefix)) as writer:
        for name, value in values.items():
            writer.add(name, np.asarray(value), dtypes.dtype_of(np.asarray(value)))


def test_a_tensor_is_read_as_it_was_written(tmp_path):
    write(tmp_path / "x", a=np.float32(3), b=np.array([b"p", b""], object))
    with BundleReader(str(tmp_path / "x")) as reader:
        assert reader.names() == ["a", "b"]
        assert reader.describe("b") == (STRING, (2,))
        assert reader.read("a") == np.float32(3)
        assert reader.read("b").tolist() == [b"p", b""]
        assert "c" not in reader
        with pytest.raises(errors.NotFoundError, match="Key c not found"):
            reader.read("c")


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="enough"):
        with BundleWriter(str(tmp_path / "x")) as writer:
            writer.add("a", np.ones(9, np.float32), FLOAT)
            raise RuntimeError("enough")
    assert not list(tmp_path.iterdir())


def test_an_older_checkpoint_of_the_name_stays_until_the_new_one_is_whole(tmp_path):
    write(tmp_path / "x", a=np.float32(1))
    with BundleWriter(str(tmp_path / "x")) as writer:
        writer.add("a", np.float32(2), FLOAT)
        with BundleReader(str(tmp_path / "x")) as reader:
            assert reader.read("a") == 1
    with BundleReader(str(tmp_path / "x")) as reader:
        assert reader.read("a") == 2


def test_writing_and_reading_take_little_memory_beside_the_tensor(tmp_path):
    big = np.ones((4096, 4096), np.float32).T  # 64 MiB, not contiguous
    tracemalloc.start()
    write(tmp_path / "x", a=big)
    assert tracemalloc.get_traced_memory()[1] < big.nbytes // 10
    tracemalloc.reset_peak()
    with BundleReader(str(tmp_path / "x")) as reader:
        found = reader.read("a")
    assert tracemalloc.get_traced_memory()[1] < big.nbytes * 1.1
    tracemalloc.stop()
    assert found.shape == big.shape


def test_a_flipped_bit_names_file_tensor_and_checksum(tmp_path):
    write(tmp_path / "x", a=np.ones(9, np.float32))
    data = tmp_path / "x.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[5] ^= 1
    data.write_bytes(content)
    with BundleReader(str(tmp_path / "x")) as reader:
        with pytest.raises(errors.DataLossError, match=r"'a' in .*x\.data-00000.* checksum 0x"):
            reader.read("a")


VARIANTS = [Variant("one", b"x" * 300), Variant("two"), Variant("three", b"", (TENSOR,))]


def objects(*items, shape=None):
    made = np.empty(len(items), object)
    made[:] = items
    return made.reshape(made.shape if shape is None else shape)


@pytest.fixture
def variants(tmp_path):
    with BundleWriter(str(tmp_path / "x")) as writer:
        writer.add("a", objects(*VARIANTS), dtypes.variant)
        writer.add("b", VARIANTS[0], dtypes.variant)
        writer.add("c", objects(), dtypes.variant)
        writer.add("d", objects(*VARIANTS, VARIANTS[0], shape=(2, 2)), dtypes.variant)
    return tmp_path


def test_variants_are_read_as_they_were_written(variants):
    with BundleReader(str(variants / "x")) as reader:
        assert reader.read("a").tolist() == VARIANTS
        assert reader.read("b") == VARIANTS[0]
        assert reader.read("c").shape == (0,)
        assert reader.read("d")[1, 0] == VARIANTS[2]
        assert reader.describe("d") == (dtypes.variant, (2, 2))


def test_each_damaged_byte_of_a_variant_is_found(variants):
    data = variants / "x.data-00000-of-00001"
    whole = data.read_bytes()
    with BundleReader(str(variants / "x")) as reader:
        size = reader.stored_bytes("a")
    for place in (0, 1, 2, 50, size // 2, size - 5, size - 4, size - 1):
        data.write_bytes(whole[:place] + bytes([whole[place] ^ 0x81]) + whole[place + 1 :])
        with BundleReader(str(variants / "x")) as reader:
            with pytest.raises(errors.DataLossError, match="'a'"):
                reader.read("a")


def test_what_has_no_form_as_a_variant_is_refused(tmp_path):
    with pytest.raises(errors.UnimplementedError, match="'a' holds a object"):
        with BundleWriter(str(tmp_path / "x")) as writer:
            writer.add("a", object(), dtypes.variant)
    with pytest.raises(errors.UnimplementedError, match="'a' is a resource"):
        with BundleWriter(str(tmp_path / "x")) as writer:
            writer.add("a", np.empty((), object), dtypes.resource)


def test_slices_that_do_not_cover_what_is_wanted(tmp_path):
    with BundleWriter(str(tmp_path / "x")) as writer:
        writer.add_slice("a", (4, 2), ((0, 2), (0, None)), np.ones((2, 2), np.float32), FLOAT)
    with BundleReader(str(tmp_path / "x")) as reader:
        np.testing.assert_array_equal(reader.read_slice("a", ((1, 1), (0, 2))), np.ones((1, 2)))
        with pytest.raises(errors.NotFoundError, match="leave out 4"):
            reader.read("a")


def test_merging_onto_one_of_the_merged_keeps_it(tmp_path):
    write(tmp_path / "x", a=np.float32(1))
    merge_bundles([str(tmp_path / "x")], str(tmp_path / "x"))
    with BundleReader(str(tmp_path / "x")) as reader:
        assert reader.read("a") == 1


def test_a_table_gives_back_its_entries_and_notices_damage():
    entries = [(b"key%06d" % i, b"value" * (i % 90)) for i in range(5000)]
    data = b"".join(write_table(entries))
    assert list(read_table(data, "t")) == entries
    for at in range(0, len(data), 9973):
        spoiled = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        with pytest.raises(errors.DataLossError):
            list(read_table(spoiled, "t"))
    with pytest.raises(ValueError, match="ascend"):
        list(write_table([(b"b", b""), (b"a", b"")]))


@pytest.mark.parametrize("cut", [0, 10, 47, 60])
def test_a_table_that_was_cut_short_is_refused(cut):
    data = b"".join(write_table([(b"a", b"1")]))
    with pytest.raises(errors.DataLossError, match="cut short"):
        list(read_table(data[:cut], "t"))


def test_checksums_are_those_of_the_standard():
    assert extend(0, b"123456789") == 0xE3069283
    assert extend(extend(0, b"1234"), memoryview(b"56789")) == 0xE3069283
    assert masked(b"") == 0xA282EAD8


def test_keys_of_slices_sort_as_their_numbers():
    starts = [0, 1, 63, 64, 8191, 8192, 1 << 20, 1 << 40, (1 << 62) - 1]
    keys = [slice_key("a", ((start, 1),)) for start in starts]
    assert keys == sorted(keys)
    assert slice_key("a\0\u00ff", ((0, None),)) < slice_key("a\0\u00ff", ((0, 5),))


def test_a_program_saves_its_variables_and_restores_them(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=[1.0, 2.0])
        w = tf.get_variable("w", initializer=3, use_resource=True)
        prefix = str(tmp_path / "model")
        save = apply_op("SaveV2", prefix, ["v", "w"], ["", ""], [v, w])
        found = apply_op("RestoreV2", prefix, ["v", "w"], ["", ""], dtypes=[FLOAT, dtypes.int32])
        restore = tf.group(v.assign(found[0]), w.assign(found[1]))
        session.run(tf.global_variables_initializer())
        session.run(save)
        session.run(tf.group(v.assign([0.0, 0.0]), w.assign(0)))
        session.run(restore)
        assert [x.tolist() for x in session.run([v, w])] == [[1.0, 2.0], 3]


def test_the_shape_of_a_slice_is_known_before_it_is_read():
    with tf.Graph().as_default():
        found = apply_op(
            "RestoreV2", "x", ["a", "b"], ["4 6 0,2:-", ""], dtypes=[FLOAT, dtypes.int32]
        )
        assert found[0].shape.as_list() == [2, 6]
        assert found[1].shape.rank is None
        with pytest.raises(ValueError, match="leaves an axis"):
            apply_op("RestoreV2", "x", ["a"], ["4 6 3,2:-"], dtypes=[FLOAT])


def test_missing_tensors_are_listed(tmp_path):
    write(tmp_path / "x", a=np.float32(1))
    with tf.Graph().as_default(), tf.Session() as session:
        found = apply_op(
            "RestoreV2", str(tmp_path / "x"), ["a", "b", "c"], [""] * 3, dtypes=[FLOAT] * 3
        )
        with pytest.raises(errors.NotFoundError, match="it lacks b, c"):
            session.run(found)
