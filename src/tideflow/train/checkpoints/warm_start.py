"""Variables that begin with the values of another model's checkpoint, by name and by vocabulary.

Source: tensorflow/python/training/warm_starting_util.py for names and rules.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tideflow import logging
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.export import export
from tideflow.ops.state import PartitionedVariable, Variable, Zeros
from tideflow.train.checkpoints.init_from_checkpoint import begin_with, init_from_checkpoint
from tideflow.train.checkpoints.reader import checkpoint_prefix


@export("train.VocabInfo")
class VocabInfo(
    namedtuple(
        "VocabInfo",
        ("new_vocab", "new_vocab_size", "num_oov_buckets", "old_vocab", "old_vocab_size",
         "backup_initializer", "axis"),
        defaults=(-1, None, 0),
    )
):  # fmt: skip
    """What the rows or columns of a variable stand for, now and in a checkpoint.

    Attributes:
      new_vocab, old_vocab: files with a word in each line.
      new_vocab_size, old_vocab_size: how many words of them count; -1 for all of the old ones.
      num_oov_buckets: how many rows after those of the words there are.
      backup_initializer: makes rows of words that the checkpoint lacks; zeros by default.
      axis: 0 for rows, 1 for columns.
    """

    __slots__ = ()


@export("train.warm_start")
def warm_start(
    ckpt_to_initialize_from: str,
    vars_to_warm_start: Any = ".*",
    var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
    var_name_to_prev_var_name: Mapping[str, str] | None = None,
) -> None:
    """Let variables begin with what a checkpoint has.

    Args:
      ckpt_to_initialize_from: a checkpoint, or the directory of some.
      vars_to_warm_start: a regular expression for the names of trainable variables, a list of such
        for those of all variables, a list of variables; None for those with a vocabulary alone.
      var_name_to_vocab_info: by a variable's name, what its rows or columns stand for.
      var_name_to_prev_var_name: by a variable's name, what the checkpoint calls it.
    Raises: ValueError for names that no variable has.
    """
    vocabularies = dict(var_name_to_vocab_info or {})
    earlier = dict(var_name_to_prev_var_name or {})
    chosen = _chosen(vars_to_warm_start)
    if vars_to_warm_start is None:
        chosen = {
            name: parts
            for name, parts in _grouped(_collected(None)).items()
            if name in vocabularies
        }
    for what, named in (("prev_var_name", earlier), ("vocab_info", vocabularies)):
        unused = sorted(set(named) - set(chosen))
        if unused:
            raise ValueError(
                f"You provided the following variables in var_name_to_{what} that were not used: "
                f"{unused}. Perhaps you misspelled them? Here is the list of viable variable "
                f"names: {sorted(chosen)}"
            )
    whole = {}
    for name, parts in chosen.items():
        source = earlier.get(name, name)
        if name in vocabularies:
            for part in parts:
                _begin_by_words(part, ckpt_to_initialize_from, source, vocabularies[name])
        else:
            whole[source] = parts if len(parts) > 1 else parts[0]
    if whole:
        init_from_checkpoint(ckpt_to_initialize_from, whole)


def _collected(scope: str | None, key: str = GraphKeys.GLOBAL_VARIABLES) -> list[Any]:
    return get_default_graph().get_collection(key, scope)


def _chosen(wanted: Any) -> dict[str, list[Any]]:
    """Return variables by name, those of one partitioned variable together."""
    if wanted is None:
        return {}
    if isinstance(wanted, str):
        return _grouped(_collected(wanted, GraphKeys.TRAINABLE_VARIABLES))
    if not isinstance(wanted, (list, tuple)):
        raise ValueError(f"vars_to_warm_start must be a `list` or `tuple`: {wanted!r}")
    found: list[Any] = []
    for one in wanted:
        if isinstance(one, str):
            found.extend(_collected(one))
        elif isinstance(one, PartitionedVariable):
            found.extend(one)
        elif isinstance(one, Variable):
            found.append(one)
        else:
            raise ValueError(f"vars_to_warm_start holds {one!r}, neither a name nor a variable")
    return _grouped(found)


def _grouped(variables: list[Any]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    for variable in variables:
        part = variable._get_save_slice_info()
        parts = grouped.setdefault(variable.op.name if part is None else part.full_name, [])
        if not any(variable is other for other in parts):
            parts.append(variable)
    return grouped


def _begin_by_words(variable: Any, checkpoint: str, source: str, words: VocabInfo) -> None:
    """Let a matrix begin with the rows or columns that its words have in a checkpoint."""
    make: Callable[..., Any] = words.backup_initializer or Zeros()
    part = variable._get_save_slice_info()
    sizes = variable.shape.as_list()
    first = 0 if part is None else part.var_offset[words.axis]
    prefix = checkpoint_prefix(checkpoint)
    graph = get_default_graph()
    with graph.device(variable.device), graph.device("/cpu:0"), graph.name_scope("warm_start"):
        known = max(0, min(sizes[words.axis], words.new_vocab_size - first))
        places, present = apply_op(
            "GenerateVocabRemapping",
            words.new_vocab,
            words.old_vocab,
            new_vocab_offset=first,
            num_new_vocab=known,
            old_vocab_size=words.old_vocab_size,
        )
        other = sizes[1 - words.axis]
        lacking = apply_op("Sub", known, present)
        # Initializers want numbers: as many as may lack are made, and cut.
        fill = _made(make, known, other, words.axis, variable.dtype.base_dtype)
        ends = [lacking, other] if words.axis == 0 else [other, lacking]
        fill = apply_op("Slice", fill, [0, 0], apply_op("Pack", ends))
        every = np.arange(other, dtype=np.int64)
        rows, columns = (places, every[:0]) if words.axis == 0 else (every, places)
        shape = (known, other) if words.axis == 0 else (other, known)
        value = apply_op(
            "LoadAndRemapMatrix",
            prefix,
            source,
            rows,
            columns,
            apply_op("Reshape", fill, [-1]),
            num_rows=shape[0],
            num_cols=shape[1],
        )
        further = sizes[words.axis] - known
        if further:
            buckets = _made(make, further, other, words.axis, variable.dtype.base_dtype)
            value = apply_op("ConcatV2", [value, buckets], words.axis)
        begin_with(variable, value)
    logging.info("%s begins with %s of %s, by words", variable.op.name, source, prefix)


def _made(make: Callable[..., Any], count: int, other: int, axis: int, dtype: Any) -> Tensor:
    """Return so many rows or columns of an initializer's values."""
    made: Tensor = make([count, other] if axis == 0 else [other, count], dtype=dtype)
    return made
