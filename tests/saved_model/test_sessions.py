"""Saved models of sessions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tideflow.v1 as v1
from saved_model.session_programs import (
    FEEDS,
    X,
    save_simply,
    save_with_table,
    use_signatures,
)
from tideflow.wire import messages as pb


def test_a_graph_with_variables_tables_and_files_is_loaded(tmp_path: Path) -> None:
    folder = str(tmp_path / "model")
    save_with_table(v1, str(tmp_path), folder)
    (tmp_path / "words.txt").unlink()
    found = use_signatures(v1, folder, ["serve"], FEEDS)
    np.testing.assert_allclose(found["serving_default"]["y"], [[12.0], [26.0]])
    np.testing.assert_array_equal(found["ids"]["ids"], [1, -1, 0])
    train = use_signatures(v1, folder, ["train"], {"serving_default": {"x": X}})
    np.testing.assert_allclose(train["serving_default"]["y"], [[12.0], [26.0]])


def test_simple_save_has_one_signature(tmp_path: Path) -> None:
    save_simply(v1, str(tmp_path / "model"))
    found = use_signatures(v1, str(tmp_path / "model"), ["serve"], {"serving_default": {"x": X}})
    np.testing.assert_allclose(found["serving_default"]["y"], [[8.0], [18.0]])
    assert v1.saved_model.contains_saved_model(str(tmp_path / "model"))
    assert not v1.saved_model.contains_saved_model(str(tmp_path))


def test_a_model_is_loaded_below_a_scope(tmp_path: Path) -> None:
    save_simply(v1, str(tmp_path / "model"))
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        meta = v1.saved_model.load(session, ["serve"], str(tmp_path / "model"), import_scope="s")
        signature = meta.signature_def["serving_default"]
        x = v1.saved_model.get_tensor_from_tensor_info(signature.inputs["x"], import_scope="s")
        y = v1.saved_model.get_tensor_from_tensor_info(signature.outputs["y"], import_scope="s")
        assert x.name == "s/x:0"
        np.testing.assert_allclose(session.run(y, {x: X}), [[8.0], [18.0]])


def test_other_tags_are_refused(tmp_path: Path) -> None:
    save_simply(v1, str(tmp_path / "model"))
    with v1.Session(graph=v1.Graph()) as session:
        with pytest.raises(RuntimeError, match=r"tags 'gpu' could not be found.*\['serve'\]"):
            v1.saved_model.load(session, ["gpu"], str(tmp_path / "model"))


def test_a_directory_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AssertionError, match="already exists, and isn't empty"):
        v1.saved_model.Builder(str(tmp_path))


def test_graphs_come_in_order(tmp_path: Path) -> None:
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        builder = v1.saved_model.Builder(str(tmp_path / "model"))
        with pytest.raises(AssertionError, match="has not been saved yet"):
            builder.add_meta_graph(["serve"])
        builder.add_meta_graph_and_variables(session, ["serve"])
        with pytest.raises(AssertionError, match="has already been saved"):
            builder.add_meta_graph_and_variables(session, ["serve"])


def test_signatures_must_name_tensors(tmp_path: Path) -> None:
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        builder = v1.saved_model.Builder(str(tmp_path / "model"))
        nameless = v1.saved_model.build_signature_def({"x": pb.TensorInfo()}, {}, "m")
        with pytest.raises(AssertionError, match="name field set"):
            builder.add_meta_graph_and_variables(session, ["serve"], {"s": nameless})
        with pytest.raises(TypeError, match="to be an Operation"):
            builder.add_meta_graph_and_variables(session, ["serve"], main_op=3)  # type: ignore[arg-type]


def test_which_signatures_are_valid() -> None:
    with v1.Graph().as_default():
        text, number = v1.placeholder(v1.string, []), v1.placeholder(v1.float32, [])
        saved_model = v1.saved_model
        assert saved_model.is_valid_signature(saved_model.regression_signature_def(text, number))
        assert saved_model.is_valid_signature(
            saved_model.classification_signature_def(text, text, number)
        )
        assert saved_model.is_valid_signature(
            saved_model.predict_signature_def({"x": number}, {"y": text})
        )
        assert not saved_model.is_valid_signature(saved_model.build_signature_def())
        with pytest.raises(ValueError, match="must be of type string"):
            saved_model.regression_signature_def(number, number)
        with pytest.raises(ValueError, match="must be of type float"):
            saved_model.regression_signature_def(text, text)


def test_a_method_name_is_replaced(tmp_path: Path) -> None:
    folder = str(tmp_path / "model")
    save_simply(v1, folder)
    updater = v1.saved_model.signature_def_utils.MethodNameUpdater(folder)
    updater.replace_method_name("serving_default", "other", tags="serve")
    updater.save()
    with v1.Session(graph=v1.Graph()) as session:
        meta = v1.saved_model.load(session, ["serve"], folder)
    assert meta.signature_def["serving_default"].method_name == "other"
    with pytest.raises(ValueError, match="does not have a signature_def"):
        updater.replace_method_name("unknown", "other")
