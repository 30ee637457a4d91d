"""The devices that sessions have."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf
from accelerator.looks import CPU0, GPU0, GPU1
from tideflow.wire import messages as pb


def test_a_session_lists_the_devices():
    with tf.Session() as session:
        found = session.list_devices()
    assert [d.name for d in found] == [CPU0, GPU0, GPU1]
    assert [d.device_type for d in found] == ["CPU", "GPU", "GPU"]
    assert "name: cpu" in found[1].physical_device_desc
    assert len({d.incarnation for d in found}) == 3


@pytest.mark.parametrize(("most", "count"), [(0, 1), (1, 2), (5, 3)])
def test_device_count_limits_them(most, count):
    with tf.Session(config=pb.ConfigProto(device_count={"GPU": most})) as session:
        assert len(session.list_devices()) == count


def test_visible_device_list_chooses_by_number():
    config = pb.ConfigProto()
    config.gpu_options.visible_device_list = "1"
    with tf.Session(config=config) as session:
        assert len(session.list_devices()) == 2
        session.run(tf.constant([1.0]) * 2)
    config.gpu_options.visible_device_list = "7"
    with pytest.raises(tf.errors.InvalidArgumentError, match="visible_device_list"):
        tf.Session(config=config)
