"""Files beside the program's: `tf.resource_loader`.

Source: tensorflow/python/platform/resource_loader.py for names and rules.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import tideflow
from tideflow.ops.export import export


def _directory_of_caller() -> str:
    """Return the directory of the file that called a function of this module."""
    frame = inspect.currentframe()
    for _ in range(2):
        assert frame is not None
        frame = frame.f_back
    assert frame is not None
    return os.path.dirname(inspect.getfile(frame))


@export("resource_loader.get_data_files_path")
def get_data_files_path() -> str:
    """Return the directory of the file that calls this."""
    return _directory_of_caller()


@export("resource_loader.get_root_dir_with_all_resources")
def get_root_dir_with_all_resources() -> str:
    """Return the directory of the file that calls this: there are no other resources."""
    return _directory_of_caller()


@export("resource_loader.get_path_to_datafile")
def get_path_to_datafile(path: str) -> str:
    """Return a path, given from the directory of the file that calls this."""
    return os.path.join(_directory_of_caller(), path)


@export("resource_loader.load_resource")
def load_resource(path: str) -> bytes:
    """Return what a file holds, given by its path from the installed package."""
    assert tideflow.__file__ is not None
    return Path(tideflow.__file__).parent.joinpath(path).read_bytes()


@export("resource_loader.readahead_file_path")
def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """Return the path: nothing is read ahead."""
    return path
