"""Graphs and meta graphs in files."""

from __future__ import annotations

from tideflow.train.graphs.collection_protos import register_proto_function
from tideflow.train.graphs.graph_io import write_graph
from tideflow.train.graphs.meta_graph import (
    TENSORFLOW_VERSION,
    as_meta_graph_def,
    export_scoped_meta_graph,
    import_scoped_meta_graph,
    strip_default_attrs,
    with_scope,
    without_scope,
)

__all__ = [
    "TENSORFLOW_VERSION",
    "as_meta_graph_def",
    "export_scoped_meta_graph",
    "import_scoped_meta_graph",
    "register_proto_function",
    "strip_default_attrs",
    "with_scope",
    "without_scope",
    "write_graph",
]
