"""Small programs as tutorials have them give what they gave on TensorFlow."""

from __future__ import annotations

import pytest

from tideflow.eager.eager_graph import disable_eager_execution, enable_eager_execution
from tutorials.recording import (
    MODULES,
    difference,
    library,
    programs_of,
    recorded,
    result_of,
)

CASES = [(module, title) for module in MODULES for title in programs_of(module)]


@pytest.fixture
def in_its_shape(request):
    """Behave as the programs of a shape expect it."""
    tf = library("tideflow", request.param)
    if request.param != "eager":
        tf.disable_v2_behavior()
        yield
        tf.enable_v2_behavior()
        return
    enable_eager_execution()
    yield
    disable_eager_execution()


@pytest.mark.parametrize(("in_its_shape", "title"), CASES, indirect=["in_its_shape"])
def test_a_program_gives_what_it_gave_on_tensorflow(in_its_shape, title, request):
    module = request.node.callspec.params["in_its_shape"]
    found = result_of(library("tideflow", module), programs_of(module)[title])
    problem = difference(recorded(module)[title], found)
    assert problem is None, problem
