"""Our messages against TensorFlow's own descriptors, field by field.

Its wheel has no Python modules for the requests and responses of the services themselves; these
are checked by talking to real peers."""

from __future__ import annotations

import importlib

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor

from tideflow.wire import messages as pb

pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow

# Modules whose messages ours are compared with; importing one brings those that it uses.
MODULES = [
    "tensorflow.compiler.xla.tsl.protobuf.distributed_runtime_payloads_pb2",
    "tensorflow.core.example.example_pb2",
    "tensorflow.core.framework.dataset_pb2",
    "tensorflow.core.framework.device_attributes_pb2",
    "tensorflow.core.framework.op_def_pb2",
    "tensorflow.core.framework.tensor_slice_pb2",
    "tensorflow.core.framework.variable_pb2",
    "tensorflow.core.protobuf.data_service_pb2",
    "tensorflow.core.protobuf.fingerprint_pb2",
    "tensorflow.core.protobuf.meta_graph_pb2",
    "tensorflow.core.protobuf.named_tensor_pb2",
    "tensorflow.core.protobuf.queue_runner_pb2",
    "tensorflow.core.protobuf.saved_model_pb2",
    "tensorflow.core.protobuf.tensor_bundle_pb2",
    "tensorflow.core.protobuf.tensorflow_server_pb2",
    "tensorflow.core.protobuf.trackable_object_graph_pb2",
    "tensorflow.core.protobuf.transport_options_pb2",
    "tensorflow.core.util.event_pb2",
    "tensorflow.core.util.saved_tensor_slice_pb2",
    "tensorflow.core.util.quantization.uniform_quant_ops_attr_pb2",
    "tensorflow.python.training.checkpoint_state_pb2",
]


def load_files() -> dict[str, FileDescriptor]:
    """Return TensorFlow's file descriptors, with all that they import."""
    files: dict[str, FileDescriptor] = {}
    waiting = [importlib.import_module(name).DESCRIPTOR for name in MODULES]
    while waiting:
        file = waiting.pop()
        if file.name not in files:
            files[file.name] = file
            waiting.extend(file.dependencies)
    return files


FILES = load_files()
THEIRS = {
    name: item
    for file in FILES.values()
    if not file.package.startswith("google")
    for name, item in [*file.message_types_by_name.items(), *file.enum_types_by_name.items()]
}
OURS = {
    name: getattr(pb, name).DESCRIPTOR
    for name in dir(pb)
    if not name.startswith("_") and hasattr(getattr(pb, name), "DESCRIPTOR")
}


def short_name(item: Descriptor | EnumDescriptor | None) -> str | None:
    """Name a type without its package, with the messages around it."""
    if item is None:
        return None
    outer = item.containing_type
    if item.file.package.startswith("google"):
        return item.full_name
    return item.name if outer is None else f"{short_name(outer)}.{item.name}"


def describe_field(field: FieldDescriptor) -> tuple:
    return (
        field.name,
        field.number,
        field.type,
        field.is_repeated,
        field.is_packed,
        field.has_presence,
        field.containing_oneof.name if field.containing_oneof else None,
        short_name(field.message_type),
        short_name(field.enum_type),
    )


def describe(item: Descriptor | EnumDescriptor) -> dict:
    if isinstance(item, EnumDescriptor):
        return {"values": sorted((value.number, value.name) for value in item.values)}
    return {
        "fields": sorted(describe_field(field) for field in item.fields),
        "map": item.GetOptions().map_entry,
        "nested": {nested.name: describe(nested) for nested in item.nested_types},
        "enums": {enum.name: describe(enum) for enum in item.enum_types},
    }


@pytest.mark.parametrize("name", sorted(set(OURS) & set(THEIRS)))
def test_a_message_has_tensorflow_s_fields(name):
    assert describe(OURS[name]) == describe(THEIRS[name])


def test_only_the_services_own_messages_lack_a_python_module_to_compare_with():
    uncompared = {OURS[name].file.name for name in set(OURS) - set(THEIRS)}
    # TensorFlow has no status page and no peer extensions at all, and its wheel no modules of the
    # other ones.
    ours_alone = (
        *(
            "coordination",
            "data_service",
            "eager",
            "master",
            "peer",
            "reader",
            "snapshot",
            "status_page",
        ),
        "worker",
    )
    assert uncompared <= {f"tideflow/wire/proto/{name}.proto" for name in ours_alone}
