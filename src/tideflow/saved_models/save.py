"""tf.saved_model.save: objects, their functions and values, as a directory.

Source: tensorflow/python/saved_model/save.py.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from tideflow import __version__
from tideflow.eager.functions import ConcreteFunction, Function
from tideflow.formats import file_errors
from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import Asset, CapturableResource, Trackable
from tideflow.ops.state import init_scope
from tideflow.saved_models.checkpoints import write_checkpoint
from tideflow.saved_models.constants import DEBUG_DIRECTORY, DEBUG_INFO_FILENAME_PB, SERVING
from tideflow.saved_models.files import asset_path, variables_path, write_saved_model
from tideflow.saved_models.fingerprint import write_fingerprint
from tideflow.saved_models.objects import (
    WHOLE_VALUE,
    Captured,
    Intermediate,
    ObjectView,
    variable_of,
)
from tideflow.saved_models.options import SaveOptions
from tideflow.saved_models.registered import identifier_of
from tideflow.saved_models.signatures import SignatureMap, signatures_of
from tideflow.saved_models.written_functions import (
    FunctionLibrary,
    bare_function_message,
    function_message,
)
from tideflow.saved_models.written_graph import SessionGraph
from tideflow.train.graphs import TENSORFLOW_VERSION
from tideflow.wire import messages as pb
from tideflow.wire.shapes import encode_shape


@export("saved_model.save", "saved_model.experimental.save")
@export_v2("saved_model.save")
def save(
    obj: Any, export_dir: str, signatures: Any = None, options: SaveOptions | None = None
) -> None:
    """Write an object, with the functions and variables that it leads to, as a saved model.

    Args:
      obj: a tf.Module, a Keras model, or any other object that checkpoints follow.
      export_dir: the directory; what it holds of a model is replaced.
      signatures: functions that can be served, by name, or one; each has an input_signature or is
        a concrete function.  The only such function of the object by default.
    Raises: ValueError for what is no such object or signature; AssertionError where a function
    uses a variable that the object does not hold.
    """
    if not isinstance(obj, Trackable):
        raise ValueError(
            "Expected an object of type `Trackable`, such as `tf.Module` or a subclass of the "
            f"`Trackable` class, for export. Got {obj!r} with type {type(obj)}."
        )
    if not get_default_graph().is_eager and _is_tracing():
        raise AssertionError("tf.saved_model.save is not supported inside a traced @tf.function")
    folder = os.fspath(export_dir)
    chosen = options or SaveOptions()
    with init_scope():
        model = _Model(obj, signatures, chosen)
        model_pb = pb.SavedModel(saved_model_schema_version=1, meta_graphs=[model.message()])
        with file_errors("make the directory", folder):
            os.makedirs(os.path.dirname(variables_path(folder)), exist_ok=True)
        write_checkpoint(model.view, variables_path(folder), chosen.experimental_sharding_callback)
    _copy_assets(model.session_graph.assets, folder)
    if chosen.save_debug_info:
        _write_debug_info(folder)
    path = write_saved_model(model_pb, folder)
    write_fingerprint(folder, path)


def _is_tracing() -> bool:
    return bool(get_default_graph().building_function)


def _copy_assets(assets: dict[str, str], export_dir: str) -> None:
    folder = asset_path(export_dir, "")
    with file_errors("make the directory", folder):
        os.makedirs(folder, exist_ok=True)
    for name, source in assets.items():
        target = asset_path(export_dir, name)
        if os.path.abspath(source) != os.path.abspath(target):
            with file_errors("copy", source):
                shutil.copyfile(source, target)


def _write_debug_info(export_dir: str) -> None:
    folder = os.path.join(export_dir, DEBUG_DIRECTORY)
    with file_errors("write", folder):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, DEBUG_INFO_FILENAME_PB), "wb") as file:
            file.write(pb.GraphDebugInfo().SerializeToString())


class _Model:
    """One model while it is written."""

    def __init__(self, root: Any, signatures: Any, options: SaveOptions) -> None:
        self._options = options
        self._signatures: SignatureMap = signatures_of(root, signatures)
        self.view = ObjectView(root, self._signatures)
        self._functions = FunctionLibrary(self.view, options.experimental_custom_gradients)
        has_saver = not options.experimental_skip_saver
        self.session_graph = SessionGraph(self.view, self._signatures, has_saver)

    def message(self) -> pb.MetaGraphDef:
        """Return all that is told of the model but its values."""
        meta_pb = self.session_graph.message(self._functions.messages())
        meta_pb.graph_def.library.registered_gradients.extend(self._functions.registered)
        _check_namespaces(meta_pb.graph_def, self._options.namespace_whitelist)
        info_pb = meta_pb.meta_info_def
        info_pb.tags.extend([SERVING, *(self._options.extra_tags or ())])
        info_pb.tensorflow_version = TENSORFLOW_VERSION
        info_pb.tensorflow_git_version = f"tideflow-{__version__}"
        info_pb.stripped_default_attrs = True
        for alias, function in self._options.function_aliases.items():
            for trace in function.traces_to_save():  # type: ignore[attr-defined]
                info_pb.function_aliases[trace.graph.name] = alias
        objects_pb = meta_pb.object_graph_def
        for name, trace_pb in self._functions.traces():
            objects_pb.concrete_functions[name].CopyFrom(trace_pb)
        for number in range(len(self.view.nodes)):
            objects_pb.nodes.append(self._object_message(number))
        return meta_pb

    def _object_message(self, number: int) -> pb.SavedObject:
        node = self.view.nodes[number]
        made = pb.SavedObject()
        for name, child in node.children:
            made.children.add(local_name=name, node_id=child)
        if node.saving is not None:
            save_number, restore_number = node.saving
            whole_pb = made.saveable_objects[WHOLE_VALUE]
            whole_pb.save_function = save_number
            whole_pb.restore_function = restore_number
        self._fill_kind(made, number)
        if made.WhichOneof("kind") in ("function", "bare_concrete_function"):
            made.dependencies.extend(made.children)
        return made

    def _fill_kind(self, made: pb.SavedObject, number: int) -> None:
        thing = self.view.nodes[number].thing
        variable = variable_of(thing)
        if variable is not None:
            _fill_variable(made.variable, variable, self._options)
        elif isinstance(thing, Asset):
            made.asset.asset_file_def_index = self.session_graph.asset_numbers[number]
            made.asset.SetInParent()
        elif isinstance(thing, Captured):
            made.constant.operation = self.session_graph.constants[number]
            made.registered_name = "tf.TrackableConstant"
        elif isinstance(thing, Intermediate):
            made.captured_tensor.name = thing.name
            made.captured_tensor.concrete_function = thing.function
        elif isinstance(thing, CapturableResource):
            made.resource.device = thing._resource_device
            made.resource.SetInParent()
        elif isinstance(thing, Function):
            children = self.view.nodes[number].children
            traces = [self.view.nodes[child].thing.graph.name for _, child in children]
            made.function.CopyFrom(function_message(thing, traces))
        elif isinstance(thing, ConcreteFunction):
            is_signature = any(thing is one for one in self._signatures.values())
            made.bare_concrete_function.CopyFrom(bare_function_message(thing, is_signature))
        else:
            made.user_object.CopyFrom(identifier_of(thing))


def _fill_variable(variable_pb: pb.SavedVariable, variable: Any, options: SaveOptions) -> None:
    variable_pb.dtype = variable.dtype.base_dtype.number
    variable_pb.shape.CopyFrom(encode_shape(variable.shape.sizes))
    variable_pb.trainable = bool(variable.trainable)
    variable_pb.synchronization = variable.synchronization.value
    variable_pb.aggregation = variable.aggregation.value
    variable_pb.name = variable.name.partition(":")[0]
    policy = options.experimental_variable_policy
    if policy._save_variable_devices():
        variable_pb.device = variable.device
    copies = getattr(variable, "values", ()) if getattr(variable, "is_distributed", False) else ()
    if policy._expand_distributed_variables():
        for copy in copies:
            _fill_variable(
                variable_pb.experimental_distributed_variable_components.add(), copy, options
            )


def _check_namespaces(graph_pb: pb.GraphDef, allowed: list[str] | None) -> None:
    """Raise ValueError where a graph uses ops of other namespaces than these."""
    if allowed is None:
        return
    bodies = [function_pb.node_def for function_pb in graph_pb.library.function]
    used = {node_pb.op for nodes in [graph_pb.node, *bodies] for node_pb in nodes}
    refused = sorted(op for op in used if ">" in op and op.split(">")[0] not in allowed)
    if refused:
        raise ValueError(
            f"Attempted to save ops from non-whitelisted namespaces to SavedModel: {refused}.\n"
            "Please verify that these ops should be saved, since they must be available when "
            "loading the SavedModel. If loading from Python, you must import the library defining "
            "these ops. From C++, link the custom ops to the serving binary. Once you've confirmed "
            "this, add the following namespaces to the `namespace_whitelist` argument in "
            f"tf.saved_model.SaveOptions: {sorted({op.split('>')[0] for op in refused})}."
        )
