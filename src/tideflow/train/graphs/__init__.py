"""Graphs and meta graphs in files."""

from __future__ import annotations

from tideflow.train.graphs.collection_protos import register_proto_function
from tideflow.train.graphs.graph_io import write_graph
from tideflow.train.graphs.meta_graph import (
    as_meta_graph_def,
    export_scoped_meta_graph,
    import_scoped_meta_graph,
    with_scope,
    without_scope,
)

__all__ = [
    "as_meta_graph_def",
    "export_scoped_meta_graph",
    "import_scoped_meta_graph",
    "register_proto_function",
    "with_scope",
    "without_scope",
    "write_graph",
]
