"""tf.linalg.LinearOperator and its family: what acts as a matrix without being one.

`base` has all methods, with dense matrices where nothing better is known; `rules` says which
operator results of others; `spec` takes operators apart into tensors, for functions and loops.
"""

from __future__ import annotations

from tideflow.eager.linear_operators import banded, iterative, rules, updates
from tideflow.eager.linear_operators.base import LinearOperator

__all__ = ["LinearOperator", "banded", "iterative", "rules", "updates"]
