"""Train small Keras models with `fit` on tideflow and on TensorFlow, in turns: time of an epoch.

Keras is the same on both; on tideflow it runs through the stand-in under the name `tensorflow`.
Each run is a process of its own, with an empty folder for compiled code.  The first epoch is told
by itself, since all is traced and compiled in it; the others by their median.  Processor time is
that of the process and of the one that compiles for it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.models.compiling import CompilingProcess
from benchmarks.processes import Process
from benchmarks.report import PAGE, machine, markdown_table, show, write_part
from benchmarks.runtimes import RUNTIMES, end_with_parent

_MODULE = "benchmarks.keras_epochs"


class Task(NamedTuple):
    """A model and what it is trained on: examples, their labels, and how many make a batch."""

    model: Any
    examples: np.ndarray
    labels: np.ndarray
    batch: int


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _labels(count: int, classes: int = 10) -> np.ndarray:
    return np.random.default_rng(1).integers(0, classes, count).astype(np.int32)


def mlp(keras: Any) -> Task:
    """784-256-128-10, with dropout; batches of 64."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((784,)),
            layers.Dense(256, activation="relu"), layers.Dropout(0.2),
            layers.Dense(128, activation="relu"), layers.Dense(10),
        ]
    )  # fmt: skip
    return Task(model, _floats(8192, 784), _labels(8192), 64)


def cnn(keras: Any) -> Task:
    """Convolutions of 3x3 with 32 and 64 filters, pooled, and a layer of 10; batches of 32."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(),
            layers.Flatten(), layers.Dropout(0.5), layers.Dense(10),
        ]
    )  # fmt: skip
    return Task(model, _floats(2048, 28, 28, 1), _labels(2048), 32)


def transformer(keras: Any) -> Task:
    """One layer 64 wide of 4 heads over 32 tokens of 1000; batches of 32."""
    layers = keras.layers
    tokens = layers.Input((32,), dtype="int32")
    x = layers.Embedding(1000, 64)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 16)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(64)(layers.Dense(128, activation="relu")(x)))
    logits = layers.Dense(10)(layers.GlobalAveragePooling1D()(x))
    examples = _labels(2048 * 32, 1000).reshape(2048, 32)
    return Task(keras.Model(tokens, logits), examples, _labels(2048), 32)


def lstm(keras: Any) -> Task:
    """An LSTM 64 wide over 30 steps of 32 floats; batches of 32."""
    layers = keras.layers
    model = keras.Sequential([layers.Input((30, 32)), layers.LSTM(64), layers.Dense(10)])
    return Task(model, _floats(2048, 30, 32), _labels(2048), 32)


TASKS: dict[str, Callable[[Any], Task]] = {
    "mlp": mlp, "cnn": cnn, "transformer": transformer, "lstm": lstm,
}  # fmt: skip


def train(task: str, epochs: int) -> dict[str, list[float]]:
    """Train in this process; return wall and processor seconds of each epoch, and its loss."""
    import keras  # noqa: PLC0415 - the stand-in comes before it

    keras.utils.set_random_seed(0)
    model, examples, labels, batch = TASKS[task](keras)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss)
    compiling = CompilingProcess(os.environ.get("TIDEFLOW_JIT_CACHE"))
    found: dict[str, list[float]] = {"wall": [], "cpu": [], "loss": []}
    for _ in range(epochs):
        wall_s, cpu_s = time.perf_counter(), time.process_time() + compiling.cpu_s()
        history = model.fit(examples, labels, batch, epochs=1, verbose=0, shuffle=False)
        found["wall"].append(time.perf_counter() - wall_s)
        found["cpu"].append(time.process_time() + compiling.cpu_s() - cpu_s)
        found["loss"].append(float(history.history["loss"][0]))
    return found


def _run(runtime: str, task: str, epochs: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as cache:
        more = {"KERAS_BACKEND": "tensorflow", "TIDEFLOW_JIT_CACHE": cache}
        child = Process("train", runtime, task, str(epochs), module=_MODULE, more=more)
        with contextlib.closing(child):
            found: dict[str, list[float]] = json.loads(child.answer("{"))
            return found


def _row(task: str, runs: dict[str, list[dict[str, list[float]]]]) -> list[str]:
    cells = [task]
    for what in ("wall", "cpu"):
        for take in (lambda epochs: epochs[0], lambda epochs: statistics.median(epochs[1:])):
            base, ours = (
                statistics.median(take(run[what]) for run in runs[runtime]) for runtime in RUNTIMES
            )
            cells += [show(base), show(ours), f"{ours / base:.2f}"]
    return cells


_PARTS = ("first epoch", "later epoch", "first epoch, processor", "later epoch, processor")


def main(arguments: Sequence[str]) -> int:
    """Measure all models, print the table, and on request write it."""
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description=__doc__)
    parser.add_argument("--model", action="append", choices=list(TASKS), help="only this one")
    parser.add_argument("--epochs", type=int, default=6, help="of each run (6)")
    parser.add_argument("--rounds", type=int, default=3, help="runs on each engine (3)")
    parser.add_argument("--write", action="store_true", help=f"write it into {PAGE.name}")
    options = parser.parse_args(arguments)
    chosen = options.model or list(TASKS)
    runs: dict[str, dict[str, list[dict[str, list[float]]]]] = {
        task: {runtime: [] for runtime in RUNTIMES} for task in chosen
    }
    console = Console()
    for number in range(options.rounds):
        for task in chosen:
            for runtime in RUNTIMES[:: -1 if number % 2 else 1]:
                found = _run(runtime, task, options.epochs)
                runs[task][runtime].append(found)
                epochs = ", ".join(map(show, found["wall"]))
                console.print(f"{task}, {runtime}: {epochs}; loss {found['loss'][-1]:.4f}")
    heads = ["", *(f"{p}, {e}" for p in _PARTS for e in ("TensorFlow", "tideflow", "ratio"))]
    heads = [head.split(", ")[-1] if head.endswith("ratio") else head for head in heads]
    table = markdown_table(heads, [_row(task, runs[task]) for task in chosen])
    text = f"{machine()}\n- command: `python -m {_MODULE} {' '.join(arguments)}`\n\n{table}"
    print(text)
    if options.write:
        write_part(PAGE, "keras-epochs", text)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        end_with_parent()
        _, engine, which, count = sys.argv[1:]
        if engine == "tideflow":
            import tideflow.as_tensorflow

            tideflow.as_tensorflow.install()
        print(json.dumps(train(which, int(count))), flush=True)
        os._exit(0)  # tearing down is no part of what is measured
    sys.exit(main(sys.argv[1:]))
