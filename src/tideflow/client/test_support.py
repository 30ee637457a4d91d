"""What tests of TensorFlow programs use: clusters of this process, benchmarks, replaced attributes.

Source: tensorflow/python/framework/test_util.py, platform/test.py, benchmark.py and googletest.py.
"""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow import logging
from tideflow.client import Session
from tideflow.cluster import ClusterSpec, Server
from tideflow.graph import roles
from tideflow.graph.op_def import role_of
from tideflow.ops.export import export, export_v2
from tideflow.platform import clock
from tideflow.transport.network import free_ports
from tideflow.wire import messages as pb

# Among which numbers servers of tests get their ports.
_PORTS = range(20000, 30000)


@export("test.is_built_with_gpu_support")
def is_built_with_gpu_support() -> bool:
    """Whether TensorFlow's own code for GPUs is there: it is not."""
    return False


@export("test.is_built_with_rocm")
def is_built_with_rocm() -> bool:
    """Whether TensorFlow's own code for AMD's GPUs is there: it is not."""
    return False


@export("test.disable_with_predicate")
def disable_with_predicate(
    pred: Callable[[], bool], skip_message: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that skips a test of a TestCase where pred() is true."""

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def skipped(self: unittest.TestCase, *args: Any, **kwargs: Any) -> Any:
            if pred():
                self.skipTest(skip_message)
            return test(self, *args, **kwargs)

        return skipped

    return decorate


@export("test.with_eager_op_as_function")
def with_eager_op_as_function(cls: Any = None, only_as_function: bool = False) -> Any:
    """Return a class of tests as it is: operations are called in one way.  A decorator."""
    if cls is None:
        return with_eager_op_as_function
    return cls


@export("test.experimental.sync_devices")
def sync_devices() -> None:
    """Wait for all that devices were asked to do: whoever looks at a value waits for it anyway."""


@export("test.assert_equal_graph_def")
def assert_equal_graph_def(
    actual: Any, expected: Any, checkpoint_v2: bool = False, hash_table_shared_name: bool = False
) -> None:
    """Raise AssertionError unless two GraphDefs have the same nodes, in any order.

    Args:
      checkpoint_v2: leave out the names of temporary checkpoints.
      hash_table_shared_name: leave out the shared names of tables.
    Raises: TypeError for what is no GraphDef.
    """
    for what, given in (("actual", actual), ("expected", expected)):
        if not isinstance(given, pb.GraphDef):
            raise TypeError(f"Expected tf.GraphDef for {what}, got {type(given).__name__}")
    sides = []
    for graph_pb in (actual, expected):
        nodes = {node.name: pb.NodeDef.FromString(node.SerializeToString())
                 for node in graph_pb.node}  # fmt: skip
        for node in nodes.values():
            node.attr.pop("_output_shapes", None)
            if hash_table_shared_name and "HashTable" in node.op:
                node.attr.pop("shared_name", None)
            if (
                checkpoint_v2
                and role_of(node.op) is roles.CONST
                and b"_temp_" in node.SerializeToString()
            ):
                node.attr.pop("value", None)
        sides.append(nodes)
    found, wanted = sides
    if found.keys() != wanted.keys():
        raise AssertionError(
            f"graphs differ: only the actual one has {sorted(found.keys() - wanted.keys())}, only "
            f"the expected one {sorted(wanted.keys() - found.keys())}"
        )
    for name, node in found.items():
        if node != wanted[name]:
            raise AssertionError(f"nodes {name!r} differ:\n{node}\nexpected:\n{wanted[name]}")


@export_v2("test.assert_equal_graph_def")
def assert_equal_graph_def_v2(expected: Any, actual: Any) -> None:
    """Raise AssertionError unless two GraphDefs have the same nodes, in any order."""
    assert_equal_graph_def(actual, expected, checkpoint_v2=True, hash_table_shared_name=True)


@export("test.create_local_cluster")
def create_local_cluster(
    num_workers: int,
    num_ps: int,
    protocol: str = "grpc",
    worker_config: Any = None,
    ps_config: Any = None,
) -> tuple[list[Any], list[Any]]:
    """Start servers of a cluster in this process; returns the workers and the parameter servers."""
    ports = free_ports(_PORTS, num_workers + num_ps)
    addresses = [f"localhost:{port}" for port in ports]
    jobs = {"worker": addresses[:num_workers], "ps": addresses[num_workers:]}
    spec = ClusterSpec(jobs)
    configs = {"worker": worker_config, "ps": ps_config}
    started = {
        job: [
            Server(spec, job_name=job, protocol=protocol, task_index=i, config=configs[job])
            for i in range(len(addresses))
        ]
        for job, addresses in jobs.items()
    }
    return started["worker"], started["ps"]


@export("test.StubOutForTesting")
class StubOutForTesting:
    """Puts other things in the place of attributes, and what was there back in the end.

    A context manager; or call UnsetAll and SmartUnsetAll.
    """

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []
        self._set: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> StubOutForTesting:
        return self

    def __exit__(self, *exc: object) -> None:
        self.CleanUp()

    def CleanUp(self) -> None:
        """Put everything back."""
        self.SmartUnsetAll()
        self.UnsetAll()

    def SmartSet(self, obj: Any, attr_name: str, new_attr: Any) -> None:
        """Replace an attribute where it is: in an instance, a module, or the class that has it.

        Raises: AttributeError for an attribute that is not there.
        """
        holder = obj
        if isinstance(obj, type):
            holder = next((base for base in obj.__mro__ if attr_name in vars(base)), obj)
        if not hasattr(holder, attr_name):
            raise AttributeError(f"Attribute not found: {attr_name}")
        self._replaced.append((holder, attr_name, _raw(holder, attr_name)))
        setattr(holder, attr_name, new_attr)

    def SmartUnsetAll(self) -> None:
        """Put back what SmartSet replaced."""
        _put_back(self._replaced)

    def Set(self, parent: Any, child_name: str, new_child: Any) -> None:
        """Replace an attribute."""
        self._set.append((parent, child_name, _raw(parent, child_name)))
        setattr(parent, child_name, new_child)

    def UnsetAll(self) -> None:
        """Put back what Set replaced."""
        _put_back(self._set)


def _raw(holder: Any, name: str) -> Any:
    """Return an attribute as it is held, so that a static method stays one."""
    return getattr(holder, "__dict__", {}).get(name, getattr(holder, name))


def _put_back(replaced: list[tuple[Any, str, Any]]) -> None:
    while replaced:
        setattr(*replaced.pop())


@export("test.benchmark_config")
def benchmark_config() -> Any:
    """Return the configuration of sessions in which a benchmark runs: the default one."""
    return pb.ConfigProto()


@export("test.Benchmark")
class Benchmark:
    """Base of benchmarks: methods of subclasses run operations, and report how long they take."""

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: dict[str, Any] | None = None,
        name: str | None = None,
        metrics: list[dict[str, Any]] | None = None,
    ) -> None:
        """Log what was measured.

        Args:
          cpu_time, wall_time: in seconds.
          name: of the benchmark; the class's by default.
        """
        stated = {
            "iters": iters,
            "cpu_time": cpu_time,
            "wall_time": wall_time,
            "throughput": throughput,
            "extras": extras,
            "metrics": metrics,
        }
        known = ", ".join(f"{key}: {value}" for key, value in stated.items() if value is not None)
        logging.info("Benchmark [%s] %s", name or type(self).__name__, known)

    def run_op_benchmark(
        self,
        sess: Session,
        op_or_tensor: Any,
        feed_dict: dict[Any, Any] | None = None,
        burn_iters: int = 2,
        min_iters: int = 10,
        store_trace: bool = False,
        store_memory_usage: bool = True,
        name: str | None = None,
        extras: dict[str, Any] | None = None,
        mbs: float = 0,
    ) -> dict[str, Any]:
        """Run an operation or tensor again and again, and report the median of the times.

        Args:
          burn_iters: how often it runs before.
          min_iters: how often it is measured.
          store_trace, store_memory_usage: accepted; a trace is made by RunOptions.
          mbs: how many megabytes a run moves, for the throughput.
        Returns: what was reported.
        """
        target = getattr(op_or_tensor, "op", op_or_tensor)
        for _ in range(burn_iters):
            sess.run(target, feed_dict)
        times = []
        for _ in range(min_iters):
            start = clock.monotonic_s()
            sess.run(target, feed_dict)
            times.append(clock.monotonic_s() - start)
        median = float(np.median(times))
        found: dict[str, Any] = {
            "iters": min_iters,
            "wall_time": median,
            "name": name or type(self).__name__,
            "extras": {**(extras or {}), "wall_time_mean": float(np.mean(times))},
            "throughput": mbs / median if mbs and median else 0.0,
        }
        self.report_benchmark(
            iters=min_iters, wall_time=median, throughput=found["throughput"],
            name=found["name"], extras=found["extras"],
        )  # fmt: skip
        return found
