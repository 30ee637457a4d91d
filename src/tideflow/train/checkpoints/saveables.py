"""What savers save: variables, slices of partitioned ones, and objects that save themselves.

A saveable has specs, one for each tensor that goes into a checkpoint, and says how it takes them
back.

Source: tensorflow/python/training/saving/saveable_object{,_util}.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tideflow.graph import roles
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import ShapeLike
from tideflow.ops.array import reshape
from tideflow.ops.framework import Saved, SavedPart, identity, nest
from tideflow.ops.state import (
    PartitionedVariable,
    RefVariable,
    ResourceVariable,
    Variable,
    kinds,
)
from tideflow.wire.device_name import parse_device_name
from tideflow.wire.dtypes import DType

# What a tensor that is saved comes from.
_SAVED = frozenset({roles.VARIABLE, roles.VARIABLE_HANDLE, roles.READ_VARIABLE})


def on_cpu(device: str) -> str:
    """Return the CPU of the task of a device."""
    return parse_device_name(device).replace(device_type="CPU", device_index=0).to_string()


class SaveSpec:
    """One tensor of a checkpoint.

    Attributes: nbytes, the bytes that it takes, 0 where its shape is not known.

    Args:
      tensor: what to save, or a function that makes it where it is wanted.
      slice_spec: which part of a larger tensor it is ("4 3 0,2:0,3"), "" for a whole.
      name: the key in the checkpoint.
      dtype, device: the tensor's; needed for a function.
      shape: the tensor's; that of a function is not known without it.
    """

    def __init__(
        self,
        tensor: Any,
        slice_spec: str,
        name: str,
        dtype: DType | None = None,
        device: str | None = None,
        shape: ShapeLike | None = None,
    ) -> None:
        self._tensor = tensor
        self.slice_spec = slice_spec
        self.name = name
        if callable(tensor) and (dtype is None or device is None):
            raise ValueError(f"the tensor {name!r} is made later: its dtype and device are needed")
        self.dtype: DType = (tensor.dtype if dtype is None else dtype).base_dtype
        self.device: str = tensor.device if device is None else device
        known = tensor.shape if shape is None and not callable(tensor) else shape
        self.nbytes: int = (TensorShape(known).num_elements() or 0) * self.dtype.size

    @property
    def tensor(self) -> Any:
        """The tensor to save."""
        return self._tensor() if callable(self._tensor) else self._tensor


class SaveableObject:
    """Base of what can be saved and restored.

    Attributes: op, the thing itself (None for none); specs; name.
    """

    def __init__(self, op: Any, specs: Sequence[SaveSpec], name: str) -> None:
        self.op = op
        self.specs = list(specs)
        self.name = name

    @property
    def device(self) -> str:
        """The device of the tensors."""
        return self.specs[0].device

    @property
    def nbytes(self) -> int:
        """The bytes that the tensors take, as far as they are known."""
        return sum(spec.nbytes for spec in self.specs)

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list[Any] | None) -> Any:
        """Return an operation that takes tensors back, in the order of the specs.

        restored_shapes: the shapes to give them first; None leaves them as they are.
        """
        raise TypeError(f"{type(self).__name__} does not say how it is restored")


class ReferenceVariableSaveable(SaveableObject):
    """A reference variable, or the tensor that refers to it."""

    def __init__(self, var: Any, slice_spec: str, name: str) -> None:
        super().__init__(var, [SaveSpec(var, slice_spec, name, dtype=var.dtype)], name)

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list[Any] | None) -> Any:
        """Return an operation that assigns the value."""
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = reshape(value, restored_shapes[0])
        fixed = self.op.get_shape().is_fully_defined()
        reference = self.op._ref() if isinstance(self.op, RefVariable) else self.op
        with get_default_graph().colocate_with(reference.op):
            made: Tensor = apply_op(
                "Assign", reference, value, validate_shape=restored_shapes is None and fixed
            )
        return made.op


class ResourceVariableSaveable(SaveableObject):
    """A resource variable, or a tensor that reads it."""

    def __init__(self, var: Any, slice_spec: str, name: str) -> None:
        tensor: Any = var
        if isinstance(var, Tensor):
            self._handle = var.op.inputs[0]
        elif isinstance(var, ResourceVariable):
            self._handle = var.handle
            tensor = _reader(var)
        else:
            raise ValueError(f"{var!r} is neither a resource variable nor a tensor that reads one")
        self._shape = var.shape
        spec = SaveSpec(tensor, slice_spec, name, var.dtype, var.device, var.shape)
        super().__init__(var, [spec], name)

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list[Any] | None) -> Any:
        """Return an operation that assigns the value.

        Raises: ValueError for a shape that the variable cannot take.
        """
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = reshape(value, restored_shapes[0])
        if not self._shape.is_compatible_with(value.shape):
            raise ValueError(
                f"tensor {self.name!r} would be restored with shape {value.shape}; its variable "
                f"has {self._shape}"
            )
        with get_default_graph().device(self.device):
            return apply_op(
                "AssignVariableOp",
                self._handle,
                identity(value),
                validate_shape=self._shape.is_fully_defined(),
            )


class PartsSaveable(SaveableObject):
    """An object whose value is several tensors, such as a table; the keys are of its parts."""

    def __init__(self, owner: Saved, keys: Sequence[str]) -> None:
        specs = [
            SaveSpec(part.read_value, "", key, part.dtype, part.device)
            for key, part in zip(keys, owner.saved_parts)
        ]
        super().__init__(owner, specs, owner.name)

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list[Any] | None) -> Any:
        """Return an operation that gives the object its value."""
        return self.op.restore_parts(restored_tensors)


def with_whole_objects(named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return what is saved under each key, the parts of an object as one; not some of its parts.

    Args:
      named: keys, with variables and parts of objects.
    """
    found: dict[str, Any] = {}
    keys: dict[int, dict[str, str]] = {}
    owners: dict[int, Saved] = {}
    for key, thing in named:
        if isinstance(thing, SavedPart):
            owners[id(thing.owner)] = thing.owner
            keys.setdefault(id(thing.owner), {})[thing.attribute] = key
        else:
            found[key] = thing
    for number, owner in owners.items():
        own = keys[number]
        if len(own) == len(owner.saved_parts):
            whole = PartsSaveable(owner, [own[part.attribute] for part in owner.saved_parts])
            found[whole.specs[0].name] = whole
    return found


def _reader(variable: Any) -> Callable[[], Tensor]:
    """Return a function that reads a variable and brings the value to its task's CPU."""

    def read() -> Tensor:
        graph = get_default_graph()
        with graph.device(variable.device):
            value = variable.read_value()
            with graph.device("/device:CPU:0"):
                return identity(value)

    return read


def variable_saveable(variable: Any, slice_spec: str, name: str) -> SaveableObject:
    """Return the saveable of one variable, or of a tensor that is or reads one."""
    if variable.op.op_def.role is roles.VARIABLE:
        return ReferenceVariableSaveable(variable, slice_spec, name)
    return ResourceVariableSaveable(variable, slice_spec, name)


def saveables_for(item: Any, name: Any) -> Iterator[SaveableObject]:
    """Yield what is saved of an item under a name.

    Args:
      item: a variable, a partitioned one, a list of slices of one tensor, a tensor that reads a
        variable, or a saveable.
    Raises: TypeError for another name or item; ValueError for slices that do not belong together.
    """
    if not isinstance(name, str):
        raise TypeError(f"the names of variables to save must be strings; {name!r} is none")
    if isinstance(item, SaveableObject):
        yield item
    elif hasattr(item, "saved_parts"):
        yield PartsSaveable(item, [f"{name}{part.suffix}" for part in item.saved_parts])
    elif isinstance(item, (list, tuple, PartitionedVariable)):
        yield from _slices(list(item), name)
    elif isinstance(item, ResourceVariable):
        read = item if _is_eager(item) else item._as_graph_element()
        yield ResourceVariableSaveable(read, "", name)
    else:
        tensor = _variable_tensor(item)
        yield variable_saveable(tensor, "", name)


def _is_eager(item: object) -> bool:
    return kinds.eager is not None and isinstance(item, kinds.eager)


def _slices(items: list[Any], name: str) -> Iterator[SaveableObject]:
    whole: str | None = None
    for item in items:
        if isinstance(item, SaveableObject):
            yield item
            continue
        part = item._get_save_slice_info() if isinstance(item, Variable) else None
        if part is None:
            raise ValueError(f"{item!r} is no slice of a variable; {name!r} is saved in slices")
        if whole not in (None, part.full_name):
            raise ValueError(f"{name!r} has slices of both {whole!r} and {part.full_name!r}")
        whole = part.full_name
        yield variable_saveable(item, part.spec, name)


def _variable_tensor(item: Any) -> Tensor:
    """Return the tensor that is or reads a variable.  Raises: TypeError for anything else."""
    if isinstance(item, RefVariable):
        return item._ref()
    found = item._as_graph_element() if isinstance(item, Variable) else item
    if not isinstance(found, Tensor) or found.op.op_def.role not in _SAVED:
        raise TypeError(f"{item!r} is no variable, and so is not saved")
    return found


def by_name(items: Any) -> dict[str, Any]:
    """Return variables by the names under which they are saved; slices of one tensor as a list.

    Raises: TypeError for what is no list of variables; ValueError for two of one name.
    """
    if not isinstance(items, (list, tuple, set)):
        raise TypeError(f"the variables to save must be a list or a dict, not {items!r}")
    found: dict[str, Any] = {}
    for item in sorted(_flat(items), key=lambda item: str(item.name)):
        if isinstance(item, Variable) and item._get_save_slice_info() is not None:
            whole = item._get_save_slice_info().full_name  # type: ignore[union-attr]
            if not isinstance(found.setdefault(whole, []), list):
                raise ValueError(f"{whole!r} is both a variable and one that has slices")
            found[whole].append(item)
            continue
        if _is_eager(item):
            if found.setdefault(item._shared_name, item) is not item:
                raise ValueError(
                    f"Two different ResourceVariable objects with the same shared_name "
                    f"{item._shared_name!r} were passed to the Saver; give it a dict of names"
                )
            continue
        name, thing = item.name, item
        has_name = isinstance(item, (SaveableObject, PartitionedVariable))
        if not has_name and not hasattr(item, "saved_parts"):
            thing = _variable_tensor(item)
            reads = thing.op.op_def.role is roles.READ_VARIABLE
            name = thing.op.inputs[0].op.name if reads else thing.op.name
        if name in found:
            raise ValueError(f"at least two of the variables to save are called {name!r}")
        found[name] = thing
    return found


def _flat(items: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if isinstance(item, (list, tuple, set)):
            found += _flat(item)
        elif isinstance(item, Mapping):
            found += nest.flatten(item)
        else:
            found.append(item)
    return found


def saveables_by_name(named: Mapping[str, Any]) -> list[SaveableObject]:
    """Return what is saved of named items, in the order of the names.

    Raises: ValueError for a thing that would be saved under two names.
    """
    found: list[SaveableObject] = []
    seen: set[int] = set()
    for name, item in sorted(named.items()):
        for saveable in saveables_for(item, name):
            if saveable.op is not None and id(saveable.op) in seen:
                raise ValueError(f"{saveable.op!r} is saved twice, once as {saveable.name!r}")
            seen.add(id(saveable.op))
            found.append(saveable)
    return found


def all_saveable_objects(scope: str | None = None) -> list[Any]:
    """Return the graph's global variables and the objects that ask to be saved."""
    graph = get_default_graph()
    return [
        *graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope),
        *graph.get_collection(GraphKeys.SAVEABLE_OBJECTS, scope),
    ]
