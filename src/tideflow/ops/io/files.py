"""Files as a whole: read, written, found by pattern.

Source: tensorflow/core/kernels/whole_file_read_ops.cc, matching_files_op.cc.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tideflow.blocking import FILES, StopFlag, run_blocking
from tideflow.formats import AtomicFile, file_errors, matching, open_file, path_of
from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, no_outputs, scalar
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.wire import errors


def _scalar(value: Any, what: str) -> bytes:
    if np.ndim(value):
        raise errors.InvalidArgumentError(
            f"{what} must be a scalar; its shape is {shapes.format_dims(np.shape(value))}"
        )
    item: bytes = value.item() if isinstance(value, np.ndarray) else value
    return item


@op("ReadFile(filename: string) -> contents: string", shape=scalar)
async def read_file_kernel(ctx: KernelContext, filename: Array | bytes) -> Any:
    """Return what a file holds."""
    path = path_of(_scalar(filename, "filename"), "filename")

    def work(flag: StopFlag) -> Any:
        made = np.empty((), object)
        with file_errors("read", path), open_file(path) as file:
            made[()] = file.read()
        return made

    return await run_blocking(FILES, work)


@export("io.read_file", "read_file")
def read_file(filename: TensorLike, name: str | None = None) -> Tensor:
    """Return what a file holds, as a string.  When run: NotFoundError where there is none."""
    found: Tensor = apply_op("ReadFile", filename, name=name)
    return found


@op("WriteFile(filename: string, contents: string)", shape=no_outputs, stateful=True)
async def write_file_kernel(
    ctx: KernelContext, filename: Array | bytes, contents: Array | bytes
) -> None:
    """Write a file, and the directories that lead to it."""
    path = path_of(_scalar(filename, "filename"), "filename")
    data = _scalar(contents, "contents")

    def work(flag: StopFlag) -> None:
        with file_errors("make the directory of", path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        flag.check()
        with AtomicFile(path, check=flag.check) as file:
            file.write(data)

    await run_blocking(FILES, work)


@export("io.write_file", "write_file")
def write_file(filename: TensorLike, contents: TensorLike, name: str | None = None) -> Operation:
    """Return an operation that writes a file, and makes its directories."""
    made: Operation = apply_op("WriteFile", filename, contents, name=name)
    return made


def _matching_shape(c: ShapeContext) -> list[shapes.Dims]:
    dims = c.shape(0)
    if dims is not None and len(dims) > 1:
        raise ValueError(f"pattern must be a scalar or vector, not {shapes.format_dims(dims)}")
    return [(None,)]


@op("MatchingFiles(pattern: string) -> filenames: string", shape=_matching_shape)
async def matching_files_kernel(ctx: KernelContext, pattern: Array | bytes) -> Any:
    """Return the names, sorted, of the files that match any of the patterns."""
    if np.ndim(pattern) > 1:
        raise errors.InvalidArgumentError(
            f"pattern must be a scalar or vector, not {shapes.format_dims(np.shape(pattern))}"
        )
    patterns = np.asarray(pattern, object).reshape(-1).tolist()

    def work(flag: StopFlag) -> Any:
        found: list[bytes] = []
        for one in patterns:
            flag.check()
            found += matching(one)
        made = np.empty(len(found), object)
        made[:] = sorted(found)
        return made

    return await run_blocking(FILES, work)


@export("io.matching_files", "matching_files")
def matching_files(pattern: TensorLike, name: str | None = None) -> Tensor:
    """Return the names, sorted, of the files that match a pattern, or any of several."""
    found: Tensor = apply_op("MatchingFiles", pattern, name=name)
    return found


not_differentiable("ReadFile", "WriteFile", "MatchingFiles")
