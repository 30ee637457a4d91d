"""Gradients of one op, through a session of either framework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tideflow.v1 as ours
from ops import compared
from ops.outcomes import Call, as_array, make, plain_config


def gradients_of(tf: Any, call: Call, at: Sequence[int], order: int = 1) -> list[Any]:
    """Return the gradients of the first output, squared and added up, by the inputs `at`.

    order: 2 for those of the sum of the squares of the gradients.
    """
    v1 = tf if tf is ours else tf.compat.v1
    with v1.Graph().as_default():
        given = [v1.constant(as_array(value)) for value in call.inputs]
        found = make(tf, call, given)
        y = found[0] if isinstance(found, (list, tuple)) else found
        wanted = [given[i] for i in at]
        made = [y]
        for _ in range(order):
            square = v1.add_n([v1.reduce_sum(v1.square(one)) for one in made])
            made = [one for one in v1.gradients(square, wanted) if one is not None]
        with v1.Session(config=plain_config(tf)) as session:
            found_values: list[Any] = session.run(made)
            return found_values


def check_gradients_alike(tf: Any, call: Call, at: Sequence[int], order: int = 1) -> None:
    """Compare gradients under TensorFlow (`tf`) and under tideflow."""
    theirs, mine = (gradients_of(one, call, at, order) for one in (tf, ours))
    assert len(theirs) == len(mine)
    for one, other in zip(mine, theirs, strict=True):
        assert one.dtype == other.dtype
        scale = max(1.0, float(np.abs(other).max(initial=0)))
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * scale, err_msg=str(call))
    compared.agreed(call.op, set())
