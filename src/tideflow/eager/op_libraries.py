"""Libraries of TensorFlow's ops, which cannot be loaded here, and what tells how it was built."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any, NoReturn

import tideflow
from tideflow.graph.graph import Tensor
from tideflow.ops.export import export, export_value
from tideflow.wire import errors

for _name in ("GRAPH_DEF_VERSION_MIN_PRODUCER", "version.GRAPH_DEF_VERSION_MIN_PRODUCER"):
    export_value(_name, 0)


@export("get_logger")
def get_logger() -> logging.Logger:
    """Return the logger that TensorFlow's programs write to."""
    return logging.getLogger("tensorflow")


@export("is_symbolic_tensor")
def is_symbolic_tensor(tensor: Tensor) -> bool:
    """Return whether a value is a tensor of a graph: it has no value yet."""
    return isinstance(tensor, Tensor) and not hasattr(tensor, "numpy")


# ---- libraries


@export("load_op_library")
def load_op_library(library_filename: str) -> NoReturn:
    """Refuse a library of ops: its kernels are code for TensorFlow's own runtime.

    Raises: NotFoundError where there is no such file; UnimplementedError.
    """
    if not os.path.exists(library_filename):
        raise errors.NotFoundError(
            f"{library_filename}: cannot open shared object file: No such file or directory"
        )
    _refuse(library_filename)


@export("load_library")
def load_library(library_location: str) -> None:
    """Refuse libraries of kernels, a file or those of a folder; a folder without any is accepted.

    Raises: OSError where there is no such path; UnimplementedError.
    """
    path = Path(library_location)
    if not path.exists():
        raise OSError(errno.ENOENT, "there is no file or folder to load libraries from", str(path))
    libraries = [p for p in path.iterdir() if ".so" in p.suffixes] if path.is_dir() else [path]
    for library in libraries:
        _refuse(library)


def _refuse(library: object) -> NoReturn:
    raise errors.UnimplementedError(
        f"{library} is for TensorFlow's runtime, and cannot be loaded by tideflow; write the "
        "operation in Python (tf.numpy_function, tf.py_function) or of other operations"
    )


# ---- how it was built


@export("sysconfig.get_lib")
def get_lib() -> str:
    """Return the folder of the library."""
    return str(Path(tideflow.__file__).parent)


@export("sysconfig.get_include")
def get_include() -> str:
    """Return where the headers of TensorFlow's library would be; there are none."""
    return os.path.join(get_lib(), "include")


@export("sysconfig.get_compile_flags")
def get_compile_flags() -> list[str]:
    """Return the flags to compile ops for TensorFlow's library with."""
    return [
        f"-I{get_include()}",
        "-D_GLIBCXX_USE_CXX11_ABI=1",
        "--std=c++17",
        "-DEIGEN_MAX_ALIGN_BYTES=64",
    ]


@export("sysconfig.get_link_flags")
def get_link_flags() -> list[str]:
    """Return the flags to link ops for TensorFlow's library with."""
    is_mac = sys.platform == "darwin"
    library = "-ltensorflow_framework.2" if is_mac else "-l:libtensorflow_framework.so.2"
    return [f"-L{get_lib()}", library]


@export("sysconfig.get_build_info")
def get_build_info() -> OrderedDict[str, Any]:
    """Return for which accelerators' libraries it was built: none, since XLA brings its own."""
    return OrderedDict(is_cuda_build=False, is_rocm_build=False, is_tensorrt_build=False)
