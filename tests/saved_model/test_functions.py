"""What loaded functions take, and what is said of models that cannot be loaded or saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tideflow as tf
from tideflow.wire import messages as pb


def scaled_model() -> Any:
    model = tf.Module()
    model.v = tf.Variable([1.0, 2.0], name="v")

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "Rows")])
    def scale(rows: Any, factor: float = 2.0) -> Any:
        return rows * model.v * factor

    model.scale = scale
    return model


def changed(folder: Path, change: Any) -> None:
    path = folder / "saved_model.pb"
    model_pb = pb.SavedModel.FromString(path.read_bytes())
    change(model_pb.meta_graphs[0])
    path.write_bytes(model_pb.SerializeToString())


def test_defaults_that_a_signature_leaves_out_are_kept(tmp_path: Path) -> None:
    tf.saved_model.save(scaled_model(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert loaded.scale(tf.ones([1, 2])).numpy().tolist() == [[2.0, 4.0]]
    signature = loaded.signatures["serving_default"]
    assert signature(Rows=tf.ones([1, 2]))["output_0"].numpy().tolist() == [[2.0, 4.0]]
    assert signature(tf.ones([1, 2]))["output_0"].shape == [1, 2]


def test_arguments_that_fit_no_trace_are_told(tmp_path: Path) -> None:
    tf.saved_model.save(scaled_model(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    with pytest.raises(ValueError, match="Could not find matching concrete function to call"):
        loaded.scale(tf.ones([3]))


def test_a_resource_that_the_model_does_not_hold_is_refused(tmp_path: Path) -> None:
    outside = tf.Variable(1.0)
    model = tf.Module()
    model.f = tf.function(lambda: outside + 1.0, input_signature=[])
    with pytest.raises(AssertionError, match="'untracked' resource"):
        tf.saved_model.save(model, str(tmp_path))


def test_what_is_no_trackable_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected an object of type `Trackable`"):
        tf.saved_model.save({"a": 1}, str(tmp_path))


def test_signatures_are_functions_that_give_tensors_by_name(tmp_path: Path) -> None:
    model = scaled_model()
    with pytest.raises(ValueError, match="Expected a TensorFlow function"):
        tf.saved_model.save(model, str(tmp_path), signatures=tf.function(lambda x: x))
    nested = tf.function(lambda: {"a": [tf.ones([])]}, input_signature=[])
    with pytest.raises(ValueError, match="Got a non-Tensor value"):
        tf.saved_model.save(model, str(tmp_path), signatures=nested)


def test_a_model_that_is_cut_off_is_told_with_its_file(tmp_path: Path) -> None:
    tf.saved_model.save(scaled_model(), str(tmp_path))
    path = tmp_path / "saved_model.pb"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(tf.errors.DataLossError, match=r"saved_model\.pb \(\d+ bytes\)"):
        tf.saved_model.load(str(tmp_path))


def test_a_value_that_is_altered_is_told_with_its_tensor(tmp_path: Path) -> None:
    tf.saved_model.save(scaled_model(), str(tmp_path))
    path = tmp_path / "variables" / "variables.data-00000-of-00001"
    data = bytearray(path.read_bytes())
    at = data.index(b"\x00\x00\x80\x3f\x00\x00\x00\x40")
    data[at + 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(tf.errors.DataLossError, match=r"v/\.ATTRIBUTES/VARIABLE_VALUE"):
        tf.saved_model.load(str(tmp_path))


def test_an_op_that_is_not_there_is_told_with_its_function(tmp_path: Path) -> None:
    tf.saved_model.save(scaled_model(), str(tmp_path))

    def rename(meta_pb: pb.MetaGraphDef) -> None:
        for function_pb in meta_pb.graph_def.library.function:
            for node_pb in function_pb.node_def:
                node_pb.op = node_pb.op.replace("Mul", "NoSuchOp")

    changed(tmp_path, rename)
    with pytest.raises(tf.errors.NotFoundError, match=r"'NoSuchOp' of node 'mul.* in function"):
        tf.saved_model.load(str(tmp_path))


def test_where_there_is_no_model_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="SavedModel file does not exist at"):
        tf.saved_model.load(str(tmp_path / "none"))
    assert not tf.saved_model.contains_saved_model(str(tmp_path))


def test_other_tags_are_refused(tmp_path: Path) -> None:
    options = tf.saved_model.SaveOptions(extra_tags=["mine"])
    tf.saved_model.save(scaled_model(), str(tmp_path), options=options)
    assert tf.saved_model.load(str(tmp_path), tags=["serve", "mine"]).v.shape == [2]
    with pytest.raises(ValueError, match="Got an incompatible argument to `tags`"):
        tf.saved_model.load(str(tmp_path), tags="gpu")


def test_options_of_loading(tmp_path: Path) -> None:
    model = scaled_model()
    options = tf.saved_model.SaveOptions(function_aliases={"scaled": model.scale})
    tf.saved_model.save(model, str(tmp_path), options=options)
    skipping = tf.saved_model.LoadOptions(experimental_skip_checkpoint=True)
    assert tf.saved_model.load(str(tmp_path), options=skipping).v.numpy().tolist() == [0.0, 0.0]
    naming = tf.saved_model.LoadOptions(experimental_load_function_aliases=True)
    loaded = tf.saved_model.load(str(tmp_path), options=naming)
    assert loaded.function_aliases["scaled"] is loaded.scale


def test_fingerprints_tell_models_apart(tmp_path: Path) -> None:
    tf.saved_model.save(scaled_model(), str(tmp_path / "one"))
    found = tf.saved_model.experimental.read_fingerprint(str(tmp_path / "one"))
    assert found.saved_model_checksum > 0
    assert found == tf.saved_model.experimental.read_fingerprint(str(tmp_path / "one"))
    assert len(found.singleprint().split("/")) == 4
    with pytest.raises(FileNotFoundError, match=r"fingerprint\.pb"):
        tf.saved_model.experimental.read_fingerprint(str(tmp_path))


def test_ops_of_other_namespaces_are_refused(tmp_path: Path) -> None:
    options = tf.saved_model.SaveOptions(namespace_whitelist=[])
    tf.saved_model.save(scaled_model(), str(tmp_path), options=options)
    assert tf.saved_model.load(str(tmp_path)).v.shape == [2]
