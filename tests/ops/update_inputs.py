"""Values and other inputs for each op that updates variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.op_def import get_op_def

_SCALARS = {
    "alpha": 0.1,
    "lr": 0.3,
    "l1": 0.05,
    "l2": 0.02,
    "l2_shrinkage": 0.01,
    "lr_power": -0.5,
    "momentum": 0.9,
    "epsilon": 0.01,
    "rho": 0.8,
    "beta1_power": 0.81,
    "beta2_power": 0.9,
    "beta1": 0.9,
    "beta2": 0.95,
    "logbase": 0.7,
    "sign_decay": 0.6,
    "beta": 0.85,
    "global_step": np.int64(3),
}


def update_inputs(
    op_name: str, dtype: Any, l1: float, lr_power: float
) -> tuple[list[Any], list[Any]]:
    """Return old values and other inputs of an update op."""
    definition = get_op_def(op_name)
    count = get_op_def(op_name).update.variables
    random = np.random.default_rng(7)
    shape = (5, 3)
    olds = [random.uniform(0.2, 1.5, shape).astype(dtype) for _ in range(count)]
    olds[0] = random.normal(size=shape).astype(dtype)
    others: list[Any] = []
    for arg in definition.inputs[count:]:
        if arg.name in ("grad", "delta"):
            rows = 2 if "Sparse" in op_name else shape[0]
            others.append(random.normal(size=(rows, *shape[1:])).astype(dtype))
        elif arg.name == "indices":
            others.append(np.array([3, 0], np.int32))
        elif arg.name == "global_step":
            others.append(np.array(3, np.int64))
        else:
            settled = {**_SCALARS, "l1": l1, "lr_power": lr_power}
            others.append(np.array(settled[arg.name], dtype))
    return olds, others
