"""What is used of jax beyond its documented interface does what it is used for.

Where one of these fails after an upgrade, mend runtime/jax_internals.py, or keep to an older jax in
pyproject.toml.
"""

from __future__ import annotations

import logging
import pickle
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from tideflow.runtime import compile_options, jax_internals
from tideflow.runtime.jax_internals import load_jax
from tideflow.runtime.jaxlib_internals import CpuClient

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=[CpuClient, jax_internals.JaxCpu])
def cpu(request):
    return request.param()


def compiled_on(cpu, dtype=np.float32):
    jax = load_jax()
    sharding = jax.sharding.SingleDeviceSharding(cpu.device)
    with jax.enable_x64(True):
        wanted = jax.ShapeDtypeStruct((3,), dtype, sharding=sharding)
        lowered = jax.jit(lambda x, y: (x + y, x * y)).lower(wanted, wanted)
    two = ((np.dtype(dtype), (3,)),) * 2
    return (
        (lowered, lowered.compile()),
        (two, two),
        [cpu.put(np.arange(3, dtype=dtype)), np.arange(3, dtype=dtype)],
    )


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
        made = jax_internals.make_cpu()
    assert caplog.records == []
    assert isinstance(made, CpuClient)
    assert made.device.platform == "cpu"
    assert made.device.client not in [one.client for one in load_jax().local_devices(backend="cpu")]


def test_another_version_of_jaxlib_is_reached_by_way_of_jax(monkeypatch, caplog):
    monkeypatch.delattr("jaxlib._jax.batched_device_put")
    with caplog.at_level(logging.WARNING, logger="tideflow"):
        assert isinstance(jax_internals.make_cpu(), jax_internals.JaxCpu)
    assert "not as expected" in caplog.text


def test_xla_knows_the_options_for_cpus(caplog):
    cpu = CpuClient()
    jax = load_jax()
    sharding = jax.sharding.SingleDeviceSharding(cpu.device)
    given = jax.ShapeDtypeStruct((3,), np.float32, sharding=sharding)
    lowered = jax.jit(lambda x: x + 1).lower(given)
    with caplog.at_level(logging.DEBUG, logger="tideflow"):
        made = jax_internals.compile_for_cpu(lowered)
    assert caplog.records == []
    found = made(jax.device_put(np.arange(3, dtype=np.float32), sharding))
    assert np.asarray(found).tolist() == [1, 2, 3]


def test_options_that_xla_does_not_know_are_left_out(monkeypatch, caplog):
    jax = load_jax()
    lowered = jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((3,), np.float32))
    monkeypatch.setattr(compile_options, "CPU_OPTIONS", {"xla_cpu_of_another_version": "1"})
    with caplog.at_level(logging.DEBUG, logger="tideflow"):
        assert jax_internals.compile_for_cpu(lowered)
    assert "knows none" in caplog.text


def test_compiling_leaves_jaxs_own_devices_alone():
    """A GPU of jax's would be taken, with its memory, for code that runs on a CPU."""
    program = """
import numpy as np
from jax._src import xla_bridge
from tideflow.runtime.jit_compile import cpu_sharding, put
put(np.zeros(3)), cpu_sharding()
assert not xla_bridge.backends_are_initialized()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.complex64])
def test_code_is_called_with_arrays_of_numpy_and_of_the_device(cpu, dtype):
    compiled, types, arguments = compiled_on(cpu, dtype)
    found = []
    cpu.call_of(compiled[1], *types)(arguments, found)
    for expected, one in zip(([0, 2, 4], [0, 1, 4]), found, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.array(expected, dtype))
        assert one.dtype == dtype


def test_compiled_code_goes_to_bytes_and_back(cpu):
    compiled, types, arguments = compiled_on(cpu)
    found = []
    cpu.load(cpu.to_bytes(*compiled), *types)(arguments, found)
    assert [np.asarray(one).tolist() for one in found] == [[0, 2, 4], [0, 1, 4]]


def cholesky_on(cpu):
    """Return code that calls LAPACK, as `compiled_on` does, and its types."""
    jax = load_jax()
    sharding = jax.sharding.SingleDeviceSharding(cpu.device)
    given = jax.ShapeDtypeStruct((2, 2), np.float32, sharding=sharding)
    lowered = jax.jit(lambda x: [jax.numpy.linalg.cholesky(x)]).lower(given)
    one = ((np.dtype(np.float32), (2, 2)),)
    return (lowered, lowered.compile()), (one, one)


def test_code_that_calls_lapack_goes_to_bytes_and_back(cpu):
    compiled, types = cholesky_on(cpu)
    found = []
    cpu.load(cpu.to_bytes(*compiled), *types)([cpu.put(np.diag(np.float32([4, 9])))], found)
    assert np.asarray(found[0]).tolist() == [[2, 0], [0, 3]]


def test_jaxlib_alone_loads_and_calls(tmp_path):
    cpu = CpuClient()
    compiled, types, _ = compiled_on(cpu)
    file = tmp_path / "code"
    file.write_bytes(pickle.dumps((cpu.to_bytes(*compiled), *types)))
    program = """
import pickle, sys
from pathlib import Path
import numpy as np
from tideflow.runtime.jaxlib_internals import CpuClient
cpu, found = CpuClient(), []
three = np.arange(3, dtype=np.float32)
call = cpu.load(*pickle.loads(Path(sys.argv[1]).read_bytes()))
call((cpu.put(three), three), found)
assert np.asarray(found[1]).tolist() == [0, 1, 4]
assert (found[0].shape, found[0].dtype, found[0].nbytes) == ((3,), np.float32, 12)
assert found[0][2] == 4 and len(found[0]) == 3 and (found[0] == 2 * three).all()
false, two = cpu.put(np.asarray(False)), cpu.put(np.asarray(2))
assert not false and two != 1 and (int(two), float(two), [0, 1, 4][two]) == (2, 2.0, 4)
assert "jax" not in sys.modules
import jax
assert found[0].shape == (3,) and np.asarray(found[0]).tolist() == [0, 2, 4]
"""
    run_with(program, file)


def test_jaxlib_alone_loads_and_calls_lapack(tmp_path):
    cpu = CpuClient()
    compiled, types = cholesky_on(cpu)
    file = tmp_path / "code"
    file.write_bytes(pickle.dumps((cpu.to_bytes(*compiled), *types)))
    program = """
import pickle, sys
from pathlib import Path
import numpy as np
from tideflow.runtime.jaxlib_internals import CpuClient
given, found = np.diag(np.float32([4, 9])), []
CpuClient().load(*pickle.loads(Path(sys.argv[1]).read_bytes()))((given,), found)
assert np.asarray(found[0]).tolist() == [[2, 0], [0, 3]]
assert "jax" not in sys.modules
import jax
assert jax.numpy.linalg.cholesky(given).tolist() == [[2, 0], [0, 3]]
"""
    run_with(program, file)


def run_with(program, file):
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], timeout=120, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("width", "is_small"), [(64, True), (1024, False)])
def test_modules_of_small_operations_run_on_one_thread(width, is_small):
    """Each turn of a loop would wait for another thread, which busy neighbours keep waiting."""
    jax = load_jax()

    def turns(first, weights):
        def one(state, _):
            return jax.numpy.tanh(state @ weights), state

        return jax.lax.scan(one, first, None, length=30)

    first, weights = (jax.ShapeDtypeStruct((n, width), np.float32) for n in (32, width))
    module = jax.jit(turns).lower(first, weights).compiler_ir("stablehlo")
    assert compile_options.is_small(module) == is_small
    assert ("xla_cpu_multi_thread_eigen" in compile_options.options_for(module)) == is_small
