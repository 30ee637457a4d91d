"""Checkpoints of either version, by what is there under their name."""

from __future__ import annotations

import os
from typing import TypeAlias

from tideflow.formats.access import matching
from tideflow.formats.bundle_files import index_path
from tideflow.formats.slice_file import SliceFiles
from tideflow.formats.tensor_bundle import BundleReader

CheckpointFiles: TypeAlias = BundleReader | SliceFiles


def is_slice_file(prefix: str) -> bool:
    """Whether a name is that of a checkpoint of the first version: a file, or files that match."""
    return not os.path.exists(index_path(prefix)) and bool(matching(prefix))


def open_checkpoint(prefix: str) -> CheckpointFiles:
    """Return what reads the tensors of a checkpoint.  Use it as a context manager.

    Raises: NotFoundError when there is none; DataLossError for a damaged one.
    """
    return SliceFiles(prefix) if is_slice_file(prefix) else BundleReader(prefix)
