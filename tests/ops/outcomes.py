"""Running one op through a session of either framework, to compare how it ends.

Inputs are fed, so that nothing is known of them when the graph is built: what is wrong with them is
found when the op runs.  An outcome is the outputs, or the name of the error's class.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tideflow.v1 as ours
from ops import compared
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Operation
from tideflow.wire import dtypes

REFUSED = "refused"
# TensorFlow ended its process.
ABORTED = "aborted"

# Outputs, or the name of an error; None where the call could not be put at all.
Outcome = list[Any] | str | None


@dataclass
class Call:
    """One op on given inputs (an array each, or a list of arrays for N * T, or a tuple of them).

    fixed: whether inputs are constants of the graph, which shape rules may read.
    outputs: how many outputs are compared, where no kernel reads the others; None for all.
    """

    op: str
    inputs: Sequence[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    fixed: bool = False
    rtol: float = 1e-5
    atol: float = 1e-6
    id: str = ""
    outputs: int | None = None

    def __str__(self) -> str:
        shapes = "-".join(
            "x".join(map(str, np.shape(i))) if not isinstance(i, (list, tuple)) else f"list{len(i)}"
            for i in self.inputs
        )
        return self.id or f"{self.op}-{shapes}-{'-'.join(map(str, self.attrs.values()))}"


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Return a value as an array; Python's numbers and strings take TensorFlow's types."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        # Asked for objects: NumPy's own strings lose zeros at their end.
        flat = np.asarray(value, object).reshape(-1).tolist()
        items = [x.encode() if isinstance(x, str) else x for x in flat]
        made = np.empty(array.shape, object)
        made.reshape(-1)[:] = items
        return made
    return array.astype({"f": np.float32, "i": np.int32}.get(array.dtype.kind, array.dtype))


def make(tf: Any, call: Call, args: list[Any]) -> Any:
    """Put the call into the default graph, on the given inputs."""
    if tf is ours:
        return apply_op(call.op, *args, **call.attrs)
    raw = getattr(tf.raw_ops, call.op)
    names = list(inspect.signature(raw).parameters)
    # TensorFlow's functions rename some inputs, but keep their order among the inputs.
    inputs = [name for name in names if name not in call.attrs and name != "name"]
    return raw(**dict(zip(inputs, args, strict=False)), **call.attrs)


def outcome(tf: Any, call: Call) -> list[np.ndarray[Any, Any]] | str:
    """Return the op's outputs, flat, or the name of the error's class (REFUSED while building)."""
    feeds: dict[Any, Any] = {}
    v1 = tf if tf is ours else tf.compat.v1

    def tensor(value: Any) -> Any:
        if _is_several(value):
            return [tensor(item) for item in value]
        array = as_array(value)
        if call.fixed:
            return v1.constant(array)
        made = v1.placeholder(dtypes.dtype_of(array).name, None)
        feeds[made] = array
        return made

    with v1.Graph().as_default():
        try:
            found = make(tf, call, [tensor(value) for value in call.inputs])
        except (ValueError, TypeError, v1.errors.InvalidArgumentError):
            return REFUSED
        except v1.errors.OpError as error:
            return type(error).__name__
        with v1.Session(config=plain_config(tf)) as session:
            try:
                if isinstance(found, Operation) or type(found).__name__ == "Operation":
                    session.run(found, feeds)
                    return []
                flat = _flat(found)
                return [_value(x) for x in session.run(flat, feeds)]
            except v1.errors.OpError as error:
                return type(error).__name__


def plain_config(tf: Any) -> Any:
    """Return what keeps TensorFlow from rewriting a graph that runs once: half of its time."""
    if tf is ours:
        return None
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config


def _is_several(value: Any) -> bool:
    is_list = isinstance(value, list) and bool(value) and isinstance(value[0], np.ndarray)
    return is_list or isinstance(value, tuple)


def _value(found: Any) -> np.ndarray[Any, Any]:
    return np.array(found, object) if isinstance(found, bytes) else np.asarray(found)


def _flat(found: Any) -> list[Any]:
    if isinstance(found, (list, tuple)):
        return [x for item in found for x in _flat(item)]
    return [found]


def check_ends_alike(tf: Any, call: Call) -> None:
    """Run the call under TensorFlow (`tf`) and under tideflow, and compare how it ends."""
    theirs, mine = outcome(tf, call), outcome(ours, call)
    if isinstance(theirs, str) or isinstance(mine, str):
        alike = {REFUSED: "InvalidArgumentError"}
        found = alike.get(str(mine), mine) if isinstance(mine, str) else mine
        wanted = alike.get(str(theirs), theirs) if isinstance(theirs, str) else theirs
        assert isinstance(found, str), f"{call}: {found}; TensorFlow: {wanted}"
        assert found == wanted, f"{call}: {found}; TensorFlow: {wanted}"
        compared.refused(call.op)
        return
    assert len(mine) == len(theirs)
    for one, other in zip(mine[: call.outputs], theirs[: call.outputs], strict=True):
        assert one.shape == other.shape, f"{call}: shape {one.shape}, TensorFlow {other.shape}"
        assert one.dtype == other.dtype, f"{call}: type {one.dtype}, TensorFlow {other.dtype}"
        if one.dtype == object:
            assert one.tolist() == other.tolist(), str(call)
        elif one.dtype.kind in "fcV":
            wide = np.complex128 if one.dtype.kind == "c" else np.float64
            rtol = max(call.rtol, 2e-2) if one.dtype.itemsize < 4 else call.rtol
            np.testing.assert_allclose(
                one.astype(wide), other.astype(wide), rtol=rtol, atol=call.atol, err_msg=str(call)
            )
        else:
            np.testing.assert_array_equal(one, other, err_msg=str(call))
    compared.agreed(call.op, _types_of(call.inputs))


def _types_of(inputs: Sequence[Any]) -> set[str]:
    found = set()
    for value in inputs:
        for one in value if _is_several(value) else [value]:
            found.add(dtypes.dtype_of(as_array(one)).name)
    return found
