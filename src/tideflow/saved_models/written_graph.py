"""The graph of a saved model, by which sessions and servers use it.

It has a node for each variable, resource and constant, calls of the signatures' functions, the
operation that prepares a session, and the nodes that save and restore the variables.

Source: tensorflow/python/saved_model/save.py; recorded files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tideflow.eager.functions import ConcreteFunction
from tideflow.graph import roles
from tideflow.graph.building import apply_op
from tideflow.graph.functions import FunctionDefinition
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import role_of
from tideflow.ops.control_flow import is_stateful
from tideflow.ops.framework import Asset, CapturableResource, no_op, placeholder
from tideflow.saved_models.constants import (
    INIT_OP_SIGNATURE_KEY,
    MAIN_OP_KEY,
    PREDICT_METHOD_NAME,
)
from tideflow.saved_models.objects import Captured, ObjectView, variables_of
from tideflow.saved_models.signatures import SignatureMap, argument_keywords
from tideflow.saved_models.tensor_infos import tensor_info
from tideflow.train.checkpoints import Saver, value_key
from tideflow.train.graphs import strip_default_attrs
from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.tensor_codec import decode_tensor

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.\-/]")


class SessionGraph:
    """Builds the graph of a model.

    Attributes:
      assets: the files to copy, by their names in the model.
      asset_numbers: for the node of a file, which of them it is.
      constants: for the node of a constant, the name of its operation.
    """

    def __init__(self, view: ObjectView, signatures: SignatureMap, has_saver: bool) -> None:
        self._view = view
        self._graph = Graph()
        self._tensors: dict[int, Tensor] = {}
        self._asset_ops: dict[int, Operation] = {}
        self._reads: dict[str, Tensor] = {}
        self.assets: dict[str, str] = {}
        self.asset_numbers: dict[int, int] = {}
        self.constants: dict[int, str] = {}
        self._meta_pb = pb.MetaGraphDef()
        with self._graph.as_default():
            self._add_objects()
            for key in sorted(signatures):
                self._add_signature(key, signatures[key])
            self._add_initialisation()
            if has_saver and self._reads:
                saver = Saver(self._reads, sharded=False, max_to_keep=0)
                self._meta_pb.saver_def.CopyFrom(saver.as_saver_def())

    def message(self, functions: list[pb.FunctionDef]) -> pb.MetaGraphDef:
        """Return the graph, with a library of functions."""
        graph_pb = self._graph.as_graph_def(add_shapes=True)
        del graph_pb.library.function[:]
        graph_pb.library.function.extend(functions)
        for node_pb in graph_pb.node:
            strip_default_attrs(node_pb)
            if role_of(node_pb.op) is roles.CONST:
                _list_strings(node_pb.attr["value"].tensor)
        self._meta_pb.graph_def.CopyFrom(graph_pb)
        return self._meta_pb

    # ---- objects

    def _add_objects(self) -> None:
        for number, node in enumerate(self._view.nodes):
            if isinstance(node.thing, Asset):
                self._add_asset(number, node.thing)
            elif isinstance(node.thing, Captured):
                value = node.thing.tensor.numpy()  # type: ignore[attr-defined]
                dtype = node.thing.tensor.dtype
                made = apply_op("Const", value=value, dtype=dtype, name="Const")
                self._tensors[number] = made
                self.constants[number] = made.op.name
        for number, variable in variables_of(self._view.nodes):
            self._tensors[number] = self._add_variable(number, variable)
        for number, node in enumerate(self._view.nodes):
            if isinstance(node.thing, CapturableResource):
                self._tensors[number] = self._made_resource(number)

    def _add_variable(self, number: int, variable: Any) -> Tensor:
        name = _NOT_IN_NAMES.sub("_", variable.name.partition(":")[0]) or "Variable"
        dtype = variable.dtype.base_dtype
        handle = self._handle(name, dtype, variable.shape)
        read = apply_op("ReadVariableOp", handle, dtype=dtype, name=f"{handle.op.name}/Read/")
        self._reads[value_key(self._view.nodes[number].path)] = read
        return handle

    def _handle(self, name: str, dtype: dtypes.DType, shape: Any) -> Tensor:
        unique = self._graph.unique_name(name if name[0].isalnum() else f"v{name}")
        made: Tensor = apply_op(
            "VarHandleOp", dtype=dtype, shape=shape, shared_name=unique, name=f"{unique}/"
        )
        return made

    def _add_asset(self, number: int, asset: Asset) -> None:
        path = asset.asset_path.numpy().decode()  # type: ignore[attr-defined]
        given = placeholder(dtypes.string, (), name="asset_path_initializer")
        handle = self._handle("Variable", dtypes.string, ())
        filled = apply_op("AssignVariableOp", handle, given, name=f"{handle.op.name}/Assign/")
        with self._graph.control_dependencies([filled]):
            self._tensors[number] = apply_op("ReadVariableOp", handle, dtype=dtypes.string)
        self._asset_ops[number] = filled
        self.asset_numbers[number] = len(self._meta_pb.asset_file_def)
        name = unused_name(path, self.assets)
        self.assets[name] = path
        file_pb = self._meta_pb.asset_file_def.add(filename=name)
        file_pb.tensor_info.name = given.name

    def _made_resource(self, number: int) -> Tensor:
        (made,) = self._call(self._function_of(number, "_create_resource"), []).outputs[:1]
        return made

    def _function_of(self, number: int, name: str) -> ConcreteFunction:
        children = dict(self._view.nodes[number].children)
        function = self._view.nodes[children[name]]
        found: ConcreteFunction = self._view.nodes[function.children[0][1]].thing
        return found

    def _call(self, concrete: ConcreteFunction, args: list[Tensor]) -> Operation:
        """Call a function of the model, with what it captures."""
        graph = concrete.graph
        holders = [self._view.require_holder(t, concrete) for t in concrete.captured_inputs]
        captured = [self._tensors[number] for number in holders]
        inputs = [*args, *captured]
        definition: FunctionDefinition = graph.functions[graph.name]
        with self._graph.as_default():
            made = self._graph.create_op(
                "StatefulPartitionedCall" if is_stateful(graph) else "PartitionedCall",
                inputs,
                {
                    "Tin": [tensor.dtype.base_dtype for tensor in inputs],
                    "Tout": list(concrete.function.output_types),
                    "f": FunctionRef(graph.name, definition=definition),
                    "config": "",
                    "config_proto": "",
                    "executor_type": "",
                },
            )
        for output, inner in zip(made.outputs, concrete.function.outputs):
            output.set_shape(inner.dims)
        return made

    # ---- signatures

    def _add_signature(self, key: str, concrete: ConcreteFunction) -> None:
        signature_pb = self._meta_pb.signature_def[key]
        signature_pb.method_name = PREDICT_METHOD_NAME
        given = []
        for name, (dtype, dims) in zip(argument_keywords(concrete), concrete.arguments.specs):
            wish = _NOT_IN_NAMES.sub("_", f"{key}_{name}")
            made = placeholder(dtype, dims, name=wish if wish[0].isalnum() else f"a{wish}")
            signature_pb.inputs[name].CopyFrom(tensor_info(made))
            given.append(made)
        called = self._call(concrete, given)
        outputs: Mapping[str, Any] = concrete.structured_outputs
        # The results of a function come in the order of their names.
        for name, tensor in zip(sorted(outputs), called.outputs):
            signature_pb.outputs[name].CopyFrom(tensor_info(tensor))

    def _add_initialisation(self) -> None:
        done: list[Operation] = list(self._asset_ops.values())
        for number, node in enumerate(self._view.nodes):
            if isinstance(node.thing, CapturableResource):
                with self._graph.control_dependencies(self._asset_ops.values()):
                    done.append(self._call(self._function_of(number, "_initialize"), []))
        with self._graph.control_dependencies(done):
            ready = no_op()
        self._meta_pb.collection_def[MAIN_OP_KEY].node_list.value.append(ready.name)
        output_pb = self._meta_pb.signature_def[INIT_OP_SIGNATURE_KEY].outputs
        output_pb[INIT_OP_SIGNATURE_KEY].name = ready.name
        output_pb[INIT_OP_SIGNATURE_KEY].tensor_shape.unknown_rank = True


def _list_strings(tensor_pb: pb.TensorProto) -> None:
    """Hold strings one by one: the objects of a model are made from them by readers in Python."""
    if tensor_pb.dtype == dtypes.string.number and tensor_pb.tensor_content:
        values = decode_tensor(tensor_pb)
        tensor_pb.tensor_content = b""
        tensor_pb.string_val.extend(np.ravel(values))


def unused_name(path: str, taken: Mapping[str, str]) -> str:
    """Return the name of a file in a model: its own, numbered where another file has that."""
    base = os.path.basename(path)
    name, count = base, 0
    while taken.get(name, path) != path:
        count += 1
        name = f"{base}_{count}"
    return name
