"""Mutations of a call of every op, beside TensorFlow.

Values that are not finite, sizes of zero and one, other ranks, indices out of range, and attrs of
other values: both must end alike, with the same outputs or the same error.
"""

from __future__ import annotations

import pytest

from ops.bad_inputs.comparison import Ask, check_ends_alike
from ops.bad_inputs.further_calls import further_calls
from ops.bad_inputs.mutations import calls_of_other_kinds, first_calls, mutations

pytest.importorskip("tensorflow")

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.filterwarnings("ignore"),
]

# By op; a second call of an op has more words in its name.
CALLS = first_calls() | further_calls()
OTHERS = calls_of_other_kinds()

# How many mutations of a call of other kinds are tried: most of them are those of the first call.
MOST_OF_OTHER_KINDS = 12


@pytest.mark.parametrize("name", sorted(CALLS))
def test_mutated_calls_end_alike(on_tensorflow: Ask, name: str) -> None:
    check_ends_alike(on_tensorflow, name, mutations(CALLS[name]))


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_mutated_calls_of_other_kinds_end_alike(on_tensorflow: Ask, name: str) -> None:
    check_ends_alike(on_tensorflow, name, mutations(OTHERS[name], MOST_OF_OTHER_KINDS))
