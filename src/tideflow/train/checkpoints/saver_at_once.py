"""What a Saver does where there is no graph: variables are written and read when it is called.

Source: tensorflow/python/training/saver.py (what it does in eager mode).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.train.checkpoints.object_names import keys_of_names
from tideflow.train.checkpoints.restore_check import Wanted, find_differences
from tideflow.train.checkpoints.saveables import SaveableObject, by_name, saveables_by_name
from tideflow.train.checkpoints.saver_ops import BaseSaverBuilder
from tideflow.wire import errors


def _saveables(items: Any) -> list[SaveableObject]:
    return saveables_by_name(items if isinstance(items, dict) else by_name(items))


def save_now(builder: BaseSaverBuilder, items: Any, prefix: str) -> str:
    """Write variables as a checkpoint and return its prefix."""
    builder.save_op(convert_to_tensor(prefix), _saveables(items))
    return prefix


def restore_now(builder: BaseSaverBuilder, items: Any, prefix: str, reshape: bool) -> None:
    """Give variables the values that they have in a checkpoint, by their names.

    Raises: NotFoundError for variables that it lacks, InvalidArgumentError for other types, both
    before anything is changed; ValueError for a value of another shape.
    """
    saveables = _saveables(items)
    differences = find_differences(_wanted(saveables), prefix)
    names = keys_of_names(prefix) if differences.missing else None
    if names is not None:
        _rename(saveables, names, prefix)
        differences = find_differences(_wanted(saveables), prefix)
    problem = differences.error()
    if problem is not None:
        raise problem
    found = iter(builder.bulk_restore(convert_to_tensor(prefix), saveables, -1, False))
    for saveable in saveables:
        shapes = [spec.tensor.shape.as_list() for spec in saveable.specs] if reshape else None
        saveable.restore([next(found) for _ in saveable.specs], shapes)


def _wanted(saveables: list[SaveableObject]) -> Iterator[Wanted]:
    # Shapes are left to whoever takes the values.
    for saveable in saveables:
        for spec in saveable.specs:
            yield Wanted(spec.name, spec.slice_spec, spec.dtype, None, False)


def _rename(saveables: list[SaveableObject], names: dict[str, str], prefix: str) -> None:
    """Find what is restored in a checkpoint of objects, by the names that variables had."""
    for saveable in saveables:
        for spec in saveable.specs:
            if spec.name not in names:
                raise errors.NotFoundError(
                    f"Key {spec.name} not found in the checkpoint of objects {prefix}; it has "
                    f"{', '.join(sorted(names))}"
                )
            spec.name = names[spec.name]
