"""Files and their formats, without a graph: file system, records, bundles, tables, PNG, hashes.

Everything here raises the protocol's errors (tideflow.wire.errors) and knows nothing of ops."""

from __future__ import annotations

from tideflow.formats.access import matching, open_file, permitted
from tideflow.formats.bundle_files import index_path
from tideflow.formats.checkpoint_files import is_slice_file, open_checkpoint
from tideflow.formats.compressed_element import (
    CompressedElement,
    compress_element,
    uncompress_element,
)
from tideflow.formats.files import AtomicFile, file_errors, path_of
from tideflow.formats.hashes import fingerprint64, fingerprint128, siphash
from tideflow.formats.inflating import inflate
from tideflow.formats.png import encode_png
from tideflow.formats.progress import FileProgress
from tideflow.formats.records import (
    RECORD_OVERHEAD_BYTES,
    WINDOW_BITS,
    FileRecords,
    RecordFile,
    RecordWriter,
    check_fixed_length,
    compressor_of,
    fixed_length_records,
    framed,
    text_lines,
    tf_records,
)
from tideflow.formats.slice_file import SliceFiles, SliceFileWriter
from tideflow.formats.snapshot_files import (
    SnapshotFiles,
    StreamFiles,
    make_directory,
    write_whole,
)
from tideflow.formats.tensor_bundle import BundleReader, BundleWriter, merge_bundles

__all__ = [
    "RECORD_OVERHEAD_BYTES",
    "WINDOW_BITS",
    "AtomicFile",
    "BundleReader",
    "BundleWriter",
    "CompressedElement",
    "FileProgress",
    "FileRecords",
    "RecordFile",
    "RecordWriter",
    "SliceFileWriter",
    "SliceFiles",
    "SnapshotFiles",
    "StreamFiles",
    "check_fixed_length",
    "compress_element",
    "compressor_of",
    "encode_png",
    "file_errors",
    "fingerprint64",
    "fingerprint128",
    "fixed_length_records",
    "framed",
    "index_path",
    "inflate",
    "is_slice_file",
    "make_directory",
    "matching",
    "merge_bundles",
    "open_checkpoint",
    "open_file",
    "path_of",
    "permitted",
    "siphash",
    "text_lines",
    "tf_records",
    "uncompress_element",
    "write_whole",
]
