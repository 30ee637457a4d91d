"""Saving and restoring tensors: the ops of savers, on bundles (see tensor_bundle.py).

Source: tensorflow/core/ops/io_ops.cc, core/kernels/save_restore_v2_ops.cc.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.blocking import FILE_PARTS, FILES, Parts, StopFlag, run_blocking
from tideflow.formats import (
    BundleReader,
    BundleWriter,
    FileProgress,
    SliceFiles,
    is_slice_file,
    merge_bundles,
    path_of,
)
from tideflow.graph import roles, shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, no_outputs, scalar, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.tensor_slice import parse_shape_and_slice


def _strings(value: Any, what: str) -> list[str]:
    if np.ndim(value) != 1:
        raise errors.InvalidArgumentError(
            f"{what} must be a vector; its shape is {shapes.format_dims(np.shape(value))}"
        )
    return [item.decode("utf-8", "surrogateescape") for item in value.tolist()]


def _arguments(
    prefix: Any, names: object, slices: object, count: int
) -> tuple[str, list[str], list[str]]:
    """Return the inputs that savers share, checked."""
    if np.size(prefix) != 1:
        raise errors.InvalidArgumentError(
            f"prefix must be one string; its shape is {shapes.format_dims(np.shape(prefix))}"
        )
    found = _strings(names, "tensor_names"), _strings(slices, "shape_and_slices")
    if len(found[0]) != count or len(found[1]) != count:
        raise errors.InvalidArgumentError(
            f"there are {len(found[0])} tensor_names, {len(found[1])} shape_and_slices and "
            f"{count} tensors; as many of each are needed"
        )
    return path_of(prefix, "prefix"), *found


def watched(flag: StopFlag, progress: FileProgress) -> Callable[[int], None]:
    """Return what is called after each piece of a file."""

    def check(count: int) -> None:
        flag.check()
        progress.advance(count)

    return check


def _save_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.shape(0), 0, "prefix")
    count = len(c.node.edges) - 3
    for name in ("tensor_names", "shape_and_slices"):
        shapes.merge(c.shape(name), (count,))
    return []


@op(
    """
    SaveV2(prefix: string, tensor_names: string, shape_and_slices: string, tensors: *dtypes)
    dtypes: list(type) >= 1
    """,
    shape=_save_shape,
    stateful=True,
    role=roles.SAVE,
)
async def save_v2(
    ctx: KernelContext,
    prefix: Array | bytes,
    names: Array | bytes,
    slices: Array | bytes,
    tensors: list[Any],
    *,
    dtypes: list[DType],
) -> None:
    """Write tensors, or slices of larger ones, as a bundle."""
    path, given_names, given_slices = _arguments(prefix, names, slices, len(tensors))

    def work(flag: StopFlag) -> None:
        size = sum(getattr(tensor, "nbytes", 0) for tensor in tensors)
        with (
            FileProgress("saving", path, size) as progress,
            BundleWriter(path, watched(flag, progress)) as writer,
        ):
            for name, spec, value, dtype in zip(given_names, given_slices, tensors, dtypes):
                if not spec:
                    writer.add(name, value, dtype)
                    continue
                whole, part, expected = parse_shape_and_slice(spec)
                if np.shape(value) != expected:
                    raise errors.InvalidArgumentError(
                        f"tensor {name!r} has shape {shapes.format_dims(np.shape(value))}; its "
                        f"slice {spec!r} has {shapes.format_dims(expected)}"
                    )
                writer.add_slice(name, whole, part, value, dtype)

    await run_blocking(FILES, work)


def _restore_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.shape(0), 0, "prefix")
    count = len(c.node.output_types)
    for name in ("tensor_names", "shape_and_slices"):
        shapes.merge(c.shape(name), (count,))
    specs = c.value("shape_and_slices")
    if specs is None or specs.shape != (count,):
        return [None] * count
    try:
        return [parse_shape_and_slice(spec.decode())[2] if spec else None for spec in specs]
    except errors.OpError as error:
        raise ValueError(error.message) from None


@op(
    """
    RestoreV2(prefix: string, tensor_names: string, shape_and_slices: string) -> tensors: *dtypes
    dtypes: list(type) >= 1
    """,
    shape=_restore_shape,
    stateful=True,
    role=roles.RESTORE,
)
async def restore_v2(
    ctx: KernelContext,
    prefix: Array | bytes,
    names: Array | bytes,
    slices: Array | bytes,
    *,
    dtypes: list[DType],
) -> list[Any]:
    """Read tensors of a bundle, or slices of them; of a checkpoint of the first version, too.

    Raises: NotFoundError that names the tensors which are not there; InvalidArgumentError for
    other types or shapes than those stored; DataLossError for damaged files.
    """
    path, given_names, given_slices = _arguments(prefix, names, slices, len(dtypes))

    def work(flag: StopFlag) -> list[Any]:
        if is_slice_file(path):
            files = SliceFiles(path)
            wanted = zip(given_names, given_slices, dtypes)
            return [files.tensor(name, spec, dtype) for name, spec, dtype in wanted]
        progress = FileProgress("restoring", path)
        # Files stay open until no part reads them any more.
        parts = Parts(FILE_PARTS, flag)
        with (
            progress,
            BundleReader(path, watched(flag, progress), parts) as reader,
            parts,
        ):
            _check_all_there(reader, given_names, dtypes)
            progress.total_bytes = sum(reader.stored_bytes(name) for name in given_names)
            reading = [_reading(reader, *item) for item in zip(given_names, given_slices)]
            return [finish() for finish in reading]

    return await run_blocking(FILES, work)


def _check_all_there(reader: BundleReader, names: Sequence[str], types: Sequence[DType]) -> None:
    missing = [name for name in names if name not in reader]
    if missing:
        more = f" (and {len(missing) - 20} more)" if len(missing) > 20 else ""
        raise errors.NotFoundError(
            f"Key {missing[0]} not found in checkpoint {reader.prefix}; it lacks "
            f"{', '.join(missing[:20])}{more}"
        )
    for name, wanted in zip(names, types):
        stored, _ = reader.describe(name)
        if stored is not wanted:
            raise errors.InvalidArgumentError(
                f"tensor {name!r} of checkpoint {reader.prefix} is {stored.name}; {wanted.name} "
                "is expected"
            )


def _reading(reader: BundleReader, name: str, spec: str) -> Callable[[], Any]:
    if not spec:
        return reader.reading(name, None)
    whole, part, _ = parse_shape_and_slice(spec)
    _, stored = reader.describe(name)
    if stored != whole:
        raise errors.InvalidArgumentError(
            f"tensor {name!r} of checkpoint {reader.prefix} has shape {list(stored)}; "
            f"{list(whole)} is expected"
        )
    return reader.reading(name, part)


@op(
    """
    MergeV2Checkpoints(checkpoint_prefixes: string, destination_prefix: string)
    delete_old_dirs: bool = true
    allow_missing_files: bool = false
    """,
    shape=no_outputs,
    stateful=True,
)
async def merge_v2_checkpoints(
    ctx: KernelContext,
    checkpoint_prefixes: Array | bytes,
    destination_prefix: Array | bytes,
    *,
    delete_old_dirs: bool,
    allow_missing_files: bool,
) -> None:
    """Make one bundle of several."""
    prefixes = [os.fsdecode(prefix) for prefix in np.reshape(checkpoint_prefixes, -1)]
    if np.ndim(destination_prefix) or np.ndim(checkpoint_prefixes) != 1:
        raise errors.InvalidArgumentError(
            "checkpoint_prefixes must be a vector and destination_prefix a scalar; their shapes "
            f"are {shapes.format_dims(np.shape(checkpoint_prefixes))} and "
            f"{shapes.format_dims(np.shape(destination_prefix))}"
        )
    destination = path_of(destination_prefix, "destination_prefix")

    def work(flag: StopFlag) -> None:
        merge_bundles(prefixes, destination, allow_missing_files, flag.check)
        if delete_old_dirs:
            kept = os.path.dirname(destination)
            for old in {os.path.dirname(prefix) for prefix in prefixes} - {kept}:
                with contextlib.suppress(OSError):  # others' files keep their directory
                    os.rmdir(old)

    await run_blocking(FILES, work)


@op(
    """
    ShardedFilename(basename: string, shard: int32, num_shards: int32) -> filename: string
    """,
    shape=scalar,
)
def sharded_filename(
    ctx: KernelContext, basename: Array | bytes, shard: Array, num_shards: Array
) -> Any:
    """Return the name of one of a set of files."""
    name = _basename(basename=basename, shard=shard, num_shards=num_shards)
    made = np.empty((), object)
    made[()] = name + b"-%05d-of-%05d" % (int(shard), int(num_shards))
    return made


def _basename(**given: Any) -> bytes:
    """Return the basename among inputs that must all be scalars."""
    for what, value in given.items():
        if np.ndim(value):
            raise errors.InvalidArgumentError(
                f"{what} must be a scalar; its shape is {shapes.format_dims(np.shape(value))}"
            )
    basename = given["basename"]
    found: bytes = basename.item() if isinstance(basename, np.ndarray) else basename
    return found


@op("ShardedFilespec(basename: string, num_shards: int32) -> filename: string", shape=scalar)
def sharded_filespec(ctx: KernelContext, basename: Array | bytes, num_shards: Array) -> Any:
    """Return the pattern of the names of a set of files."""
    name = _basename(basename=basename, num_shards=num_shards)
    made = np.empty((), object)
    made[()] = name + b"-?????-of-%05d" % int(num_shards)
    return made


not_differentiable("SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename")
