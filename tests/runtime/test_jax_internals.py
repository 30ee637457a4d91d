"""What is used of jax beyond its documented interface does what it is used for.

Where one of these fails after an upgrade, mend runtime/jax_internals.py, or keep to an older jax in
pyproject.toml.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from tideflow.runtime import jax_internals
from tideflow.runtime.jax_internals import load_jax

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def device():
    return jax_internals.make_synchronous_cpu()


def compiled_on(device):
    jax = load_jax()
    sharding = jax.sharding.SingleDeviceSharding(device)
    wanted = jax.ShapeDtypeStruct((3,), np.float32, sharding=sharding)
    made = jax.jit(lambda x, y: (x + y, x * y)).lower(wanted, wanted).compile()
    return made, [jax.device_put(np.arange(3, dtype=np.float32), sharding) for _ in range(2)]


@pytest.mark.parametrize("library", ["jax", "diastatic-malt", "hpack", "rich", "numpy", "uvloop"])
def test_the_installed_library_is_one_that_was_tried(library):
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    (wanted,) = [d for d in project["dependencies"] if re.match(rf"{library}[^\w-]", d)]
    found = re.search(r">=([\d.]+),<([\d.]+)", wanted)
    assert found, f"{wanted} has no upper bound"
    least, most = (tuple(map(int, part.split("."))) for part in found.groups())
    installed = tuple(map(int, re.findall(r"\d+", version(library))[:3]))
    assert least <= installed < most


def test_the_cpu_device_is_our_own(caplog):
    with caplog.at_level(logging.WARNING, logger="tideflow"):
        made = jax_internals.make_synchronous_cpu()
    assert caplog.records == []
    assert made.platform == "cpu"
    assert made.client not in [one.client for one in load_jax().local_devices(backend="cpu")]


def test_xla_knows_the_options_for_cpus(device):
    jax = load_jax()
    sharding = jax.sharding.SingleDeviceSharding(device)
    assert jax_internals.cpu_options(sharding)
    given = jax.ShapeDtypeStruct((3,), np.float32, sharding=sharding)
    lowered = jax.jit(lambda x: x + 1).lower(given)
    made = jax_internals.compile_for_cpu(lowered, sharding)
    found = made(jax.device_put(np.arange(3, dtype=np.float32), sharding))
    assert np.asarray(found).tolist() == [1, 2, 3]


def test_compiling_leaves_jaxs_own_devices_alone():
    """A GPU of jax's would be taken, with its memory, for code that runs on a CPU."""
    program = """
from jax._src import xla_bridge
from tideflow.runtime.jax_internals import cpu_options
from tideflow.runtime.jit_compile import cpu_sharding
assert cpu_options(cpu_sharding())
assert not xla_bridge.backends_are_initialized()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_code_on_it_has_a_quick_call_that_gives_the_same(device):
    compiled, arguments = compiled_on(device)
    first = compiled(*arguments)
    call = jax_internals.quick_call(compiled)
    assert call is not compiled
    for expected, found in zip(first, call(*arguments), strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_compiled_code_goes_to_bytes_and_back(device):
    compiled, arguments = compiled_on(device)
    code, given = jax_internals.to_bytes(compiled)
    assert given == 2
    again = jax_internals.from_bytes(code, 2, given, device)
    for expected, found in zip(compiled(*arguments), again(*arguments), strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
