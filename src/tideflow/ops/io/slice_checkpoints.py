"""Saving and restoring in the checkpoints of the first version (see formats/slice_file.py).

Source: tensorflow/core/ops/io_ops.cc, core/kernels/save_op.cc, restore_op.cc and
save_restore_tensor.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.blocking import FILES, StopFlag, run_blocking
from tideflow.formats import FileProgress, SliceFiles, SliceFileWriter, path_of
from tideflow.graph import roles, shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.io.checkpoints import watched
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.tensor_slice import parse_shape_and_slice


def _save_shape(*lists: str) -> Callable[[ShapeContext], list[Dims]]:
    """Return the rule of an op that takes a name and so many lists of strings before its data."""

    def rule(c: ShapeContext) -> list[Dims]:
        with_rank(c.shape(0), 0, "filename")
        for name in lists:
            shapes.merge(c.shape(name), (len(c.node.edges) - 1 - len(lists),))
        return []

    return rule


@op(
    """
    Save(filename: string, tensor_names: string, data: *T)
    T: list(type) >= 1
    """,
    shape=_save_shape("tensor_names"),
    stateful=True,
    role=roles.SAVE,
)
async def save(
    ctx: KernelContext,
    filename: Array | bytes,
    names: Array | bytes,
    data: list[Any],
    *,
    T: list[DType],
) -> None:
    """Write tensors as a file of slices."""
    await _save(filename, names, [""] * len(data), data, T)


@op(
    """
    SaveSlices(filename: string, tensor_names: string, shapes_and_slices: string, data: *T)
    T: list(type) >= 1
    """,
    shape=_save_shape("tensor_names", "shapes_and_slices"),
    stateful=True,
    role=roles.SAVE,
)
async def save_slices(
    ctx: KernelContext,
    filename: Array | bytes,
    names: Array | bytes,
    slices: Array | bytes,
    data: list[Any],
    *,
    T: list[DType],
) -> None:
    """Write tensors, or slices of larger ones, as a file of slices."""
    await _save(filename, names, _strings(slices, "shapes_and_slices", len(data)), data, T)


async def _save(
    filename: Any, names: Any, specs: Sequence[str], data: Sequence[Any], types: Sequence[DType]
) -> None:
    path = path_of(_one(filename, 0, "filename"), "filename")
    given = _strings(names, "tensor_names", len(data))

    def work(flag: StopFlag) -> None:
        size = sum(getattr(tensor, "nbytes", 0) for tensor in data)
        with FileProgress("saving", path, size) as progress:
            writer = SliceFileWriter(path, watched(flag, progress))
            for name, spec, value, dtype in zip(given, specs, data, types):
                shape = np.shape(value)
                if not spec:
                    writer.add(name, shape, tuple((0, None) for _ in shape), value, dtype)
                    continue
                whole, part, expected = parse_shape_and_slice(spec)
                if shape != expected:
                    raise errors.InvalidArgumentError(
                        f"Slice in shape_and_slice specification {spec!r} does not match the shape "
                        f"of the tensor to save: {shapes.format_dims(shape)}, tensor: {name}"
                    )
                writer.add(name, whole, part, value, dtype)
            writer.finish()

    await run_blocking(FILES, work)


def _one(value: Any, index: int, what: str) -> Any:
    if np.size(value) != 1:
        raise errors.InvalidArgumentError(
            f"Input {index} ({what}) must be a string scalar; got a tensor of {np.size(value)} "
            "elements"
        )
    return np.reshape(value, ())[()] if isinstance(value, np.ndarray) else value


def _strings(value: Any, what: str, count: int) -> list[str]:
    if np.size(value) != count:
        raise errors.InvalidArgumentError(
            f"{what} has {np.size(value)} elements; there are {count} tensors"
        )
    return [_text(item) for item in np.reshape(np.asarray(value, object), -1)]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _restore_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.shape(0), 0, "file_pattern")
    with_rank(c.shape(1), 0, "tensor_name")
    return [None]


def _restore_slice_shape(c: ShapeContext) -> list[Dims]:
    found = _restore_shape(c)
    with_rank(c.shape(2), 0, "shape_and_slice")
    spec = c.value(2)
    if spec is None or not _bytes(spec):
        return found
    try:
        return [parse_shape_and_slice(_text(_bytes(spec)))[2]]
    except errors.OpError as error:
        raise ValueError(error.message) from None


def _bytes(value: Any) -> bytes:
    found: bytes = value.item() if isinstance(value, np.ndarray) else value
    return found


@op(
    """
    Restore(file_pattern: string, tensor_name: string) -> tensor: dt
    dt: type
    preferred_shard: int = -1
    """,
    shape=_restore_shape,
    stateful=True,
    role=roles.RESTORE,
)
async def restore(
    ctx: KernelContext,
    file_pattern: Array | bytes,
    tensor_name: Array | bytes,
    *,
    dt: DType,
    preferred_shard: int,
) -> Any:
    """Read a tensor of files of slices.

    Raises: NotFoundError for files or names that are not there; InvalidArgumentError for another
    type than that stored; DataLossError for damaged files.
    """
    return await _restore(file_pattern, tensor_name, b"", dt)


@op(
    """
    RestoreSlice(file_pattern: string, tensor_name: string, shape_and_slice: string) -> tensor: dt
    dt: type
    preferred_shard: int = -1
    """,
    shape=_restore_slice_shape,
    stateful=True,
    role=roles.RESTORE,
)
async def restore_slice(
    ctx: KernelContext,
    file_pattern: Array | bytes,
    tensor_name: Array | bytes,
    shape_and_slice: Array | bytes,
    *,
    dt: DType,
    preferred_shard: int,
) -> Any:
    """Read a slice of a tensor of files of slices.  Raises: as Restore."""
    return await _restore(file_pattern, tensor_name, _one(shape_and_slice, 2, "slice"), dt)


async def _restore(file_pattern: Any, tensor_name: Any, spec: bytes, dtype: DType) -> Any:
    pattern = path_of(_one(file_pattern, 0, "file_pattern"), "file_pattern")
    name = _text(_one(tensor_name, 1, "tensor_name"))
    return await run_blocking(
        FILES, lambda flag: SliceFiles(pattern).tensor(name, _text(spec), dtype)
    )


not_differentiable("Save", "SaveSlices", "Restore", "RestoreSlice")
