"""tf.gfile: the names that TensorFlow 1 has for what tf.io.gfile does.

Source: tensorflow/python/lib/io/file_io.py, python/platform/gfile.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from tideflow.ops.export import export, export_value
from tideflow.ops.io import gfile

export_value("gfile.GFile", gfile.GFile)
export_value("gfile.Open", gfile.GFile)
for _name, _function in {
    "copy": gfile.copy,
    "exists": gfile.exists,
    "glob": gfile.glob,
    "isdir": gfile.isdir,
    "join": gfile.join,
    "listdir": gfile.listdir,
    "makedirs": gfile.makedirs,
    "mkdir": gfile.mkdir,
    "remove": gfile.remove,
    "rename": gfile.rename,
    "rmtree": gfile.rmtree,
    "stat": gfile.stat,
    "walk": gfile.walk,
    "GFile": gfile.GFile,
}.items():
    export_value(f"io.gfile.{_name}", _function)


@export("gfile.FastGFile")
class FastGFile(gfile.GFile):
    """A file; see tf.gfile.GFile."""


@export("gfile.Exists")
def exists(filename: Any) -> bool:
    """Whether there is a file or directory."""
    return gfile.exists(filename)


@export("gfile.IsDirectory")
def is_directory(dirname: Any) -> bool:
    """Whether there is a directory."""
    return gfile.isdir(dirname)


@export("gfile.ListDirectory")
def list_directory(dirname: Any) -> list[str]:
    """Return the names in a directory.  Raises: NotFoundError where there is none."""
    return gfile.listdir(dirname)


@export("gfile.Glob")
def glob(filename: Any) -> list[str]:
    """Return the files that match a pattern, or any of several, sorted."""
    return gfile.glob(filename)


@export("gfile.MkDir")
def mkdir(dirname: Any) -> None:
    """Make a directory; its parent must be there."""
    gfile.mkdir(dirname)


@export("gfile.MakeDirs")
def make_dirs(dirname: Any) -> None:
    """Make a directory, and those that lead to it."""
    gfile.makedirs(dirname)


@export("gfile.Remove")
def remove(filename: Any) -> None:
    """Delete a file.  Raises: NotFoundError where there is none."""
    gfile.remove(filename)


@export("gfile.DeleteRecursively")
def delete_recursively(dirname: Any) -> None:
    """Delete a directory with all that is in it.  Raises: NotFoundError where there is none."""
    gfile.rmtree(dirname)


@export("gfile.Copy")
def copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copy a file.  Raises: AlreadyExistsError where newpath is there, unless overwrite."""
    gfile.copy(oldpath, newpath, overwrite)


@export("gfile.Rename")
def rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Rename a file.  Raises: AlreadyExistsError where newname is there, unless overwrite."""
    gfile.rename(oldname, newname, overwrite)


@export("gfile.Stat")
def stat(filename: Any) -> Any:
    """Return what is known of a file.  Raises: NotFoundError where there is none."""
    return gfile.stat(filename)


@export("gfile.Walk")
def walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each directory below one, with the directories and the files in it.

    in_order: a directory before what is in it, or after.
    """
    yield from os.walk(top, topdown=in_order)
