"""The `checkpoint` file: which checkpoints a directory has, and which is the latest.

It is the text form of a CheckpointState and is replaced whole, after the checkpoint that it names
is complete; so a reader finds either the state before a save or the state after it.

Source: tensorflow/python/checkpoint/checkpoint_management.py; recorded files.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf import text_format

from tideflow import logging
from tideflow.formats import AtomicFile, file_errors, index_path
from tideflow.ops.export import export
from tideflow.wire import errors
from tideflow.wire import messages as pb

DEFAULT_FILENAME = "checkpoint"
# What the shards of a sharded checkpoint of the old format are called.
_SHARD_SUFFIX = re.compile(r"-[\d\?]+-of-\d+$")


def state_path(save_dir: str, latest_filename: str | None) -> str:
    """Return the name of a directory's state file."""
    return os.path.join(save_dir, latest_filename or DEFAULT_FILENAME)


@export("train.generate_checkpoint_state_proto")
def generate_checkpoint_state_proto(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Any = None,
    all_model_checkpoint_timestamps: Any = None,
    last_preserved_timestamp: float | None = None,
) -> pb.CheckpointState:
    """Return the message that tells of checkpoints.

    Args:
      save_dir: where the state file is to be; where it is relative, so are the paths to it.
      model_checkpoint_path: the latest checkpoint; added to the others if it is not their last.
      all_model_checkpoint_paths: oldest first.
      all_model_checkpoint_timestamps: in seconds since 1970, one for each of these.
    Raises: ValueError for another number of timestamps than of paths.
    """
    directory = os.fspath(save_dir)
    latest = os.fspath(model_checkpoint_path)
    paths = [os.fspath(path) for path in all_model_checkpoint_paths or ()]
    if not paths or paths[-1] != latest:
        paths.append(latest)
    times = list(all_model_checkpoint_timestamps or ())
    if times and len(times) != len(paths):
        raise ValueError(
            f"there are {len(times)} timestamps for {len(paths)} checkpoints; one for each is "
            f"wanted: {paths}"
        )
    if not os.path.isabs(directory):
        paths = [path if os.path.isabs(path) else _relative(path, directory) for path in paths]
        latest = latest if os.path.isabs(latest) else _relative(latest, directory)
    state_pb = pb.CheckpointState(
        model_checkpoint_path=latest,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=times,
    )
    if last_preserved_timestamp is not None:
        state_pb.last_preserved_timestamp = last_preserved_timestamp
    return state_pb


def _relative(path: str, directory: str) -> str:
    return os.path.relpath(path, directory or os.curdir)


def write_checkpoint_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] = (),
    latest_filename: str | None = None,
    save_relative_paths: bool = False,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Replace a directory's state file.

    save_relative_paths: write paths relative to the directory, so that it can be moved.
    Raises: RuntimeError where the checkpoint's own name is that of the state file; what the
    operating system says of the file.
    """
    latest = model_checkpoint_path
    paths: list[str] = list(all_model_checkpoint_paths)
    if save_relative_paths:
        latest = _relative(latest, save_dir) if os.path.isabs(latest) else latest
        paths = [_relative(path, save_dir) if os.path.isabs(path) else path for path in paths]
    state_pb = generate_checkpoint_state_proto(
        save_dir,
        latest,
        paths,
        all_model_checkpoint_timestamps,
        last_preserved_timestamp,
    )
    path = state_path(save_dir, latest_filename)
    if path == state_pb.model_checkpoint_path:
        raise RuntimeError(
            f"the checkpoint {path!r} has the name of the state file; save under another name"
        )
    with AtomicFile(path) as file:
        file.write(text_format.MessageToString(state_pb).encode())


@export("train.update_checkpoint_state")
def update_checkpoint_state(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Any = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Any = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Replace a directory's state file; see generate_checkpoint_state_proto."""
    write_checkpoint_state(
        os.fspath(save_dir),
        os.fspath(model_checkpoint_path),
        all_model_checkpoint_paths or (),
        latest_filename,
        False,
        all_model_checkpoint_timestamps,
        last_preserved_timestamp,
    )


@export("train.get_checkpoint_state")
def get_checkpoint_state(
    checkpoint_dir: Any, latest_filename: str | None = None
) -> pb.CheckpointState | None:
    """Return what a directory's state file tells, with paths that can be used from here.

    None where there is no such file, or (with a warning) where it is not readable.
    Raises: ValueError for a file that names no checkpoint.
    """
    directory = os.fspath(checkpoint_dir)
    path = state_path(directory, latest_filename)
    state_pb = pb.CheckpointState()
    try:
        with file_errors("read", path), open(path, encoding="utf-8") as file:
            text_format.Merge(file.read(), state_pb)
    except errors.NotFoundError:
        return None
    except (errors.OpError, text_format.ParseError, UnicodeDecodeError) as error:
        logging.warning("%s is ignored: %s: %s", path, type(error).__name__, error)
        return None
    if not state_pb.model_checkpoint_path:
        raise ValueError(f"{path} names no checkpoint: model_checkpoint_path is not set")
    state_pb.model_checkpoint_path = os.path.join(directory, state_pb.model_checkpoint_path)
    found = [os.path.join(directory, item) for item in state_pb.all_model_checkpoint_paths]
    state_pb.all_model_checkpoint_paths[:] = found
    return state_pb


@export("train.latest_checkpoint")
def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """Return the latest checkpoint of a directory, None where there is none."""
    state_pb = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state_pb is None:
        return None
    if checkpoint_exists(state_pb.model_checkpoint_path):
        return str(state_pb.model_checkpoint_path)
    logging.error(
        "%s names the checkpoint %s, which is not there",
        state_path(os.fspath(checkpoint_dir), latest_filename),
        state_pb.model_checkpoint_path,
    )
    return None


def _identifying_file(checkpoint_prefix: str) -> str | None:
    """Return the file by which a checkpoint of either format is known to be there."""
    for pattern in (index_path(checkpoint_prefix), checkpoint_prefix):
        if os.path.exists(pattern):
            return pattern
        found = sorted(glob.glob(pattern))
        if found:
            return found[0]
    return None


@export("train.checkpoint_exists")
def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Whether there is a checkpoint of this name (which may be a pattern)."""
    return _identifying_file(os.fspath(checkpoint_prefix)) is not None


@export("train.get_checkpoint_mtimes")
def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[Any]) -> list[float]:
    """Return when the checkpoints that are there were written, in seconds since 1970."""
    times = []
    for prefix in checkpoint_prefixes:
        found = _identifying_file(os.fspath(prefix))
        if found is not None:
            with file_errors("look at", found):
                times.append(os.stat(found).st_mtime_ns / 1e9)
    return times


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """Return the name of the file that keeps a checkpoint's graph."""
    return f"{_SHARD_SUFFIX.sub('', checkpoint_filename)}.{meta_graph_suffix}"


@export("train.remove_checkpoint")
def remove_checkpoint(
    checkpoint_prefix: Any,
    checkpoint_format_version: int = pb.SaverDef.V2,
    meta_graph_suffix: str = "meta",
) -> None:
    """Delete a checkpoint's files; those that are not there are no error.

    Raises: what the operating system says of a file that cannot be deleted.
    """
    prefix = os.fspath(checkpoint_prefix)
    _delete([meta_graph_filename(prefix, meta_graph_suffix)])
    if checkpoint_format_version == pb.SaverDef.V2:
        remove_bundle(prefix)
    else:
        _delete([prefix])


def remove_bundle(prefix: str) -> None:
    """Delete a checkpoint's tensors.

    The index goes first: whatever is left when the deletion is cut short is no checkpoint.
    """
    _delete([index_path(prefix)])
    _delete(sorted(glob.glob(glob.escape(prefix) + ".data-?????-of-?????")))


def _delete(paths: Iterable[str]) -> None:
    for path in paths:
        try:
            with file_errors("delete", path):
                os.unlink(path)
        except errors.NotFoundError:
            continue
