"""The objects that a model consists of, as they go into a saved model.

Besides what checkpoints follow these are functions with their traces, what traces capture, and the
functions by which resources are made, filled, saved and restored.

Source: tensorflow/python/saved_model/save.py; recorded files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tideflow import logging
from tideflow.eager.functions import ConcreteFunction, Function
from tideflow.eager.tracking import functions_of
from tideflow.graph.graph import Tensor
from tideflow.graph.type_spec import type_spec_of
from tideflow.ops.data.spec_files import structured_value
from tideflow.ops.framework import Asset, CapturableResource, Trackable, constant
from tideflow.ops.state.base import Variable
from tideflow.train.checkpoints import has_value, is_tracked, saved_parts
from tideflow.wire import dtypes

# What a value is captured by is a handle of one of these types, and a file's otherwise a constant.
_HANDLES = (dtypes.resource, dtypes.variant)
# Under this name TensorFlow finds the functions by which the whole of a resource is saved.
WHOLE_VALUE = ".TENSORS"


class Captured:
    """A tensor outside of functions that they use: a constant of the model."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


@dataclass(frozen=True)
class Intermediate:
    """A tensor within a function that the function of a gradient uses.

    Attributes: name, as in the body; function, its name in the library.
    """

    name: str
    function: str


@dataclass
class SavedNode:
    """One object of a model.

    Attributes: path, names from the root; children, numbers of nodes by name; saving, the numbers
    of the functions that save and restore its value, None for an object without.
    """

    thing: Any
    path: tuple[str, ...]
    children: list[tuple[str, int]] = field(default_factory=list)
    saving: tuple[int, int] | None = None


def variable_of(thing: Any) -> Any:
    """Return the variable that an object is, or that a library's variable holds; else None."""
    if isinstance(thing, Variable):
        return thing
    return thing.value if getattr(thing, "_should_act_as_resource_variable", False) else None


class ObjectView:
    """All objects that a root leads to, numbered breadth first.

    Args:
      root: the model.
      signatures: what is its child `signatures`.
    Attributes: nodes; concrete, the traces among them.
    """

    def __init__(self, root: Any, signatures: Any) -> None:
        self.nodes: list[SavedNode] = []
        self._numbers: dict[int, int] = {}
        self._holders: dict[int, int] = {}
        self._signatures = signatures
        self._collect(root)
        for node in list(self.nodes):
            if isinstance(node.thing, CapturableResource):
                self._add_saving(node)
        for number, node in enumerate(self.nodes):
            for handle in _handles(node.thing):
                self._holders[id(handle)] = number
        for node in list(self.nodes):
            if isinstance(node.thing, ConcreteFunction):
                self._add_constants(node)

    @property
    def concrete(self) -> list[ConcreteFunction]:
        """The traces among the objects."""
        return [n.thing for n in self.nodes if isinstance(n.thing, ConcreteFunction)]

    def number_of(self, thing: Any) -> int:
        """Return the number of an object's node."""
        return self._numbers[id(thing)]

    def holder_of(self, tensor: Tensor) -> int | None:
        """Return the number of the object that gives what a function captures; None for none."""
        return self._holders.get(id(tensor))

    def _collect(self, root: Any) -> None:
        self._add(root, ())
        waiting = deque([0])
        while waiting:
            node = self.nodes[waiting.popleft()]
            children = dict(_children(node.thing))
            if node.thing is root:
                children["signatures"] = self._signatures
            for name, child in children.items():
                if not is_tracked(child):
                    continue
                if id(child) not in self._numbers:
                    waiting.append(self._add(child, (*node.path, name)))
                node.children.append((name, self._numbers[id(child)]))

    def _add(self, thing: Any, path: tuple[str, ...]) -> int:
        number = len(self.nodes)
        self._numbers[id(thing)] = number
        self.nodes.append(SavedNode(thing, path))
        return number

    def _add_saving(self, node: SavedNode) -> None:
        """Trace how the value of a resource, such as a table, is saved and restored."""
        parts = saved_parts(node.thing)
        if not parts:
            return
        given = {part.attribute: part for part in parts}
        save = Function(
            lambda: {name: part.read_value() for name, part in given.items()}, "save_fn"
        ).get_concrete_function()

        def restore(restored_tensors: Mapping[str, Any]) -> Any:
            for name, part in given.items():
                part.assign(restored_tensors[name])
            return constant(1)

        specs = specs_of(save.structured_outputs)
        made = Function(restore, "restore_fn").get_concrete_function(specs)
        node.saving = self._add(save, ()), self._add(made, ())

    def _add_constants(self, node: SavedNode) -> None:
        for place, tensor in enumerate(node.thing.captured_inputs):
            number = self.holder_of(tensor)
            if number is None and self._is_constant(tensor):
                number = self._add(Captured(tensor), ())
                self._holders[id(tensor)] = number
            if number is not None and isinstance(self.nodes[number].thing, (Captured, Asset)):
                node.children.append((f"capture_{place}", number))

    def _is_constant(self, tensor: Tensor) -> bool:
        is_value = isinstance(tensor, Tensor) and tensor.graph.is_eager
        return is_value and tensor.dtype.base_dtype not in _HANDLES

    def add_intermediate(self, tensor: Tensor, name: str, function: str) -> int:
        """Add a tensor of a function that the function of a gradient uses; returns its number."""
        number = self._add(Intermediate(name, function), ())
        self._holders[id(tensor)] = number
        return number

    def require_holder(self, tensor: Tensor, concrete: ConcreteFunction) -> int:
        """Return the number of the object that gives what a function captures.

        Raises: AssertionError for a resource that no object of the model holds.
        """
        number = self.holder_of(tensor)
        if number is None:
            raise AssertionError(
                "Tried to export a function which references an 'untracked' resource. TensorFlow "
                "objects (e.g. tf.Variable) captured by functions must be 'tracked' by assigning "
                "them to an attribute of a tracked object or assigned to an attribute of the main "
                f"object directly. Function name = {concrete.name!r}; captured tensor = {tensor!r}"
            )
        return number


def _handles(thing: Any) -> Iterator[Any]:
    """Yield the tensors by which functions capture an object."""
    variable = variable_of(thing)
    if variable is not None:
        copies = getattr(variable, "values", None) if _is_distributed(variable) else None
        yield from (copy._node for copy in copies or [variable])
    elif isinstance(thing, Asset):
        yield thing.asset_path
    elif isinstance(thing, CapturableResource):
        yield thing.resource_handle


def _is_distributed(variable: Any) -> bool:
    return bool(getattr(variable, "is_distributed", False))


def _children(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, by name."""
    if isinstance(thing, Function):
        traces = [one for one in thing.traces_to_save() if _can_be_told(one)]
        yield from ((f"trace_{number}", trace) for number, trace in enumerate(traces))
    elif isinstance(thing, ConcreteFunction) or variable_of(thing) is not None:
        return
    elif has_value(thing):  # a variable in parts
        yield from ((str(number), part) for number, part in enumerate(thing.variables))
    elif isinstance(thing, Mapping):
        yield from ((name, value) for name, value in thing.items() if isinstance(name, str))
    elif isinstance(thing, (list, tuple)):
        yield from ((str(number), value) for number, value in enumerate(thing))
    elif isinstance(thing, Trackable):
        yield from _trackable_children(thing)


def _trackable_children(thing: Trackable) -> Iterator[tuple[str, Any]]:
    if type(thing)._checkpoint_children is not Trackable._checkpoint_children:
        yield from thing._checkpoint_children().items()
        yield from functions_of(thing).items()
    else:
        yield from thing._trackable_children(save_type="savedmodel", cache={}).items()
    if isinstance(thing, CapturableResource):
        yield from _resource_functions(thing).items()


def _resource_functions(resource: CapturableResource) -> dict[str, Function]:
    """Return the functions by which a loaded model makes, fills and ends a resource."""

    def fill() -> Any:
        resource._initialize()
        return constant(1)

    def end() -> Any:
        resource._destroy_resource()
        return constant(1)

    return {
        "_create_resource": Function(resource._create_resource, "_creator", []),
        "_initialize": Function(fill, "_initializer", []),
        "_destroy_resource": Function(end, "_destroyer", []),
    }


def _can_be_told(trace: ConcreteFunction) -> bool:
    """Whether what a trace was made for has a form in files."""
    try:
        structured_value(trace.structured_input_signature)
    except TypeError as error:
        logging.warning("a trace of %s is not saved: %s", trace.name.decode(), error)
        return False
    return True


def specs_of(value: Any) -> Any:
    """Return a structure of results with a TypeSpec for each value."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {name: specs_of(item) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(specs_of, value))
    if isinstance(value, (list, tuple)):
        items = [specs_of(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return spec_of(value)


def spec_of(value: Any) -> Any:
    """Return the TypeSpec of one value.  Raises: TypeError for a value that has none."""
    found = type_spec_of(value)
    if found is None:
        raise TypeError(f"{value!r:.80} cannot be saved as the result of a function")
    return found


def variables_of(nodes: Sequence[SavedNode]) -> Iterator[tuple[int, Any]]:
    """Yield number and variable of the nodes that are variables."""
    for number, node in enumerate(nodes):
        variable = variable_of(node.thing)
        if variable is not None:
            yield number, variable
