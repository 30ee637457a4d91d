"""The table of a device's named state."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tideflow.ops.state import ResourceVariableState
from tideflow.ops.state.cells import RefVariableState
from tideflow.runtime.resources import ResourceManager
from tideflow.wire import dtypes, errors
from tideflow.wire.handles import ResourceHandle


class Base:
    """Some kind of resource."""


class Derived(Base):
    """A kind of the kind."""


@pytest.fixture
def manager() -> ResourceManager:
    return ResourceManager("/job:ps/replica:0/task:0/device:CPU:0", "ps")


def test_a_thing_is_found_by_container_kind_and_name(manager: ResourceManager):
    thing = Base()
    manager.create("", "x", thing)
    assert manager.find("ps", "x", Base) is thing
    assert manager.find("", "x", Base) is thing
    assert manager.find("other", "x", Base) is None
    assert manager.find("", "x", ResourceVariableState) is None
    assert manager.lookup(manager.handle("", "x", Base), Base) is thing


def test_a_thing_is_found_by_its_base_class_until_it_is_deleted(manager: ResourceManager):
    thing = Derived()
    manager.create("", "x", thing)
    handle = manager.handle("", "x", Base)
    assert manager.lookup(handle, Base) is thing
    manager.delete(handle, Derived)
    assert manager.find("", "x", Base) is None
    with pytest.raises(errors.NotFoundError, match="'x'"):
        manager.lookup(handle, Base)


def test_two_kinds_may_share_a_name(manager: ResourceManager):
    plain = ResourceVariableState("x", dtypes.float32, ())
    cell = RefVariableState("x", dtypes.float32, ())
    manager.create("", "x", plain)
    manager.create("", "x", cell)
    assert manager.find("", "x", ResourceVariableState) is plain
    assert manager.find("", "x", RefVariableState) is cell
    with pytest.raises(errors.AlreadyExistsError):
        manager.create("", "x", ResourceVariableState("x", dtypes.float32, ()))


def test_making_on_demand_makes_once(manager: ResourceManager):
    first = manager.lookup_or_create("", "x", Base, Base)
    assert manager.lookup_or_create("ps", "x", Base, Base) is first


def test_a_handle_of_another_device_is_refused(manager: ResourceManager):
    manager.create("", "x", Base())
    foreign = ResourceHandle("/job:ps/replica:0/task:1/device:CPU:0", "ps", "x")
    with pytest.raises(errors.InvalidArgumentError, match="task:1"):
        manager.lookup(foreign, Base)
    with pytest.raises(errors.InvalidArgumentError, match="float"):
        manager.lookup(1.5, Base)


def test_handles_are_equal_by_content_and_survive_the_wire(manager: ResourceManager):
    facts = {"dtypes_and_shapes": ((dtypes.float32, (2, None)),)}
    handle = manager.handle("", "x", ResourceVariableState, **facts)
    assert handle == manager.handle("ps", "x", ResourceVariableState, **facts)
    assert ResourceHandle.from_proto(handle.to_proto()) == handle


def test_cleanup_empties_the_named_containers_only(manager: ResourceManager):
    for container in ("", "a", "b"):
        manager.create(container, "x", Base())
    manager.cleanup(["a"])
    assert [row.container for row in manager.snapshot()] == ["b", "ps"]
    manager.cleanup([])
    assert [row.container for row in manager.snapshot()] == ["b"]


def test_an_anonymous_thing_goes_with_its_handle(manager: ResourceManager):
    handle = manager.anonymous_handle(Base)
    manager.create(handle.container, handle.name, Base())
    assert manager.anonymous_handle(Base) != handle
    assert len(manager.snapshot()) == 1
    del handle
    gc.collect()
    assert manager.snapshot() == []


def test_a_snapshot_tells_type_shape_and_size(manager: ResourceManager):
    state = ResourceVariableState("w", dtypes.float32, (2, 3))
    manager.create("", "w", state)
    assert manager.snapshot()[0].shape == "[2,3] uninitialized"
    state.assign(np.zeros((2, 3), np.float32))
    (row,) = manager.snapshot()
    assert (row.dtype, row.shape, row.size_bytes) == ("float32", "[2,3]", 24)
