"""Saved models of sessions: `tf.saved_model.Builder` and `simple_save`.

Source: tensorflow/python/saved_model/builder_impl.py, simple_save.py, main_op_impl.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import any_pb2

from tideflow.client.session import Session
from tideflow.formats import file_errors
from tideflow.graph.graph import Operation, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.control_flow import group
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import get_static_value
from tideflow.ops.state.api import global_variables_initializer, local_variables_initializer
from tideflow.ops.state.initial_state import tables_initializer
from tideflow.saved_models import constants
from tideflow.saved_models.files import asset_path, variables_path, write_saved_model
from tideflow.saved_models.tensor_infos import operation_info, tensor_info
from tideflow.saved_models.v1.signature_defs import predict_signature_def
from tideflow.saved_models.written_graph import unused_name
from tideflow.train.checkpoints import Saver, all_saveable_objects
from tideflow.train.graphs import export_scoped_meta_graph
from tideflow.wire import messages as pb

# As TensorFlow names the message of a file in collections.
_ASSET_URL = "type.googleapis.com/tensorflow.AssetFileDef"


@export("saved_model.Builder", "saved_model.builder.SavedModelBuilder")
@export_v2("__internal__.saved_model.SavedModelBuilder")
class SavedModelBuilder:
    """Builds a saved model of graphs, the first of them with the values of its variables.

    Args:
      export_dir: the directory, which must be empty or not be there.
    Raises: AssertionError for one with files in it.
    """

    def __init__(self, export_dir: str) -> None:
        self._model_pb = pb.SavedModel(
            saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION
        )
        self._export_dir = os.fspath(export_dir)
        self._has_saved_variables = False
        with file_errors("make the directory", self._export_dir):
            if os.path.isdir(self._export_dir) and os.listdir(self._export_dir):
                raise AssertionError(
                    f"Export directory {self._export_dir} already exists, and isn't empty. Please "
                    "choose a different export directory, or delete all the contents of the "
                    f"specified directory: {os.listdir(self._export_dir)}"
                )
            os.makedirs(self._export_dir, exist_ok=True)

    def add_meta_graph_and_variables(
        self,
        sess: Session,
        tags: Iterable[str],
        signature_def_map: Mapping[str, Any] | None = None,
        assets_collection: Any = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Add the default graph, and write the values that its variables have in a session.

        Args:
          signature_def_map: signatures by name.
          assets_collection: constants that are paths of files, to be copied.
          legacy_init_op, main_op: runs when the model has been loaded.
          clear_devices: leave out where nodes are to be placed.
          strip_default_attrs: leave out attrs that have their defaults, for older readers.
          saver: writes the variables; one for all of them by default.
        Raises: AssertionError for a second call; as add_meta_graph.
        """
        if self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke "
                "`add_meta_graph()` instead."
            )
        prepared = self._prepared(signature_def_map, assets_collection, main_op or legacy_init_op)
        chosen = _saver(saver)
        prefix = variables_path(self._export_dir)
        os.makedirs(os.path.dirname(prefix), exist_ok=True)
        chosen.save(sess, prefix, write_meta_graph=False, write_state=False)
        self._add(tags, prepared, clear_devices, strip_default_attrs, chosen)
        self._has_saved_variables = True

    def add_meta_graph(
        self,
        tags: Iterable[str],
        signature_def_map: Mapping[str, Any] | None = None,
        assets_collection: Any = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Add the default graph; its variables are those of the first one.

        The arguments are those of add_meta_graph_and_variables.
        Raises: AssertionError where there is no first one, or for signatures that name no tensors;
        TypeError for what is no operation.
        """
        if not self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first."
            )
        prepared = self._prepared(signature_def_map, assets_collection, main_op or legacy_init_op)
        self._add(tags, prepared, clear_devices, strip_default_attrs, _saver(saver))

    def _prepared(
        self, signatures: Mapping[str, Any] | None, assets: Any, main_op: Operation | None
    ) -> dict[str, Any]:
        """Return the signatures, with what runs first; copy files and fill collections."""
        found = dict(signatures or {})
        _check_signatures(found)
        self._add_assets(assets)
        if main_op is not None:
            if not isinstance(main_op, Operation):
                raise TypeError(
                    f"Expected {main_op!r} to be an Operation but got type {type(main_op)}"
                )
            get_default_graph().add_to_collection(constants.MAIN_OP_KEY, main_op)
            first = pb.SignatureDef()
            key = constants.INIT_OP_SIGNATURE_KEY
            first.outputs[key].CopyFrom(operation_info(main_op))
            found[key] = first
        return found

    def _add_assets(self, assets: Any) -> None:
        taken: dict[str, str] = {}
        for tensor in assets or ():
            path = get_static_value(tensor)
            if path is None:
                raise ValueError(
                    f"Unable to find the path of the asset {tensor!r}: it is no constant"
                )
            source = path.item().decode() if hasattr(path, "item") else os.fsdecode(path)
            name = unused_name(source, taken)
            taken[name] = source
            file_pb = pb.AssetFileDef(filename=name)
            file_pb.tensor_info.name = tensor_info(tensor).name
            held = any_pb2.Any(type_url=_ASSET_URL, value=file_pb.SerializeToString())
            get_default_graph().add_to_collection(constants.ASSETS_KEY, held)
            target = asset_path(self._export_dir, name)
            with file_errors("copy", source):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copyfile(source, target)

    def _add(
        self,
        tags: Iterable[str],
        signatures: Mapping[str, Any],
        clear_devices: bool,
        strip_default_attrs: bool,
        saver: Saver,
    ) -> None:
        meta_pb, _ = export_scoped_meta_graph(
            clear_devices=clear_devices,
            saver_def=saver.as_saver_def(),
            strip_default_attrs=strip_default_attrs,
        )
        meta_pb.meta_info_def.tags.extend(tags)
        for name, signature in signatures.items():
            meta_pb.signature_def[name].CopyFrom(signature)
        self._model_pb.meta_graphs.append(meta_pb)

    def save(
        self,
        as_text: bool = False,
        experimental_image_format: bool = False,
        experimental_image_writer_options: Any = None,
    ) -> str:
        """Write the graphs; returns the path of the file.

        as_text: as text that people can read; the other arguments change nothing.
        """
        return write_saved_model(self._model_pb, self._export_dir, as_text)


def _saver(given: Saver | None) -> Saver:
    has_state = bool(all_saveable_objects())
    return given or Saver(sharded=has_state, allow_empty=True)


def _check_signatures(signatures: Mapping[str, Any]) -> None:
    """Raise AssertionError for signatures that name no tensors, KeyError for our own."""
    for key, signature in signatures.items():
        if key in (constants.INIT_OP_SIGNATURE_KEY, constants.TRAIN_OP_SIGNATURE_KEY):
            raise KeyError(f'SignatureDef map key "{key}" is reserved for internal use.')
        for info in [*signature.inputs.values(), *signature.outputs.values()]:
            encoding = info.WhichOneof("encoding")
            if encoding is None or (encoding == "name" and not info.name):
                raise AssertionError(
                    "All TensorInfo protos used in the SignatureDefs must have the name field set: "
                    f"{info}"
                )
            if encoding != "composite_tensor" and not info.dtype:
                raise AssertionError(
                    "All TensorInfo protos used in the SignatureDefs must have the dtype field set"
                    f": {info}"
                )


@export("saved_model.simple_save")
def simple_save(
    session: Session,
    export_dir: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy_init_op: Operation | None = None,
) -> None:
    """Write the default graph and the variables of a session, with one signature for serving."""
    builder = SavedModelBuilder(export_dir)
    signature = predict_signature_def(inputs, outputs)
    builder.add_meta_graph_and_variables(
        session,
        [constants.SERVING],
        {constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
        get_default_graph().get_collection(GraphKeys.ASSET_FILEPATHS),
        main_op=legacy_init_op,
        clear_devices=True,
    )
    builder.save()


@export("saved_model.main_op.main_op")
def main_op() -> Operation:
    """Return an operation that initializes variables and tables."""
    return group(
        global_variables_initializer(), local_variables_initializer(), tables_initializer()
    )


@export("saved_model.main_op_with_restore", "saved_model.main_op.main_op_with_restore")
def main_op_with_restore(restore_op_name: Any) -> Operation:
    """Return an operation that initializes variables and tables, and then runs another one."""
    graph = get_default_graph()
    with graph.control_dependencies([main_op()]):
        return group(graph.as_graph_element(restore_op_name))
