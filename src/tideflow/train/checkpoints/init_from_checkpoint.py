"""Let variables begin with the values that a checkpoint has.

Source: tensorflow/python/training/checkpoint_utils.py (init_from_checkpoint) for the map's rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tideflow import logging
from tideflow.graph.building import apply_op
from tideflow.graph.graph import get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.export import export
from tideflow.ops.framework import constant
from tideflow.ops.state import PartitionedVariable, RefVariable, Variable
from tideflow.train.checkpoints.reader import CheckpointReader, checkpoint_prefix


@export("train.init_from_checkpoint")
def init_from_checkpoint(ckpt_dir_or_file: Any, assignment_map: Any) -> None:
    """Make the initializers of variables take values from a checkpoint.

    Args:
      assignment_map: a dict (or pairs) of
        "name in the checkpoint": "name of a variable", a variable, a partitioned one or its parts;
        "scope in the checkpoint/": "scope of variables/" (or None for all), where the names behind
        the scopes are the same; "/" is the scope of everything.
    Raises: ValueError for a tensor that the checkpoint lacks, a variable that the graph lacks, or
    shapes that differ.
    """
    prefix = checkpoint_prefix(ckpt_dir_or_file)
    reader = CheckpointReader(prefix)
    shapes = reader.get_variable_to_shape_map()
    named = _variables_by_name()
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    for source, target in sorted(pairs, key=lambda pair: str(pair[0])):
        if isinstance(target, str) and not source.endswith("/"):
            if target not in named:
                raise ValueError(
                    f"assignment_map names the variable {target!r}, which the graph lacks; it has "
                    f"{sorted(named)}"
                )
            found = [(source, named[target])]
        elif target is None or isinstance(target, str):
            found = list(_of_scope(source, target or "/", named, shapes, prefix))
        else:
            found = [(source, _parts(target))]
        for name, parts in found:
            _initialize(prefix, shapes, name, parts)


def _variables_by_name() -> dict[str, list[Any]]:
    """Return the graph's variables by name, those of one partitioned variable together."""
    graph = get_default_graph()
    found: dict[str, list[Any]] = {}
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for variable in graph.get_collection(key):
            part = variable._get_save_slice_info() if isinstance(variable, Variable) else None
            parts = found.setdefault(variable.op.name if part is None else part.full_name, [])
            if not any(variable is other for other in parts):
                parts.append(variable)
    return found


def _parts(target: Any) -> list[Any]:
    if isinstance(target, (list, tuple, PartitionedVariable)):
        return list(target)
    return [target]


def _of_scope(
    source: str, target: str, named: Mapping[str, Any], shapes: Mapping[str, Any], prefix: str
) -> Iterable[tuple[str, Any]]:
    """Yield the variables below a scope with the names of their tensors.

    Raises: ValueError for a target that is no scope, or a variable without a tensor.
    """
    if not target.endswith("/"):
        raise ValueError(
            f"assignment_map takes the scope {source!r} to {target!r}; that must end in '/', too"
        )
    below = "" if target == "/" else target
    before = "" if source == "/" else source
    for name, parts in named.items():
        if not name.startswith(below):
            continue
        tensor = before + name[len(below) :]
        if tensor not in shapes:
            raise ValueError(
                f"the variable {name!r} would begin with the tensor {tensor!r}, which the "
                f"checkpoint {prefix} lacks"
            )
        yield tensor, parts


def _initialize(prefix: str, shapes: Mapping[str, list[int]], name: str, parts: list[Any]) -> None:
    if name not in shapes:
        raise ValueError(f"the tensor {name!r} is not in the checkpoint {prefix}")
    for variable in parts:
        if not isinstance(variable, Variable):
            raise TypeError(f"assignment_map takes {name!r} to {variable!r}, which is no variable")
        part = variable._get_save_slice_info()
        whole = variable.shape.as_list() if part is None else part.full_shape
        if whole != shapes[name]:
            raise ValueError(
                f"variable {variable.name!r} has shape {whole}; the tensor {name!r} of checkpoint "
                f"{prefix} has {shapes[name]}"
            )
        _take_from(prefix, name, "" if part is None else part.spec, variable)
        logging.info("%s begins with %s of %s", variable.op.name, name, prefix)


def _take_from(prefix: str, name: str, spec: str, variable: Any) -> None:
    graph = get_default_graph()
    with graph.device(variable.device), graph.device("/cpu:0"), graph.name_scope("checkpoint_init"):
        (value,) = apply_op(
            "RestoreV2",
            constant(prefix),
            np.array([name.encode()], object),
            np.array([spec.encode()], object),
            dtypes=[variable.dtype.base_dtype],
        )
        begin_with(variable, value)


def begin_with(variable: Any, value: Any) -> None:
    """Let the initializer of a variable set it to a tensor."""
    graph = get_default_graph()
    with graph.device(variable.device), graph.device("/cpu:0"):
        value.set_shape(variable.shape)
        if isinstance(variable, RefVariable):
            with graph.colocate_with(variable.op):
                assigned = apply_op("Assign", variable._ref(), value).op
        else:
            assigned = apply_op("AssignVariableOp", variable.handle, value)
    variable._initializer = assigned
    variable._initial_value = value
