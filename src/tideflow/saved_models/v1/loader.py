"""Loading saved models into sessions: `tf.saved_model.loader.load`.

Source: tensorflow/python/saved_model/loader_impl.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from tideflow.client.session import Session
from tideflow.graph.graph import Graph, Operation
from tideflow.ops.export import export
from tideflow.saved_models import constants
from tideflow.saved_models.files import (
    asset_path,
    meta_graph_with_tags,
    parse_saved_model,
    variables_path,
)
from tideflow.train.checkpoints import Saver, checkpoint_exists, import_meta_graph
from tideflow.train.graphs import with_scope
from tideflow.wire import messages as pb


@export("saved_model.load", "saved_model.loader.load")
def load(
    sess: Session,
    tags: Iterable[str],
    export_dir: str,
    import_scope: str | None = None,
    **saver_kwargs: Any,
) -> pb.MetaGraphDef:
    """Load a graph of a saved model into a session: its nodes, values, files and tables.

    Args:
      sess: of this process or a cluster; its graph gets the nodes.
      tags: of the graph.
      import_scope: put all names below it.
      saver_kwargs: as import_meta_graph's.
    Returns: the message of the graph, with its signatures.
    Raises: OSError where there is no model; RuntimeError for other tags.
    """
    folder = os.fspath(export_dir)
    meta_pb = meta_graph_with_tags(parse_saved_model(folder), tags, folder)
    with sess.graph.as_default():
        saver = import_meta_graph(meta_pb, import_scope=import_scope, **saver_kwargs)
        restore_variables(sess, saver, folder)
        run_first(sess, meta_pb, folder, import_scope)
    return meta_pb


def restore_variables(sess: Session, saver: Saver | None, export_dir: str) -> None:
    """Give variables their values, if the model has any."""
    prefix = variables_path(export_dir)
    if saver is not None and checkpoint_exists(prefix):
        saver.restore(sess, prefix)


def run_first(
    sess: Session, meta_pb: pb.MetaGraphDef, export_dir: str, import_scope: str | None
) -> None:
    """Run what a model says to run when it has been loaded, with the paths of its files."""
    found = first_operation(meta_pb, sess.graph, import_scope)
    if found is not None:
        sess.run(found, asset_feeds(meta_pb, export_dir, import_scope))


def asset_feeds(
    meta_pb: pb.MetaGraphDef, export_dir: str, import_scope: str | None
) -> dict[str, str]:
    """Return the paths of the files of a model by the names of the tensors that take them."""
    files = list(meta_pb.asset_file_def)
    if constants.ASSETS_KEY in meta_pb.collection_def:
        held = meta_pb.collection_def[constants.ASSETS_KEY].any_list.value
        files += [pb.AssetFileDef.FromString(each.value) for each in held]
    return {
        with_scope(file_pb.tensor_info.name, import_scope): asset_path(export_dir, file_pb.filename)
        for file_pb in files
    }


def first_operation(
    meta_pb: pb.MetaGraphDef, graph: Graph, import_scope: str | None
) -> Operation | None:
    """Return what a model says to run when it has been loaded; None for nothing.

    Raises: RuntimeError where it says several.
    """
    key = constants.INIT_OP_SIGNATURE_KEY
    if key in meta_pb.signature_def:
        names = [meta_pb.signature_def[key].outputs[key].name]
    else:
        names = []
        for collection in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
            if not names and collection in meta_pb.collection_def:
                names = list(meta_pb.collection_def[collection].node_list.value)
    if len(names) > 1:
        raise RuntimeError(f"Expected exactly one main op in the graph, found {names}.")
    if not names:
        return None
    found = graph.as_graph_element(with_scope(names[0], import_scope))
    return found if isinstance(found, Operation) else found.op
