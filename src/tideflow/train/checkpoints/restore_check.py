"""What a checkpoint and the graph that it is to be restored into have in common, and what not.

Looked at before anything is restored, so that a checkpoint that does not fit changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tideflow.formats import open_checkpoint
from tideflow.formats.checkpoint_files import CheckpointFiles
from tideflow.graph import roles
from tideflow.graph.graph import Graph, Operation
from tideflow.graph.shapes import num_elements
from tideflow.graph.static_value import static_value
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.tensor_slice import parse_shape_and_slice

# More differences than these help nobody.
_MOST_SHOWN = 50


class Wanted(NamedTuple):
    """A tensor that is to be restored.

    Attributes: name, slice_spec, its place in a checkpoint; dims, of the variable that takes it,
    None where they do not matter; reshaped, whether only the number of elements must agree.
    """

    name: str
    slice_spec: str
    dtype: DType
    dims: Any
    reshaped: bool


@dataclass
class Differences:
    """Of a checkpoint from what a saver asks: lines for tensors that it lacks, that differ, and
    that nobody asks for."""

    prefix: str
    missing: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    def error(self) -> errors.OpError | None:
        """Return the error that a restore must end with, None where it can go on."""
        if not self.missing and not self.other:
            return None
        kind = errors.NotFoundError if self.missing else errors.InvalidArgumentError
        lines = [*self.missing, *self.other, *self.unused]
        if len(lines) > _MOST_SHOWN:
            lines = [*lines[:_MOST_SHOWN], f"and {len(lines) - _MOST_SHOWN} more"]
        listed = "".join(f"\n  {line}" for line in lines)
        return kind(
            f"Restoring from checkpoint failed: program and {self.prefix} do not fit each other. "
            "Restore with the program that saved it, or give the Saver only what both have. "
            f"Nothing was restored. The differences:{listed}"
        )


def find_differences(items: Iterable[Wanted], prefix: str) -> Differences:
    """Compare what is to be restored with the index of a checkpoint.

    Raises: as open_checkpoint.
    """
    found = Differences(prefix)
    wanted: set[str] = set()
    with open_checkpoint(prefix) as reader:
        for item in items:
            wanted.add(item.name)
            _compare(found, reader, item)
        for name in reader.names():
            if name and name not in wanted:
                found.unused.append(f"{name}: only the checkpoint has it, {_stored(reader, name)}")
    return found


def _stored(reader: CheckpointFiles, name: str) -> str:
    dtype, shape = reader.describe(name)
    return f"{dtype.name} {list(shape)}"


def _compare(found: Differences, reader: CheckpointFiles, item: Wanted) -> None:
    name, spec, dtype, dims, reshaped = item
    if spec:
        dims, reshaped = parse_shape_and_slice(spec)[0], False
    line = f"the program wants {dtype.name}{'' if dims is None else f' {list(dims)}'}"
    if name not in reader:
        found.missing.append(f"Key {name} not found in checkpoint; {line}")
        return
    stored_dtype, stored = reader.describe(name)
    if dims is None:
        fits = True
    elif reshaped:
        fits = num_elements(dims) in (None, num_elements(stored))
    else:
        fits = len(dims) == len(stored) and all(w in (None, s) for w, s in zip(dims, stored))
    if stored_dtype is not dtype or not fits:
        found.other.append(f"{name}: {line}; the checkpoint has {_stored(reader, name)}")


def restored_by(graph: Graph, saver_def: Any) -> Iterator[Wanted]:
    """Yield each tensor that a saver's nodes restore."""
    seen: set[Operation] = set()
    waiting = [graph.get_operation_by_name(saver_def.restore_op_name)]
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        waiting += op.control_inputs
        if op.op_def.role is not roles.RESTORE:
            waiting += [tensor.op for tensor in op.inputs]
            continue
        names, specs = (static_value(*op.inputs[i].edge) for i in (1, 2))
        if names is None or specs is None:
            continue
        for port, (name, spec) in enumerate(zip(names.tolist(), specs.tolist())):
            dims, reshaped = _wanted_dims(op, port)
            yield Wanted(
                name.decode("utf-8", "surrogateescape"),
                spec.decode(),
                op.outputs[port].dtype,
                dims,
                reshaped,
            )


def _wanted_dims(op: Operation, port: int) -> tuple[Any, bool]:
    """Return the shape of the variable that takes a restored tensor, None if that is not known,
    and whether the tensor is given another shape on the way."""
    reshaped = False
    waiting = list(op.outputs[port].consumers())
    while waiting:
        taker = waiting.pop()
        reshapes = taker.op_def.role is roles.RESHAPE
        if reshapes or taker.op_def.role is roles.IDENTITY:
            reshaped |= reshapes
            waiting += taker.outputs[0].consumers()
        elif taker.op_def.role is roles.ASSIGN:
            variable = taker.inputs[0]
            if variable.dtype.is_ref_dtype:
                return variable.dims, reshaped
            shape = variable.op.attrs.get("shape")
            return (None if shape is None else shape.sizes), reshaped
    return None, False
