"""Snapshots that workers of a tf.data service write, and datasets that read them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tideflow as tf
import tideflow.v1 as tf1
from data_service.datasets import REFUSED, SAVED, loaded_by, saved_by
from data_service.helper import helper
from real_time import eventually
from tideflow.data_service.services import DispatcherService
from tideflow.formats import RecordWriter
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import int64
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

service = tf.data.experimental.service
save = tf.data.experimental.distributed_save


class Servers:
    """A dispatcher in a directory, which may be stopped and started again, and its workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.workers: list[Any] = []
        self.start()

    def start(self) -> None:
        config = service.DispatcherConfig(
            self.port, work_dir=str(self.folder / "work"), fault_tolerant_mode=True
        )
        self.dispatcher = service.DispatchServer(config)
        self.address = self.dispatcher.target.removeprefix("grpc://")
        self.port = int(self.address.rpartition(":")[2])

    def add_worker(self, address: str | None = None) -> None:
        config = service.WorkerConfig(self.address, address, heartbeat_interval_ms=50)
        self.workers.append(service.WorkerServer(config))

    def stop(self) -> None:
        for server in (*self.workers, self.dispatcher):
            server.stop()


@pytest.fixture
def servers(tmp_path) -> Iterator[Servers]:
    made = Servers(tmp_path)
    yield made
    made.stop()


def numbers(path: Path) -> list[int]:
    return sorted(int(x) for x in tf.data.Dataset.load(str(path), wait=True))


@pytest.mark.processes
def test_workers_in_processes_write_all_datasets_of_a_client(tmp_path):
    with helper("tideflow") as first, helper("tideflow") as second:
        address = first.ask("dispatcher", str(tmp_path / "work"))
        second.ask("worker", address)
        assert saved_by(tf, address, str(tmp_path)) == REFUSED
        for name in SAVED:
            place = tmp_path / name
            eventually(lambda p=place: (p / "DONE").exists() or (p / "ERROR").exists(), name)
        assert loaded_by(tf, str(tmp_path)) == SAVED


def test_a_snapshot_is_read_while_it_is_written(servers, tmp_path):
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.extend(numbers(tmp_path / "a")))
    reader.start()
    save(tf.data.Dataset.range(20), str(tmp_path / "a"), servers.address)
    dataset = tf.data.Dataset.load(str(tmp_path / "a"))
    assert dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY
    for _ in range(2):
        servers.add_worker()
    reader.join()
    assert found == list(range(20))


def test_what_a_function_raises_comes_to_who_reads(servers, tmp_path):
    bad = tf.data.Dataset.range(3).map(lambda x: tf.debugging.check_numerics(1 / (x - x), "bad x"))
    save(bad, str(tmp_path / "a"), servers.address)
    walk = iter(tf.data.Dataset.load(str(tmp_path / "a")))
    servers.add_worker()
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad x"):
        next(walk)
    with pytest.raises(ValueError, match="The save job failed to write it"):
        tf.data.Dataset.load(str(tmp_path / "a"))


class FormerWorker:
    """A worker that wrote some of a snapshot, and has gone: what it said and left behind."""

    def __init__(self, servers: Servers, path: Path) -> None:
        self.address = "localhost:7"
        self._target = f"h2://{servers.address}"
        self._path = path

    def call(self, method: str, request: Any) -> Any:
        async def call() -> Any:
            channel = make_channel(self._target)
            try:
                return await getattr(stub(DispatcherService, channel), method)(request)
            finally:
                await channel.close()

        return run_sync(call())

    def begin(self) -> None:
        beat = pb.DataWorkerHeartbeatRequest(worker_address=self.address)
        [task] = self.call("WorkerHeartbeat", beat).snapshot_tasks
        assert (task.stream_index, task.num_sources) == (0, 1)

    def split(self) -> int:
        request = pb.GetSnapshotSplitRequest(
            worker_address=self.address, base_path=str(self._path), stream_index=0
        )
        return int(decode_tensor(self.call("GetSnapshotSplit", request).split))

    def write(self, *values: int) -> None:
        with RecordWriter(self._path / "chunks" / f"chunk_0_0_{len(values)}") as file:
            for value in values:
                file.write(encode_tensor(value, int64).SerializeToString())


def test_a_worker_that_comes_back_goes_on_behind_what_it_wrote(servers, tmp_path):
    path = tmp_path / "a"
    save(tf.data.Dataset.range(6), str(path), servers.address, compression=None)
    former = FormerWorker(servers, path)
    former.begin()
    assert [former.split() for _ in range(3)] == [0, 1, 2]
    former.write(0, 1)
    servers.add_worker(former.address)
    assert numbers(path) == list(range(6))


def test_a_dispatcher_that_comes_back_gives_the_splits_that_are_left(servers, tmp_path):
    path = tmp_path / "a"
    save(tf.data.Dataset.range(3).repeat(2), str(path), servers.address, compression=None)
    former = FormerWorker(servers, path)
    former.begin()
    assert [former.split() for _ in range(2)] == [0, 1]
    servers.dispatcher.stop()
    servers.start()
    servers.add_worker(former.address)
    assert numbers(path) == [0, 0, 1, 1, 2, 2]


def test_a_complete_snapshot_survives_its_dispatcher(servers, tmp_path):
    path = tmp_path / "a"
    servers.add_worker()
    save(tf.data.Dataset.range(3), str(path), servers.address)
    assert numbers(path) == [0, 1, 2]
    servers.dispatcher.stop()
    servers.start()
    with pytest.raises(tf.errors.AlreadyExistsError, match="is already started or completed"):
        save(tf.data.Dataset.range(3), str(path), servers.address)
    with pytest.raises(tf.errors.InternalError, match="assignment is no longer available"):
        FormerWorker(servers, path).split()


def test_graphs_save_by_an_operation(servers, tmp_path):
    servers.add_worker()
    with tf1.Graph().as_default(), tf1.Session() as session:
        made = save(tf1.data.Dataset.range(3), str(tmp_path / "a"), servers.address)
        session.run(made)
    assert numbers(tmp_path / "a") == [0, 1, 2]


def test_the_files_of_a_snapshot_are_listed(servers, tmp_path):
    path = str(tmp_path / "a")
    servers.add_worker()
    save(tf.data.Dataset.range(3), path, servers.address)
    assert numbers(tmp_path / "a") == [0, 1, 2]
    eventually((tmp_path / "a" / "DONE").exists)
    variant = tf.raw_ops.ListSnapshotChunksDataset(
        snapshot_path=path, output_types=[tf.string], output_shapes=[[]]
    )
    found = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
    assert [x.numpy() for x in found] == [f"{path}/chunks/chunk_0_0_3".encode()]
    assert found.cardinality() == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"element_spec": tf.TensorSpec([], tf.int32)}, "the actual element_spec is TensorSpec"),
        ({"compression": "GZIP"}, "GZIP, but the actual compression is SNAPPY"),
    ],
)
def test_other_elements_than_were_saved_are_refused(servers, tmp_path, arguments, text):
    save(tf.data.Dataset.range(3), str(tmp_path / "a"), servers.address)
    with pytest.raises(ValueError, match=text):
        tf.data.Dataset.load(str(tmp_path / "a"), **arguments)


def test_who_can_not_save_is_told_why(servers, tmp_path):
    path, three = str(tmp_path / "a"), tf.data.Dataset.range(3)
    with pytest.raises(ValueError, match="must be a string, but is a"):
        save(three, path, 5)
    with pytest.raises(ValueError, match="must not be empty"):
        save(three, path, "")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Saving an infinite dataset is not"):
        save(three.repeat(), path, servers.address)
    with pytest.raises(tf.errors.AlreadyExistsError, match="already exists"):
        save(three, str(tmp_path), servers.address)
    forgetful = service.DispatchServer()
    try:
        with pytest.raises(tf.errors.InvalidArgumentError, match="in the fault tolerant mode"):
            save(three, path, forgetful.target.removeprefix("grpc://"))
    finally:
        forgetful.stop()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"directory": ""}, "directory must be nonempty"),
        ({"directory": ["a", "b"]}, "directory must be a scalar"),
        ({"address": ""}, "address must be nonempty"),
        ({"metadata": b"\x0a"}, "Failed to parse DistributedSnapshotMetadata"),
    ],
)
def test_what_makes_no_sense_is_refused(given, text):
    variant = tf.data.experimental.to_variant(tf.data.Dataset.range(3))
    wanted = {"directory": "a", "address": "b", **given}
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        tf.raw_ops.DistributedSave(dataset=variant, **wanted)
