"""Operations are eager in these tests alone, on a CPU that is divided into two devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tideflow as tf
import tideflow.v2 as tideflow_v2  # noqa: F401
from tideflow.eager.context import Context, replace_context
from tideflow.eager.eager_graph import disable_eager_execution, enable_eager_execution

# Importing the front door has made operations eager.
disable_eager_execution()


@pytest.fixture(autouse=True)
def two_devices() -> Iterator[None]:
    replace_context(Context())
    enable_eager_execution()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    yield
    disable_eager_execution()
    replace_context(None)
