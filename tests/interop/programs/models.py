"""Training steps of Keras models, as graphs with their functions (see `export_models.py`)."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from programs.registry import Cluster, add_program

MODELS = ("mlp", "cnn", "lstm", "gru", "transformer", "recommender")
_STEPS = 20
_EXPORTER = Path(__file__).parents[1] / "export_models.py"


def _exported(model: str) -> Path:
    """Return the folder of an exported step; the first call makes all."""
    directory = Path(os.environ["INTEROP_SCRATCH"]) / "models"
    if not directory.exists():
        subprocess.run([sys.executable, str(_EXPORTER), str(directory)], check=True)
    return directory / model


def _trains(model: str, tf: Any, cluster: Cluster) -> Any:
    exported = _exported(model)
    graph = tf.GraphDef.FromString((exported / "graph.pb").read_bytes())
    with tf.device("/job:ps/task:0"):
        handles = {
            placeholder: tf.get_variable(
                f"{cluster.name}_{i}", initializer=value, use_resource=True
            ).handle
            for i, (placeholder, value) in enumerate(np.load(exported / "variables.npz").items())
        }
    wanted = [(exported / "loss.txt").read_text()]
    (loss,) = tf.import_graph_def(graph, handles, return_elements=wanted, name=model)
    updates = [
        operation
        for operation in tf.get_default_graph().get_operations()
        if operation.name.startswith(f"{model}/") and operation.type.startswith("Assign")
    ]
    feeds = {f"{model}/{name}:0": value for name, value in np.load(exported / "feeds.npz").items()}
    with cluster.session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run([loss, updates], feeds)[0] for _ in range(_STEPS)]


for _model in MODELS:
    add_program(f"trains_an_exported_{_model}", functools.partial(_trains, _model))
