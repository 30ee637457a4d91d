"""tf.saved_model.load: objects, their functions and values, from a directory.

Source: tensorflow/python/saved_model/load.py for rules and messages.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.eager.functions import ConcreteFunction, Function
from tideflow.eager.variable import VariableV2
from tideflow.graph import roles
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.op_def import role_of
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import Asset, CapturableResource, SavedPart
from tideflow.ops.state import VariableAggregation, VariableSynchronization, init_scope
from tideflow.saved_models.files import (
    asset_path,
    meta_graph_with_tags,
    parse_saved_model,
    variables_path,
)
from tideflow.saved_models.objects import WHOLE_VALUE
from tideflow.saved_models.options import LoadOptions
from tideflow.saved_models.registered import Setter, new_object
from tideflow.saved_models.restored_functions import RestoredFunction, RestoredLibrary
from tideflow.saved_models.values import SavedValues
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.shapes import decode_shape
from tideflow.wire.tensor_codec import decode_tensor


@export("saved_model.load_v2")
@export_v2("saved_model.load")
def load(
    export_dir: str, tags: str | Iterable[str] | None = None, options: LoadOptions | None = None
) -> Any:
    """Load a saved model: an object with its variables and functions, and `signatures`.

    Args:
      export_dir: the directory.
      tags: of the graph; not needed where there is only one.
    Raises: OSError where there is no model; DataLossError for damaged files; NotFoundError for an
    op that is not there, with its function and node; ValueError for other tags.
    """
    return load_partial(export_dir, None, tags, options)["root"]


@export_v2("__internal__.saved_model.load_partial")
def load_partial(
    export_dir: str,
    filters: Any,
    tags: str | Iterable[str] | None = None,
    options: LoadOptions | None = None,
) -> dict[str, Any]:
    """Load a saved model, and return some of its objects.

    filters: paths of objects, such as "root.layer"; None for the root.
    Returns: the objects by their paths.
    Raises: as load; ValueError for a path that leads nowhere.
    """
    folder = os.fspath(export_dir)
    model_pb = parse_saved_model(folder)
    wanted = [tags] if isinstance(tags, str) else tags
    if not model_pb.meta_graphs[0].HasField("object_graph_def"):
        raise ValueError(
            f"the saved model at {folder} holds no objects: load it into a session, with "
            "tf.compat.v1.saved_model.load"
        )
    meta_pb = model_pb.meta_graphs[0]
    own = sorted(meta_pb.meta_info_def.tags)
    if wanted is not None and (given := sorted(wanted)) != own:
        raise ValueError(
            f"Got an incompatible argument to `tags`: {given}. The SavedModel at {folder} has one "
            f"MetaGraph with tags {own}. You may omit the argument, pass 'None', or pass {own}."
        )
    if len(model_pb.meta_graphs) > 1:
        meta_pb = meta_graph_with_tags(model_pb, wanted, folder)
    with init_scope():
        if not get_default_graph().is_eager:
            raise NotImplementedError("a saved model of objects is loaded in eager mode only")
        loader = _Loader(meta_pb, folder, options or LoadOptions())
        root = loader.load()
    return {path: _at_path(root, path) for path in (["root"] if filters is None else filters)}


def _at_path(root: Any, path: str) -> Any:
    first, *names = path.split(".")
    if first != "root":
        raise ValueError(
            "When passing string identifiers to node_filters, the first name must be root. "
            f"Received {first}."
        )
    found = root
    for name in names:
        held = found._lookup_dependency(name) if hasattr(found, "_lookup_dependency") else None
        if held is None:
            raise ValueError(f"Unable to find node {path}.")
        found = held
    return found


class _Loader:
    """Makes the objects of one model, each when it is first needed."""

    def __init__(self, meta_pb: pb.MetaGraphDef, export_dir: str, options: LoadOptions) -> None:
        self._meta_pb = meta_pb
        self._objects_pb = meta_pb.object_graph_def
        self._export_dir = export_dir
        self._options = options
        self._values: SavedValues | None = None
        if not options.experimental_skip_checkpoint and self._holds_values():
            self._values = SavedValues(variables_path(export_dir), self._objects_pb)
        self._things: dict[int, Any] = {}
        self._setters: dict[int, Setter] = {}
        self._library = RestoredLibrary(meta_pb, self._captured, f"saved model {export_dir}")
        self._constants = {
            node_pb.name: node_pb
            for node_pb in meta_pb.graph_def.node
            if role_of(node_pb.op) is roles.CONST
        }

    def _holds_values(self) -> bool:
        return any(
            node_pb.WhichOneof("kind") == "variable" or node_pb.saveable_objects
            for node_pb in self._objects_pb.nodes
        )

    def load(self) -> Any:
        """Return the root, with all that it leads to."""
        count = len(self._objects_pb.nodes)
        things = [self._thing(number) for number in range(count)]
        for number, node_pb in enumerate(self._objects_pb.nodes):
            setter = self._setters.get(number)
            for child in node_pb.children if setter is not None else ():
                assert setter is not None
                setter(things[number], child.local_name, things[child.node_id])
        for number in range(count):
            if isinstance(things[number], RestoredResource):
                self._fill(number, things[number])
        root = things[0]
        info_pb = self._meta_pb.meta_info_def
        if hasattr(root, "__dict__"):
            vars(root)["tensorflow_version"] = info_pb.tensorflow_version
            vars(root)["tensorflow_git_version"] = info_pb.tensorflow_git_version
            if self._options.experimental_load_function_aliases:
                vars(root)["function_aliases"] = self._aliases(things)
        return root

    def _aliases(self, things: Sequence[Any]) -> dict[str, Any]:
        """Return functions by their other names: those with just the traces that have the name."""
        traces: dict[str, list[Any]] = {}
        for name, alias in self._meta_pb.meta_info_def.function_aliases.items():
            traces.setdefault(alias, []).append(self._library.concrete(name))
        functions = [thing for thing in things if isinstance(thing, Function)]
        found: dict[str, Any] = {}
        for alias, own in traces.items():
            wanted = {id(trace) for trace in own}
            alike = (f for f in functions if {id(t) for t in f.traces_to_save()} == wanted)
            found[alias] = next(alike, own)
        return found

    # ---- objects

    def _thing(self, number: int) -> Any:
        if number not in self._things:
            node_pb = self._objects_pb.nodes[number]
            kind = node_pb.WhichOneof("kind")
            make = getattr(self, f"_make_{kind}", None)
            if make is None:
                raise ValueError(f"object {number} of {self._export_dir} is of no kind: {kind}")
            self._things[number] = make(number, node_pb)
        return self._things[number]

    def _make_user_object(self, number: int, node_pb: pb.SavedObject) -> Any:
        made, self._setters[number] = new_object(node_pb.user_object)
        return made

    def _make_asset(self, number: int, node_pb: pb.SavedObject) -> Asset:
        name = self._meta_pb.asset_file_def[node_pb.asset.asset_file_def_index].filename
        return Asset(asset_path(self._export_dir, name))

    def _make_constant(self, number: int, node_pb: pb.SavedObject) -> Any:
        name = node_pb.constant.operation
        if name not in self._constants:
            raise errors.DataLossError(
                f"saved model {self._export_dir}: object {number} is the constant {name!r}, which "
                "the graph lacks"
            )
        attrs = self._constants[name].attr
        return convert_to_tensor(
            decode_tensor(attrs["value"].tensor), dtypes.as_dtype(attrs["dtype"].type)
        )

    def _make_captured_tensor(self, number: int, node_pb: pb.SavedObject) -> Any:
        captured = node_pb.captured_tensor
        graph = self._library.concrete(captured.concrete_function).graph
        return graph.get_tensor_by_name(captured.name)

    def _make_function(self, number: int, node_pb: pb.SavedObject) -> RestoredFunction:
        names = list(node_pb.function.concrete_functions)
        traces = [self._library.concrete(name) for name in names]
        shown = names[0].removeprefix("__inference_").rpartition("_")[0] if names else "function"
        return RestoredFunction(shown, node_pb.function.function_spec, traces)

    def _make_bare_concrete_function(self, number: int, node_pb: pb.SavedObject) -> Any:
        return self._library.concrete(node_pb.bare_concrete_function.concrete_function_name)

    def _make_variable(self, number: int, node_pb: pb.SavedObject) -> Any:
        variable_pb = node_pb.variable
        dtype = dtypes.as_dtype(variable_pb.dtype)
        dims = decode_shape(variable_pb.shape)
        return VariableV2(
            self._initial_value(number, variable_pb, dtype, dims),
            trainable=variable_pb.trainable,
            name=variable_pb.name or None,
            dtype=dtype,
            shape=dims,
            synchronization=VariableSynchronization(variable_pb.synchronization),
            aggregation=VariableAggregation(variable_pb.aggregation),
        )

    def _initial_value(
        self, number: int, variable_pb: pb.SavedVariable, dtype: dtypes.DType, dims: Any
    ) -> Any:
        if self._values is not None and self._values.has_variable(number):
            return convert_to_tensor(self._values.variable(number), dtype)
        if self._values is not None and not self._options.allow_partial_checkpoint:
            raise AssertionError(
                f"the checkpoint of {self._export_dir} has no value of variable "
                f"{variable_pb.name!r} (object {number})"
            )
        empty = b"" if dtype is dtypes.string else 0
        return np.full([size or 0 for size in dims or ()], empty, dtype.as_numpy_dtype)

    def _make_resource(self, number: int, node_pb: pb.SavedObject) -> RestoredResource:
        children = {child.local_name: child.node_id for child in node_pb.children}
        self._setters[number] = RestoredResource.add
        make = self._thing(children["_create_resource"])
        return RestoredResource(node_pb.resource.device, {"_create_resource": make})

    # ---- what functions capture, and values

    def _captured(self, number: int) -> Any:
        thing = self._thing(number)
        if isinstance(thing, Asset):
            return thing.asset_path
        if isinstance(thing, CapturableResource):
            return thing.resource_handle
        return thing._node if isinstance(thing, VariableV2) else thing

    def _fill(self, number: int, resource: RestoredResource) -> None:
        """Restore a resource from the checkpoint, and do what else fills it."""
        for name, saving in self._objects_pb.nodes[number].saveable_objects.items():
            save, restore = self._thing(saving.save_function), self._thing(saving.restore_function)
            resource.learn_saving(name, save, restore)
        names = [part.attribute for part in resource.saved_parts]
        if names and self._values is not None:
            values = self._values.parts(number, names)
            if values is not None:
                resource.restore_parts([convert_to_tensor(value) for value in values])
        resource._initialize()


class RestoredResource(CapturableResource):
    """A resource that the functions of a saved model make, fill and save."""

    def __init__(self, device: str, functions: Mapping[str, Any]) -> None:
        super().__init__(device)
        self._functions: dict[str, Any] = dict(functions)
        self.saved_parts: list[SavedPart] = []
        self._restore: Any = None
        self._is_whole = True
        self.name = "resource"

    def add(self, name: str, child: Any) -> None:
        """Take a child: one of the functions, or another object that it holds."""
        if isinstance(child, (Function, ConcreteFunction)):
            self._functions[name] = child
        elif hasattr(child, "_trackable_children"):
            self._track_trackable(child, name, overwrite=True)

    def _create_resource(self) -> Any:
        return self._functions["_create_resource"]()

    def _initialize(self) -> Any:
        return self._functions["_initialize"]() if "_initialize" in self._functions else None

    def learn_saving(self, name: str, save: Any, restore: Any) -> None:
        """Take the functions that save and restore the value, whole or under a name."""
        self._restore, self._is_whole = restore, name == WHOLE_VALUE
        outputs = save.structured_outputs
        if self._is_whole:
            for key, tensor in outputs.items():
                suffix = f"-{key.rpartition('-')[2]}"
                read = functools.partial(lambda name: save()[name], key)
                self.saved_parts.append(SavedPart(self, key, suffix, tensor.dtype, read))
            return
        told = save(convert_to_tensor(""))
        for place, one in enumerate(told):
            suffix = one["name"].numpy().decode()
            read = functools.partial(lambda at: save(convert_to_tensor(""))[at]["tensor"], place)
            part = SavedPart(self, f"{name}{suffix}", suffix, one["tensor"].dtype, read)
            self.saved_parts.append(part)

    def restore_parts(self, values: Sequence[Any]) -> Any:
        """Take values for all parts, in their order."""
        if self._is_whole:
            named = {part.attribute: value for part, value in zip(self.saved_parts, values)}
            return self._restore.call_flat([named[name] for name in sorted(named)])
        return self._restore.call_flat(list(values))
