"""Where words of one vocabulary stand in another, for starting from another model's rows.

Source: tensorflow/core/kernels/generate_vocab_remapping_op.cc; behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.blocking import FILES, StopFlag, run_blocking
from tideflow.formats import file_errors, open_file, path_of
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.framework import check_scalar
from tideflow.wire import errors


def _lines(path: str) -> list[bytes]:
    with file_errors("read", path), open_file(path) as file:
        return file.read().splitlines()


def _shapes(c: ShapeContext) -> list[Dims]:
    return [(c.attrs["num_new_vocab"],), ()]


@op(
    """
    GenerateVocabRemapping(new_vocab_file: string, old_vocab_file: string)
    -> remapping: int64, num_present: int32
    new_vocab_offset: int >= 0
    num_new_vocab: int >= 0
    old_vocab_size: int >= -1 = -1
    """,
    shape=_shapes,
)
async def generate_vocab_remapping(
    ctx: KernelContext,
    new_vocab_file: Array | bytes,
    old_vocab_file: Array | bytes,
    *,
    new_vocab_offset: int,
    num_new_vocab: int,
    old_vocab_size: int,
) -> Any:
    """Return where each of some words of a file stands in another, -1 for nowhere, and how many do.

    Raises: InvalidArgumentError for a file with too few words.
    """
    check_scalar(new_vocab_file, "new_vocab_file")
    check_scalar(old_vocab_file, "old_vocab_file")
    paths = path_of(new_vocab_file, "new_vocab_file"), path_of(old_vocab_file, "old_vocab_file")
    for path in paths:
        if not path:
            raise errors.InvalidArgumentError("the name of a file of words must not be empty")

    def work(flag: StopFlag) -> tuple[list[bytes], list[bytes]]:
        return _lines(paths[0]), _lines(paths[1])

    new, old = await run_blocking(FILES, work)
    if old_vocab_size != -1:
        if old_vocab_size > len(old):
            raise errors.InvalidArgumentError(
                f"{paths[1]} has {len(old)} words; {old_vocab_size} are wanted"
            )
        old = old[:old_vocab_size]
    if new_vocab_offset + num_new_vocab > len(new):
        raise errors.InvalidArgumentError(
            f"{paths[0]} has {len(new)} words; those from {new_vocab_offset} to "
            f"{new_vocab_offset + num_new_vocab} are wanted"
        )
    places = {word: place for place, word in enumerate(old)}
    wanted = new[new_vocab_offset : new_vocab_offset + num_new_vocab]
    found = np.array([places.get(word, -1) for word in wanted], np.int64)
    return found, np.int32((found >= 0).sum())


not_differentiable("GenerateVocabRemapping")
