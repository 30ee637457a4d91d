"""Tensors that sessions keep between their steps, and the handles by which programs name them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from client.conftest import over_socket
from cluster.servers import LocalCluster

CLUSTER = {"ps": 1, "worker": 2}


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture(params=["local", "socket", "direct"])
def place(request: pytest.FixtureRequest) -> str:
    """Where sessions run: in this process, or at the master of a worker."""
    if request.param == "local":
        return ""
    make_cluster: Callable[..., LocalCluster] = request.getfixturevalue("make_cluster")
    found = make_cluster(CLUSTER).target("worker", 0)
    return over_socket(found) if request.param == "socket" else found


def test_a_kept_tensor_is_read_in_later_steps(place: str) -> None:
    product = tf.multiply(tf.placeholder_with_default(10, []), 5)
    keep = tf.get_session_handle(product)
    with tf.Session(place) as session:
        kept, value = session.run([keep, product])
        assert str(kept) == kept.handle
        assert kept.handle.startswith("GetSessionHandle;0;/job:")
        assert kept.eval() == value == 50
        holder, read = tf.get_session_tensor(kept.handle, tf.int32)
        assert session.run(read * 10, {holder: kept.handle}) == 500
        # A handle that is fed stands for its tensor, whatever the shape declared.
        x = tf.placeholder(tf.int32, [3])
        assert session.run(x + 1, {x: kept}) == 51
        assert session.run([product, product + 1], {product: kept}) == [50, 51]
        assert session.make_callable(product - 1, [product])(kept) == 49


@pytest.mark.parametrize(
    "value",
    [
        np.array([b"a", b"bc"], object),
        np.float32([[1, 2], [3, 4]]),
        np.array(True),
        np.zeros([0, 3], np.int64),
        np.array(1 + 2j),
    ],
    ids=lambda value: str(value.dtype),
)
def test_values_of_all_types_are_kept(place: str, value: np.ndarray[Any, Any]) -> None:
    x = tf.placeholder(tf.as_dtype(value.dtype), None)
    with tf.Session(place) as session:
        found = session.run(tf.get_session_handle(x), {x: value}).eval()
    np.testing.assert_array_equal(found, value)
    assert np.asarray(found).dtype == value.dtype


def test_what_is_kept_does_not_change(place: str) -> None:
    v = tf.get_variable("v", initializer=np.zeros(3, np.float32), use_resource=True)
    fed = tf.placeholder(tf.float32, [3])
    given = np.ones(3, np.float32)
    with tf.Session(place) as session:
        session.run(v.initializer)
        of_variable = session.run(tf.get_session_handle(v.read_value()))
        of_feed = session.run(tf.get_session_handle(tf.identity(fed)), {fed: given})
        session.run(v.assign_add([1.0, 2.0, 3.0]))
        given[:] = 7
        found = of_variable.eval()
        assert found.tolist() == [0, 0, 0]
        found[:] = 9
        assert of_variable.eval().tolist() == [0, 0, 0]
        assert of_feed.eval().tolist() == [1, 1, 1]


def test_handles_as_resources_name_kept_tensors_too(place: str) -> None:
    keep = tf.raw_ops.GetSessionHandleV2(value=tf.constant(3.0))
    with tf.Session(place) as session:
        assert session.run(keep).eval() == 3.0


def test_what_was_deleted_is_told(place: str) -> None:
    keep = tf.get_session_handle(tf.constant([1, 2]))
    with tf.Session(place) as session:
        name = session.run(keep).get_raw_handle()
        holder, read = tf.get_session_tensor(name, tf.int32)
        doomed, delete = tf.delete_session_tensor(name)
        assert session.run(read, {holder: name}).tolist() == [1, 2]
        session.run(delete, {doomed: name})
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
            session.run(read, {holder: name})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Failed to delete a tensor with"):
            session.run(delete, {doomed: name})
        kept = session.run(keep)
        kept.delete()
        for call in (kept.eval, kept.delete):
            with pytest.raises(TypeError, match="may have already been deleted"):
                call()
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not in the session store"):
            session.run(read, {holder: kept.handle})


def test_types_that_differ_are_refused(place: str) -> None:
    keep = tf.get_session_handle(tf.constant(3))
    with tf.Session(place) as session:
        kept = session.run(keep)
        holder, read = tf.get_session_tensor(kept.handle, tf.float32)
        with pytest.raises(tf.errors.InternalError, match="does not match declared output type"):
            session.run(read, {holder: kept.handle})
        x = tf.placeholder(tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="float32 but int32 is provided"):
            session.run(x + 1, {x: kept})
        with pytest.raises(tf.errors.InvalidArgumentError, match="string but int32 is provided"):
            session.run(read, {holder: kept})


def test_a_session_keeps_tensors_until_it_ends(place: str) -> None:
    tensor = tf.constant(3)
    keep = tf.get_session_handle(tensor)
    with tf.Session(place) as other:
        with tf.Session(place) as session:
            kept = session.run(keep)
            holder, read = tf.get_session_tensor(kept.handle, tf.int32)
            with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
                other.run(read, {holder: kept.handle})
            with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
                other.run(tensor + 1, {tensor: kept})
        with pytest.raises(RuntimeError, match="closed Session"):
            kept.eval()
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
            other.run(read, {holder: kept.handle})


def test_tensors_of_dropped_handles_are_forgotten(place: str) -> None:
    keep = tf.get_session_handle(tf.constant(3))
    with tf.Session(place) as session:
        names = [session.run(keep).handle for _ in range(10)]
        gc.collect()
        held = session.run(keep)
        held_too = session.run(keep)
        holder, read = tf.get_session_tensor(held.handle, tf.int32)
        for name in names:
            with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
                session.run(read, {holder: name})
        assert [held.eval(), held_too.eval()] == [3, 3]


def test_tensors_that_were_deleted_by_name_keep_no_others(place: str) -> None:
    keep = tf.get_session_handle(tf.constant(3))
    with tf.Session(place) as session:
        first = session.run(keep)
        holder, delete = tf.delete_session_tensor(first.handle)
        session.run(delete, {holder: first.handle})
        names = [first.handle, *(session.run(keep).handle for _ in range(9))]
        del first
        gc.collect()
        session.run(keep)
        source, read = tf.get_session_tensor(names[0], tf.int32)
        for name in names:
            with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
                session.run(read, {source: name})


def test_partial_runs_keep_and_are_fed(place: str) -> None:
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    keep, total = tf.get_session_handle(x + 1), x + y
    with tf.Session(place) as session:
        run = session.partial_run_setup([keep, total], [x, y])
        kept = session.partial_run(run, keep, {x: 2.0})
        assert session.partial_run(run, total, {y: kept}) == 5.0


def test_a_handle_moves_to_where_it_is_read(make_cluster: Callable[..., LocalCluster]) -> None:
    with tf.device("/job:ps"):
        keep_first = tf.get_session_handle(tf.constant([1, 2]) * 2)
    with tf.device("/job:worker/task:1"):
        keep_second = tf.get_session_handle(tf.constant([5]) * 2)
        total = tf.reduce_sum(tf.placeholder(tf.int32, name="x"))
    with tf.Session(over_socket(make_cluster(CLUSTER).target("worker", 0))) as session:
        first, second = session.run([keep_first, keep_second])
        assert first.handle.endswith("/job:ps/replica:0/task:0/device:CPU:0")
        assert second.handle.endswith("/job:worker/replica:0/task:1/device:CPU:0")
        holder, read = tf.get_session_tensor(first.handle, tf.int32)
        found = [session.run(read + 1, {holder: one.handle}).tolist() for one in (first, second)]
        assert found == [[3, 5], [11]]
        assert [session.run(total, {"x:0": one}) for one in (first, second)] == [6, 10]
        assert [one.eval().tolist() for one in (first, second)] == [[2, 4], [10]]
        with pytest.raises(ValueError, match="encountered while parsing the device spec"):
            session.run(read, {holder: "x;0;nowhere"})


def test_devices_of_one_process_share_what_their_session_keeps() -> None:
    config = tf.ConfigProto(device_count={"CPU": 2})
    with tf.device("/cpu:1"):
        keep = tf.get_session_handle(tf.constant(3) + 1)
    with tf.Session(config=config) as session:
        kept = session.run(keep)
        assert kept.handle.endswith("CPU:1")
        with tf.device("/cpu:0"):
            source = tf.placeholder(tf.string)
            read = tf.raw_ops.GetSessionTensor(handle=source, dtype=tf.int32)
        assert session.run(read, {source: kept.handle}) == 4


def test_functions_keep_tensors_in_their_session(place: str) -> None:
    keep = tf.cond(
        tf.placeholder_with_default(True, []),
        lambda: tf.get_session_handle(tf.constant(7) * 1),
        lambda: tf.constant("none"),
    )
    with tf.Session(place) as session:
        name = session.run(keep).decode()
        holder, read = tf.get_session_tensor(name, tf.int32)
        assert session.run(read, {holder: name}) == 7


def test_what_is_no_tensor_or_names_no_device_is_refused() -> None:
    with pytest.raises(TypeError, match="`data` must be of type Tensor"):
        tf.get_session_handle([1, 2])
    makes = [
        lambda: tf.get_session_tensor("abc", tf.int32),
        lambda: tf.delete_session_tensor("x"),
    ]
    for make in makes:
        with pytest.raises(ValueError, match="is encountered while parsing"):
            make()
