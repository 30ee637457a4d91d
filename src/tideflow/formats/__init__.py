"""Files and their formats, without a graph: file system, tensor bundles, sorted tables, PNG.

Everything here raises the protocol's errors (tideflow.wire.errors) and knows nothing of ops."""

from __future__ import annotations

from tideflow.formats.files import AtomicFile, StopSignal, file_errors, in_thread, path_of
from tideflow.formats.png import encode_png
from tideflow.formats.progress import FileProgress
from tideflow.formats.tensor_bundle import BundleReader, BundleWriter, index_path, merge_bundles

__all__ = [
    "AtomicFile",
    "BundleReader",
    "BundleWriter",
    "FileProgress",
    "StopSignal",
    "encode_png",
    "file_errors",
    "in_thread",
    "index_path",
    "merge_bundles",
    "path_of",
]
