"""The ops of the tf.data service, in all their versions, and what they are given wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tideflow as tf

service = tf.data.experimental.service
EACH_ONCE = b"\x08\x01"
_KINDS = {"output_types": [tf.int64], "output_shapes": [[]]}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    dispatcher = service.DispatchServer()
    found = dispatcher.target.removeprefix("grpc://")
    worker = service.WorkerServer(service.WorkerConfig(found))
    yield found
    worker.stop()
    dispatcher.stop()


def register(op: str, address: str, protocol: str = "grpc", **attrs: Any) -> Any:
    variant = tf.data.experimental.to_variant(tf.data.Dataset.range(4))
    return getattr(tf.raw_ops, op)(
        dataset=variant,
        address=address,
        protocol=protocol,
        external_state_policy=0,
        **attrs,
    )


def read(op: str, at: str, **given: Any) -> list[int]:
    inputs = {
        "dataset_id": register("RegisterDatasetV2", at),
        "processing_mode": EACH_ONCE,
        "address": at,
        "protocol": "grpc",
        "job_name": "",
        "max_outstanding_requests": -1,
        "iteration_counter": tf.raw_ops.DummyIterationCounter(),
    }
    if op != "DataServiceDataset":
        inputs |= {"consumer_index": -1, "num_consumers": -1}
    if op in ("DataServiceDatasetV3", "DataServiceDatasetV4"):
        same = tf.function(lambda x: x).get_concrete_function(tf.TensorSpec([], tf.variant))
        inputs |= {"uncompress": False, "uncompress_fn": same}
    inputs |= given
    if op != "DataServiceDatasetV4":
        inputs["dataset_id"] = tf.strings.to_number(inputs["dataset_id"], tf.int64)
    variant = getattr(tf.raw_ops, op)(**inputs, **_KINDS)
    made = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.int64))
    return sorted(int(x) for x in made)


@pytest.mark.parametrize("version", ["", "V2", "V3", "V4"])
def test_each_version_gives_the_elements(address, version):
    assert read(f"DataServiceDataset{version}", address) == [0, 1, 2, 3]


def test_the_first_version_gives_ids_as_numbers(address):
    found = register("RegisterDataset", address)
    assert found.dtype == tf.int64
    again = {"dataset_id": tf.as_string(found)}
    assert read("DataServiceDataset", address, **again) == [0, 1, 2, 3]


def test_a_dataset_may_have_a_name(address):
    found = register("RegisterDatasetV2", address, requested_dataset_id="a name")
    assert found.numpy() == b"a name"
    assert read("DataServiceDatasetV4", address, dataset_id="a name") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("error", "given"),
    [
        ("address must be non-empty", {"address": ""}),
        ("protocol must be non-empty", {"protocol": ""}),
        ("by the protocol 'grpc', not by 'smoke'", {"protocol": "smoke"}),
        ("address must be a scalar", {"address": ["a", "b"]}),
        ("processing_mode is no serialized", {"processing_mode": b"\x08"}),
        ("target_workers must be", {"target_workers": "FAR"}),
        ("max_outstanding_requests must be positive", {"max_outstanding_requests": 0}),
        ("must be given both or neither", {"num_consumers": 2}),
        ("must be less than num_consumers", {"num_consumers": 2, "consumer_index": 2}),
        ("needs a job_name", {"num_consumers": 2, "consumer_index": 1}),
        ("Dataset id nothing not found", {"dataset_id": "nothing"}),
        ("is no serialized message", {"cross_trainer_cache_options": b"\x0a"}),
    ],
)
def test_what_makes_no_sense_is_refused(address, error, given):
    with pytest.raises(tf.errors.OpError, match=error):
        read("DataServiceDatasetV4", address, **given)


@pytest.mark.parametrize(
    ("error", "given"),
    [
        ("address must be non-empty", {"address": ""}),
        ("protocol must be non-empty", {"protocol": ""}),
        ("not by 'smoke'", {"protocol": "smoke"}),
        ("metadata is no serialized", {"metadata": b"\x08"}),
    ],
)
def test_what_makes_no_sense_is_not_registered(address, error, given):
    with pytest.raises(tf.errors.OpError, match=error):
        register("RegisterDatasetV2", **{"address": address, **given})
