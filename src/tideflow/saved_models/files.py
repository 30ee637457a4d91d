"""The files of a saved model: where they are, and reading and writing the message of the model.

Source: tensorflow/python/saved_model/loader_impl.py, path_helpers.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from tideflow.formats import AtomicFile, file_errors
from tideflow.ops.export import export, export_v2
from tideflow.saved_models import constants
from tideflow.wire import errors
from tideflow.wire import messages as pb


def variables_path(export_dir: str) -> str:
    """Return the prefix of the checkpoint of a saved model."""
    return os.path.join(export_dir, constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME)


def asset_path(export_dir: str, name: str) -> str:
    """Return where a saved model keeps the copy of a file."""
    return os.path.join(export_dir, constants.ASSETS_DIRECTORY, name)


def model_path(export_dir: str, as_text: bool = False) -> str:
    """Return the path of the model's message."""
    names = constants.SAVED_MODEL_FILENAME_PB, constants.SAVED_MODEL_FILENAME_PBTXT
    return os.path.join(export_dir, names[as_text])


@export(
    "saved_model.contains_saved_model",
    "saved_model.maybe_saved_model_directory",
    "saved_model.loader.maybe_saved_model_directory",
)
@export_v2("saved_model.contains_saved_model")
def contains_saved_model(export_dir: str) -> bool:
    """Whether there is a saved model in a directory."""
    folder = os.fspath(export_dir)
    return any(os.path.exists(model_path(folder, as_text)) for as_text in (False, True))


@export_v2("__internal__.saved_model.parse_saved_model")
def parse_saved_model(export_dir: str) -> pb.SavedModel:
    """Return the message of a saved model.

    Raises: OSError where there is none; DataLossError for a file that holds no such message.
    """
    folder = os.fspath(export_dir)
    path = model_path(folder)
    if os.path.exists(path):
        with file_errors("read", path), open(path, "rb") as file:
            data = file.read()
        try:
            found = pb.SavedModel.FromString(data)
        except DecodeError as error:
            raise errors.DataLossError(
                f"{path} ({len(data)} bytes) holds no saved model, or only a part of one: {error}"
            ) from error
    else:
        path = model_path(folder, as_text=True)
        if not os.path.exists(path):
            raise OSError(
                f"SavedModel file does not exist at: {folder}/"
                f"{{{constants.SAVED_MODEL_FILENAME_PBTXT}|{constants.SAVED_MODEL_FILENAME_PB}}}"
            )
        found = _parse_text(path)
    if not found.meta_graphs:
        raise errors.DataLossError(f"{path} holds a saved model without any graph")
    return found


def _parse_text(path: str) -> pb.SavedModel:
    with file_errors("read", path), open(path, "rb") as file:
        data = file.read()
    try:
        return text_format.Parse(data.decode(), pb.SavedModel())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise errors.DataLossError(f"{path} holds no saved model as text: {error}") from error


def write_saved_model(model_pb: pb.SavedModel, export_dir: str, as_text: bool = False) -> str:
    """Write the message of a saved model; returns the path of the file."""
    path = model_path(export_dir, as_text)
    with AtomicFile(path) as file:
        if as_text:
            file.write(text_format.MessageToString(model_pb).encode())
        else:
            file.write(model_pb.SerializeToString(deterministic=True))
    return path


def meta_graph_with_tags(
    model_pb: pb.SavedModel, tags: Iterable[str] | None, export_dir: str
) -> pb.MetaGraphDef:
    """Return the graph of a saved model that has just these tags; the only one for None.

    Raises: RuntimeError where there is none.
    """
    known = [sorted(meta_pb.meta_info_def.tags) for meta_pb in model_pb.meta_graphs]
    if tags is None and len(known) == 1:
        return model_pb.meta_graphs[0]
    wanted = sorted([tags] if isinstance(tags, str) else tags or ())
    for meta_pb, own in zip(model_pb.meta_graphs, known):
        if own == wanted:
            return meta_pb
    raise RuntimeError(
        f"MetaGraphDef associated with tags {', '.join(map(repr, wanted))} could not be found in "
        f"SavedModel {export_dir}, with available tags '{known}'. To inspect available tag-sets "
        f"in the SavedModel, use `tideflow model show {export_dir}`."
    )
