"""What a program is given beside the library: where it runs, and where it notes what it sees."""

from __future__ import annotations

import argparse
import importlib
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

MODULES = {
    ("v1", "tensorflow"): "tensorflow.compat.v1",
    ("v1", "tideflow"): "tideflow.v1",
    ("v2", "tensorflow"): "tensorflow",
    ("v2", "tideflow"): "tideflow",
}
# A step that takes longer has hung.
STEP_TIMEOUT_MS = 20_000
# By library.
_mirrored: dict[Any, Any] = {}


class At:
    """Where a program runs, and what it has seen.

    Attributes:
      name: of the run, for state on servers that no other run may see; "" without a cluster.
      directory: a folder for its files.
      optimises: whether a real TensorFlow rewrites graphs before it runs them.
      notes: what it has seen, in order.
    """

    def __init__(
        self,
        tf: Any,
        name: str,
        directory: str,
        targets: Mapping[str, str] | None = None,
        optimises: bool = True,
    ) -> None:
        self.tf = tf
        self.targets = targets
        self.name = name if targets is not None else ""
        self.directory = directory
        self.optimises = optimises
        self.notes: list[Any] = []
        self.number = 0

    # ---- where

    def target(self, task: str = "worker:0") -> str:
        """Return what a session on a task is opened with; "" without a cluster."""
        return self.targets[task] if self.targets else ""

    def device(self, name: str) -> str:
        """Return a device of the cluster, or the one that there is without a cluster."""
        return name if self.targets is not None else "/cpu:0"

    def mirrored_strategy(self) -> Any:
        """Return the MirroredStrategy of this process.

        TensorFlow numbers the collectives of each strategy from 100 on, and takes those of two that
        have one number for one: where programs of a process make their own, they fail or hang.
        It has two replicas; who has joined a cluster has one device of its own.
        """
        if self.tf not in _mirrored:
            devices = ["/cpu:0", "/cpu:1"][: 2 if self.targets is None else 1]
            _mirrored[self.tf] = self.tf.distribute.MirroredStrategy(devices)
        return _mirrored[self.tf]

    def ps_tasks(self) -> int:
        """Return how many tasks hold variables."""
        return 0 if self.targets is None else 1

    def config(self, **options: Any) -> Any:
        """Return a ConfigProto with which no step hangs."""
        options.setdefault("operation_timeout_in_ms", STEP_TIMEOUT_MS)
        made = self.tf.ConfigProto(**options)
        if not self.optimises:
            made.graph_options.rewrite_options.disable_meta_optimizer = True
            made.graph_options.optimizer_options.opt_level = self.tf.OptimizerOptions.L0
        return made

    def use_control_flow(self, version: int) -> None:
        """Let a real TensorFlow build branches and loops of version 1 or 2; ours has one for v1."""
        if hasattr(self.tf, "enable_control_flow_v2"):
            (self.tf.disable_control_flow_v2, self.tf.enable_control_flow_v2)[version - 1]()

    # ---- what is seen

    def note(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Note what a call returns or the class of its error; return what it returns."""
        found, returned = self._try(call, arguments, named)
        self.notes.append(found)
        return returned

    def note_form(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        """Note the types and shapes of what a call returns, whose values depend on timing."""
        found, returned = self._try(call, arguments, named)
        failed = isinstance(found, dict) and "error" in found
        self.notes.append(found if failed else _form(returned))

    def note_summary(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        """Note what the summary holds that a call returns."""
        found, returned = self._try(call, arguments, named)
        if isinstance(returned, bytes):
            found = _read_summary(self.tf.Summary.FromString(returned))
        self.notes.append(found)

    def events(self, directory: str) -> list[Any]:
        """Return the steps and tags of the events that a folder holds, without those that say of
        which version a file is: TensorFlow makes a file with its first event."""
        files = sorted(os.path.join(directory, name) for name in os.listdir(directory))
        events = [event for file in files for event in self.tf.train.summary_iterator(file)]
        told = [one for one in events if not one.file_version]
        return [[one.step, [value.tag for value in one.summary.value]] for one in told]

    def note_all(self, call: Callable[..., Any], *arguments: Any, most: int = 12) -> None:
        """Note what calls return until one fails."""
        for _ in range(most):
            found, _ = self._try(call, arguments, {})
            self.notes.append(found)
            if isinstance(found, dict) and "error" in found:
                return

    def _try(
        self, call: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, Any]:
        try:
            returned = call(*arguments, **named)
            return normal(returned), returned
        except Exception as error:
            return failure(error), None


def failure(error: BaseException) -> dict[str, str]:
    """Return what is compared of an error: its class."""
    return {"error": type(error).__name__, "text": f"{type(error).__name__}: {error}"[:2000]}


def normal(value: Any) -> Any:
    """Return a value as what can be compared and travel: arrays, texts, lists, dicts, None."""
    if isinstance(value, dict):
        return {str(key): normal(one) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = {name: normal(one) for name, one in zip(value._fields, value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [normal(one) for one in value]}
    if value is None or isinstance(value, str | bytes | bool | int | float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if value.dtype.kind == "O" and not value.shape else np.asarray(value)
    for field in ("numpy", "to_list"):
        if hasattr(value, field):
            return normal(getattr(value, field)())
    return type(value).__name__


def _form(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _form(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_form(one) for one in value]}
    array = np.asarray(value)
    return [type(value).__name__, array.dtype.name, list(array.shape)]


def _read_summary(summary: Any) -> Any:
    found: dict[str, Any] = {}
    for one in summary.value:
        kind = one.WhichOneof("value")
        held = getattr(one, kind)
        if kind == "histo":
            held = [held.min, held.max, held.num, held.sum, held.sum_squares, list(held.bucket)]
        found[one.tag] = [kind, held if isinstance(held, int | float | list) else "..."]
    return found


def prepare(tf: Any, shape: str, optimises: bool = True) -> None:
    """Make a library ready for programs of a shape.

    optimises is whether a real TensorFlow rewrites graphs before it runs them.
    """
    if shape == "v1":
        tf.disable_v2_behavior()
    else:
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        if not optimises:
            tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def run(tf: Any, shape: str, program: Callable[[Any, At], None], at: At) -> list[Any]:
    """Run a program and return what it noted, its error last if it failed."""
    try:
        if shape == "v1":
            with tf.Graph().as_default(), tf.container(at.name):
                program(tf, at)
        else:
            program(tf, at)
    except Exception as error:
        at.notes.append({"failed": failure(error)})
    return at.notes


def run_script(program: Callable[[Any, At], None], shape: str) -> None:
    """Run a program as a script: `python program.py tensorflow|tideflow [--target grpc://...]`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["tensorflow", "tideflow"])
    parser.add_argument("--target", help="the master of worker 0; all sessions are opened there")
    arguments = parser.parse_args()
    tf = importlib.import_module(MODULES[shape, arguments.library])
    prepare(tf, shape)
    targets = None
    if arguments.target:
        targets = {f"worker:{task}": arguments.target for task in range(2)}
    with tempfile.TemporaryDirectory() as directory:
        for note in run(tf, shape, program, At(tf, "script", directory, targets)):
            print(note)
