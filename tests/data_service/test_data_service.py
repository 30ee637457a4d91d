"""Dispatchers, workers and clients of the tf.data service, all ours."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tideflow as tf
import tideflow.v1 as tf1
from cluster.servers import free_ports
from data_service.datasets import EXPECTED, found_by
from data_service.helper import helper
from tideflow.blocking import FILES, run_blocking
from tideflow.data_service.services import DispatcherService
from tideflow.ops.control_flow import registered_functions
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import messages as pb

service = tf.data.experimental.service
EACH_ONCE = "distributed_epoch"


@pytest.fixture
def dispatcher() -> Iterator[Any]:
    made = service.DispatchServer()
    yield made
    made.stop()


@pytest.fixture
def workers(dispatcher) -> Iterator[list[Any]]:
    config = service.WorkerConfig(address_of(dispatcher), heartbeat_interval_ms=50)
    made = [service.WorkerServer(config) for _ in range(2)]
    yield made
    for worker in made:
        worker.stop()


def address_of(dispatcher: Any) -> str:
    return dispatcher.target.removeprefix("grpc://")


def numbers(dataset: Any) -> list[int]:
    return sorted(int(x) for x in dataset)


@pytest.mark.processes
def test_all_datasets_of_a_client_are_made_by_processes():
    with helper("tideflow") as first, helper("tideflow") as second:
        address = first.ask("dispatcher")
        for one in (first, second):
            one.ask("worker", address)
        assert found_by(tf, f"grpc://{address}") == EXPECTED


@pytest.mark.processes
def test_a_worker_that_was_killed_and_comes_back_finishes_its_part():
    [port] = free_ports(1)
    with helper("tideflow") as first, helper("tideflow") as killed:
        address = first.ask("dispatcher")
        first.ask("worker", address)
        killed.ask("worker", address, str(port))
        moved = tf.data.Dataset.range(1000).apply(
            service.distribute("parallel_epochs", f"grpc://{address}", max_outstanding_requests=2)
        )
        walk = iter(moved)
        found = [int(next(walk)) for _ in range(10)]
        killed.kill()
        with helper("tideflow") as again:
            again.ask("worker", address, str(port))
            found += [int(x) for x in walk]
    # The part begins anew: what the one that was killed had given, taken already or waiting to be,
    # is given twice.
    assert set(found) == set(range(1000))
    assert 2000 <= len(found) <= 2010 + 2


def test_a_worker_that_comes_later_takes_part(dispatcher):
    moved = tf.data.Dataset.range(3).apply(service.distribute(EACH_ONCE, dispatcher.target))
    config = service.WorkerConfig(address_of(dispatcher))
    walk = iter(moved)
    worker = service.WorkerServer(config)
    try:
        assert sorted(int(x) for x in walk) == [0, 1, 2]
    finally:
        worker.stop()


def test_an_error_of_a_function_comes_to_the_client(dispatcher, workers):
    bad = tf.data.Dataset.range(3).map(lambda x: tf.debugging.check_numerics(1 / (x - x), "bad x"))
    moved = bad.apply(service.distribute(EACH_ONCE, dispatcher.target))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Failed to get element.*bad x"):
        list(moved)


def test_random_numbers_are_drawn_by_each_worker(dispatcher, workers):
    drawn = tf.data.Dataset.random(seed=1).take(5)
    moved = drawn.apply(service.distribute(EACH_ONCE, dispatcher.target))
    assert numbers(moved) == sorted([int(x) for x in drawn] * 2)


def test_a_source_without_splits_is_refused_by_name(dispatcher, workers):
    files = tf.raw_ops.TextLineDataset(filenames=["a"], compression_type="", buffer_size=0)
    lines = tf.data.experimental.from_variant(files, tf.TensorSpec([], tf.string))
    moved = lines.apply(service.distribute(EACH_ONCE, dispatcher.target))
    with pytest.raises(tf.errors.UnimplementedError, match="type TextLine, because"):
        next(iter(moved))


def test_a_dataset_of_other_resources_than_variables_and_tables_is_refused(dispatcher):
    queue = tf.queue.FIFOQueue(3, tf.int32)
    dataset = tf.data.Dataset.range(3).map(lambda x: queue.dequeue())
    with pytest.raises(tf.errors.UnimplementedError, match="uses a resource"):
        dataset.apply(service.distribute(EACH_ONCE, dispatcher.target))


def test_a_variable_has_the_value_that_it_had_when_it_was_registered(dispatcher, workers):
    one, other = tf.Variable(2, dtype=tf.int64), tf.Variable(2, dtype=tf.int64)
    dataset = tf.data.Dataset.range(3).map(lambda x: one * x + other)
    moved = dataset.apply(service.distribute(EACH_ONCE, dispatcher.target))
    one.assign(100)
    assert numbers(moved) == [2, 4, 6]


def test_values_that_functions_capture_go_along(dispatcher, workers):
    factor, offsets = tf.constant(3, tf.int64), tf.data.Dataset.range(2)
    dataset = tf.data.Dataset.range(3).flat_map(lambda x: offsets.map(lambda y: x * factor + y))
    moved = dataset.apply(service.distribute(EACH_ONCE, dispatcher.target))
    assert numbers(moved) == [0, 1, 3, 4, 6, 7]


def test_elements_of_other_kinds_than_tensors_come_back(dispatcher, workers):
    def moved(dataset: Any) -> Any:
        return dataset.apply(service.distribute(EACH_ONCE, dispatcher.target))

    rows = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []]))
    assert sorted(row.numpy().tolist() for row in moved(rows)) == [[], [1], [2, 3]]
    table = tf.sparse.from_dense([[0, 1], [2, 0]])
    [found] = moved(tf.data.Dataset.from_tensors(table))
    assert tf.sparse.to_dense(found).numpy().tolist() == [[0, 1], [2, 0]]


def test_caches_and_seeds_are_those_of_each_worker(dispatcher, workers):
    dataset = tf.data.Dataset.range(4).cache().shuffle(4).repeat(2)
    moved = dataset.apply(service.distribute("parallel_epochs", dispatcher.target))
    assert numbers(moved) == sorted([*range(4)] * 4)


def test_one_job_is_shared_by_its_name(dispatcher, workers):
    def read() -> Any:
        return tf.data.Dataset.range(50).apply(
            service.distribute(EACH_ONCE, dispatcher.target, job_name="shared")
        )

    one, other = iter(read()), iter(read())
    first = [int(next(one)), int(next(other))]
    assert sorted(first + [int(x) for x in one] + [int(x) for x in other]) == list(range(50))


def test_a_job_of_another_mode_is_refused(dispatcher, workers):
    given = tf.data.Dataset.range(3)
    first = given.apply(service.distribute("parallel_epochs", dispatcher.target, "job"))
    assert numbers(first) == [0, 0, 1, 1, 2, 2]
    other = given.apply(service.distribute(EACH_ONCE, dispatcher.target, "job"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Existing processing mode"):
        list(other)


def test_a_registered_dataset_is_read_by_its_id(dispatcher, workers):
    given = tf.data.Dataset.range(3).map(lambda x: {"x": x, "twice": (2 * x, tf.as_string(x))})
    name = service.register_dataset(dispatcher.target, given, dataset_id="mine")
    assert name.numpy() == b"mine"
    found = service.from_dataset_id(EACH_ONCE, dispatcher.target, name)
    assert found.element_spec == given.element_spec
    assert sorted(int(element["twice"][0]) for element in found) == [0, 2, 4]


def test_an_id_that_is_not_there_is_refused(dispatcher):
    with pytest.raises(ValueError, match="Failed to fetch element spec for dataset id nothing"):
        service.from_dataset_id(EACH_ONCE, dispatcher.target, "nothing")


@pytest.mark.parametrize("most", [1, 7])
def test_the_number_of_waiting_elements_is_bounded(dispatcher, workers, most):
    moved = tf.data.Dataset.range(20).apply(
        service.distribute(EACH_ONCE, dispatcher.target, max_outstanding_requests=most)
    )
    assert numbers(moved) == list(range(20))


@pytest.mark.parametrize("protocol", ["grpc", "local"])
def test_elements_come_by_either_protocol(dispatcher, workers, protocol):
    moved = tf.data.Dataset.range(5).apply(
        service.distribute(EACH_ONCE, dispatcher.target, data_transfer_protocol=protocol)
    )
    assert numbers(moved) == list(range(5))


def test_a_protocol_that_workers_lack_is_refused(dispatcher, workers):
    moved = tf.data.Dataset.range(5).apply(
        service.distribute(EACH_ONCE, dispatcher.target, data_transfer_protocol="pigeons")
    )
    with pytest.raises(tf.errors.NotFoundError, match="protocol pigeons is not available"):
        list(moved)


def test_local_workers_alone_are_read(dispatcher, workers):
    moved = tf.data.Dataset.range(5).apply(
        service.distribute("parallel_epochs", dispatcher.target, target_workers="LOCAL")
    )
    assert numbers(moved) == sorted([*range(5)] * 2)


def test_workers_of_a_list_share_out_elements():
    config = service.DispatcherConfig(worker_addresses=["localhost", "localhost"])
    dispatcher = service.DispatchServer(config)
    workers = [service.WorkerServer(service.WorkerConfig(address_of(dispatcher))) for _ in range(2)]
    try:
        for policy in (service.ShardingPolicy.DATA, service.ShardingPolicy.FILE_OR_DATA):
            moved = tf.data.Dataset.range(7).apply(service.distribute(policy, dispatcher.target))
            assert numbers(moved) == list(range(7))
        by_hint = service.distribute(service.ShardingPolicy.HINT, dispatcher.target)
        assert numbers(tf.data.Dataset.range(3).apply(by_hint)) == [0, 0, 1, 1, 2, 2]
        hint = tf.data.experimental.SHARD_HINT
        parts = tf.data.Dataset.range(7).shard(hint, hint).map(lambda x: x + 1)
        assert numbers(parts.apply(by_hint)) == list(range(1, 8))
        with pytest.raises(tf.errors.FailedPreconditionError, match="SHARD_HINT"):
            list(parts.apply(service.distribute("parallel_epochs", dispatcher.target)))
    finally:
        for server in (*workers, dispatcher):
            server.stop()


def test_an_iterator_that_goes_ends_what_it_reads(dispatcher, workers):
    moved = tf.data.Dataset.range(10**9).apply(service.distribute(EACH_ONCE, dispatcher.target))
    walk = iter(moved)
    assert 0 <= int(next(walk)) < 10**9
    # What it leaves behind would fail the test.
    del walk


def test_sessions_read_from_the_service(dispatcher, workers):
    with tf1.Graph().as_default(), tf1.Session() as session:
        moved = tf1.data.Dataset.range(5).apply(
            tf1.data.experimental.service.distribute(EACH_ONCE, dispatcher.target)
        )
        walk = tf1.data.make_initializable_iterator(moved.batch(5))
        element = walk.get_next()
        session.run(walk.initializer)
        assert sorted(session.run(element).tolist()) == [0, 1, 2, 3, 4]


def test_functions_read_from_the_service(dispatcher, workers):
    moved = tf.data.Dataset.range(5).apply(service.distribute(EACH_ONCE, dispatcher.target))

    @tf.function
    def total() -> Any:
        return moved.reduce(tf.constant(0, tf.int64), lambda x, y: x + y)

    assert int(total()) == 10


def test_all_workers_are_read_though_one_element_is_asked_for_at_a_time(dispatcher, workers):
    moved = tf.data.Dataset.range(10**9).apply(
        service.distribute("parallel_epochs", dispatcher.target, max_outstanding_requests=1)
    )
    found = [int(x) for x in moved.take(20)]
    assert len(set(found)) < 20, "one of the workers gave them all"


def test_an_end_that_the_dispatcher_has_forgotten_hides_no_others(dispatcher):
    ours = helper_calls(dispatcher)
    known = service.register_dataset(dispatcher.target, tf.data.Dataset.range(3))
    ours("WorkerHeartbeat", pb.DataWorkerHeartbeatRequest(worker_address="localhost:7"))
    request = pb.GetOrCreateJobRequest(dataset_id=known.numpy().decode())
    job = ours("GetOrCreateJob", request).job_id
    made = ours("GetOrCreateIteration", pb.GetOrCreateIterationRequest(job_id=job))
    client = pb.ClientHeartbeatRequest(iteration_client_id=made.iteration_client_id)
    [task] = ours("ClientHeartbeat", client).task_info
    told = pb.WorkerUpdateRequest(worker_address="localhost:7")
    for number in (1, task.task_id):
        told.updates.add(task_id=number, completed=True)
    with pytest.raises(tf.errors.NotFoundError, match="Task 1 not found"):
        ours("WorkerUpdate", told)
    assert ours("ClientHeartbeat", client).iteration_finished


def helper_calls(dispatcher: Any) -> Any:
    """Return what calls a dispatcher as its workers and clients do."""

    def call(method: str, request: Any) -> Any:
        async def made() -> Any:
            channel = make_channel(f"h2://{address_of(dispatcher)}")
            try:
                return await getattr(stub(DispatcherService, channel), method)(request)
            finally:
                await channel.close()

        return run_sync(made())

    return call


def check_at_most_once(found: list[int], count: int, workers: int) -> None:
    """Check elements that a dispatcher gave out before and after it was away.

    A split whose answer was on its way when it went is lost, one for each worker at most.
    """
    assert len(set(found)) == len(found)
    assert set(found) <= set(range(count))
    assert len(found) >= count - workers


@pytest.mark.parametrize("mode", [EACH_ONCE, "parallel_epochs"])
def test_a_dispatcher_that_comes_back_goes_on(tmp_path, mode):
    def begin(port: int = 0) -> Any:
        return service.DispatchServer(
            service.DispatcherConfig(port, work_dir=str(tmp_path), fault_tolerant_mode=True)
        )

    dispatcher = begin()
    port = int(address_of(dispatcher).rpartition(":")[2])
    config = service.WorkerConfig(address_of(dispatcher), heartbeat_interval_ms=50)
    workers = [service.WorkerServer(config) for _ in range(2)]
    given = tf.data.Dataset.range(100)
    moved = given.apply(
        service.distribute(mode, dispatcher.target, "job", max_outstanding_requests=2)
    )
    try:
        walk = iter(moved)
        found = [int(next(walk)) for _ in range(10)]
        dispatcher.stop()
        dispatcher = begin(port)
        found += numbers(walk)
        if mode == EACH_ONCE:
            check_at_most_once(found, 100, len(workers))
        else:
            assert sorted(found) == sorted([*range(100)] * 2)
        # It knows the dataset, too, and that this job has ended.
        assert numbers(given.apply(service.distribute(mode, dispatcher.target, "job"))) == []
    finally:
        for server in (*workers, dispatcher):
            server.stop()


@pytest.mark.processes
def test_a_dispatcher_that_was_killed_and_comes_back_goes_on(tmp_path):
    [port] = free_ports(1)
    with helper("tideflow") as killed, helper("tideflow") as other:
        address = killed.ask("dispatcher", str(tmp_path), str(port))
        other.ask("worker", address)
        moved = tf.data.Dataset.range(100).apply(service.distribute(EACH_ONCE, address))
        walk = iter(moved)
        found = [int(next(walk)) for _ in range(10)]
        killed.kill()
        # Its last record may be half a record.
        with open(tmp_path / "tf_data_dispatcher_journal" / "journal_0", "ab") as journal:
            journal.write(b"\x20\0\0\0\0\0")
        other.ask("dispatcher", str(tmp_path), str(port))
        check_at_most_once(found + numbers(walk), 100, workers=1)


def test_a_journal_that_is_damaged_is_refused(tmp_path):
    config = service.DispatcherConfig(work_dir=str(tmp_path), fault_tolerant_mode=True)
    first = service.DispatchServer(config)
    service.register_dataset(first.target, tf.data.Dataset.range(3))
    first.stop()
    path = tmp_path / "tf_data_dispatcher_journal" / "journal_0"
    path.write_bytes(b"\x01" + path.read_bytes()[1:])
    with pytest.raises(tf.errors.DataLossError, match="journal_0"):
        service.DispatchServer(config)


def test_a_dispatcher_that_tolerates_faults_needs_a_directory():
    with pytest.raises(ValueError, match="without configuring a work dir"):
        service.DispatchServer(service.DispatcherConfig(fault_tolerant_mode=True))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("every epoch", "a:1"), "processing mode should be"),
        ((EACH_ONCE, 5), "`service` must be a string"),
        ((EACH_ONCE, ""), "`service` must not be empty"),
        ((EACH_ONCE, "a://b://c"), "multiple '://'"),
        ((EACH_ONCE, "a:1", 5), "`job_name` must be a string or Tensor"),
        ((EACH_ONCE, "a:1", None, 1), "Must either set both"),
        ((EACH_ONCE, "a:1", None, 1, 2), "`job_name` must be set"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, text):
    spec = tf.TensorSpec([], tf.int64)
    mode, where, *rest = arguments
    with pytest.raises(ValueError, match=text):
        service.from_dataset_id(mode, where, "1", spec, *rest)


def test_a_stopped_server_stays_stopped(dispatcher):
    dispatcher.stop()
    dispatcher.join()
    with pytest.raises(tf.errors.FailedPreconditionError, match="after it has been stopped"):
        dispatcher.start()


async def test_splits_are_of_64_bits(dispatcher):
    # TensorFlow's workers read so many, whatever the message says.
    address = address_of(dispatcher)
    known = await run_blocking(
        FILES, lambda _: service.register_dataset(f"grpc://{address}", tf.data.Dataset.range(3))
    )
    channel = make_channel(f"h2://{address}")
    asked = stub(DispatcherService, channel)
    mode = pb.ProcessingModeDef(sharding_policy="DYNAMIC")
    job = await asked.GetOrCreateJob(
        pb.GetOrCreateJobRequest(dataset_id=known.numpy().decode(), processing_mode_def=mode)
    )
    made = await asked.GetOrCreateIteration(pb.GetOrCreateIterationRequest(job_id=job.job_id))
    assert made.iteration_client_id >= 0
    reply = await first_split(asked)
    assert (reply.split.dtype, len(reply.split.tensor_content)) == (pb.DataType.DT_INT64, 8)
    await channel.close()


async def first_split(dispatcher: Any) -> pb.GetSplitResponse:
    """Return a split of the only iteration there is."""
    for number in range(1000, 1020):  # the numbers begin there
        with contextlib.suppress(tf.errors.OpError):
            return await dispatcher.GetSplit(pb.GetSplitRequest(iteration_id=number))
    raise AssertionError("no iteration")


def doubled(dispatcher: Any) -> Any:
    data = tf.data.Dataset.range(3).map(lambda x: tf.py_function(lambda y: y * 2, [x], tf.int64))
    return data.apply(service.distribute(EACH_ONCE, dispatcher.target))


def test_python_functions_are_called_when_nobody_holds_their_dataset(dispatcher, workers):
    made = doubled(dispatcher)
    gc.collect()
    assert numbers(made) == [0, 2, 4]
    assert numbers(made) == [0, 2, 4]


def test_servers_hold_python_functions_until_they_stop(dispatcher, workers):
    gc.collect()
    before = set(registered_functions())
    for _ in range(3):
        assert numbers(doubled(dispatcher)) == [0, 2, 4]
    gc.collect()
    assert len(set(registered_functions()) - before) >= 3
    dispatcher.stop()
    for worker in workers:
        worker.stop()
    gc.collect()
    assert set(registered_functions()) == before


@pytest.mark.processes
def test_workers_hold_python_functions_that_a_dispatcher_elsewhere_has_them_call():
    gc.collect()
    before = set(registered_functions())
    with helper("tideflow") as other:
        address = other.ask("dispatcher")
        worker = service.WorkerServer(service.WorkerConfig(address, heartbeat_interval_ms=50))
        data = tf.data.Dataset.range(3).map(
            lambda x: tf.py_function(lambda y: y * 2, [x], tf.int64)
        )
        made = data.apply(service.distribute(EACH_ONCE, f"grpc://{address}"))
        del data
        gc.collect()
        assert numbers(made) == [0, 2, 4]
        worker.stop()
    gc.collect()
    assert set(registered_functions()) == before


def test_a_dataset_written_as_a_graph_holds_no_python_functions():
    gc.collect()
    before = set(registered_functions())
    for _ in range(3):
        data = tf.data.Dataset.range(3).map(lambda x: tf.numpy_function(abs, [x], tf.int64))
        assert tf.raw_ops.DatasetToGraphV2(
            input_dataset=tf.data.experimental.to_variant(data), external_state_policy=1
        ).numpy()
    del data
    gc.collect()
    assert set(registered_functions()) == before


def test_python_functions_called_at_once_are_let_go():
    gc.collect()
    before = set(registered_functions())
    for number in range(3):
        found = tf.numpy_function(lambda x, n=number: x + n, [np.int64(1)], tf.int64)
        assert int(found) == 1 + number
    gc.collect()
    assert set(registered_functions()) == before


LARGE = 8 << 20


def test_large_elements_leave_the_loop_to_others(dispatcher, workers):
    """The monitor of all tests watches the loop."""
    data = tf.data.Dataset.range(2).map(lambda x: tf.range(LARGE) + tf.cast(x, tf.int32))
    moved = data.apply(service.distribute(EACH_ONCE, dispatcher.target, compression=None))
    assert sorted(int(x[-1]) for x in moved) == [LARGE - 1, LARGE]


def test_a_dataset_with_a_large_constant_leaves_the_loop_to_others(dispatcher, workers):
    data = tf.data.Dataset.from_tensors(tf.range(LARGE)).map(lambda x: x[-1:])
    moved = data.apply(service.distribute(EACH_ONCE, dispatcher.target))
    assert [int(x[0]) for x in moved] == [LARGE - 1]
