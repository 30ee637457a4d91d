"""What is used of diastatic-malt does what it is used for.

Where one of these fails after an upgrade, mend eager/autograph/malt_library.py, or keep to an older
release in pyproject.toml.
"""

from __future__ import annotations

import pytest

from tideflow.eager.autograph import malt_library
from tideflow.eager.autograph.malt_library import Rewriter


def doubled_if_positive(x):
    if x > 0:
        x = helper(x)
    return x


def helper(x):
    return 2 * x


@pytest.fixture
def asked():
    return []


@pytest.fixture
def rewriter(asked):
    def if_stmt(condition, body, orelse, get_state, set_state, symbol_names, nouts):
        asked.append("if")
        (body if condition else orelse)()

    def converted_call(function, args, kwargs, *rest):
        asked.append(function.__name__)
        return function(*args, **(kwargs or {}))

    return Rewriter({"if_stmt": if_stmt, "converted_call": converted_call})


def test_control_flow_and_calls_ask_our_operators(rewriter, asked):
    made, lines = rewriter.rewrite(doubled_if_positive)
    assert made(3) == 6
    assert asked == ["if", "helper"]
    assert made(-3) == -3
    assert {origin.loc.filename for origin in lines.values()} == {__file__}
    first = doubled_if_positive.__code__.co_firstlineno
    assert first + 1 in {origin.loc.lineno for origin in lines.values()}


def test_source_that_cannot_be_read_says_so(rewriter):
    made = {}
    exec("def unseen(x): return x", made)
    with pytest.raises(malt_library.InaccessibleSourceCodeError):
        rewriter.rewrite(made["unseen"])


def test_a_function_scope_is_entered_and_passes_values_on():
    made, _ = Rewriter({}).rewrite(helper)
    assert made(4) == 8
    assert callable(malt_library.LibraryScope.ret)
    assert callable(malt_library.LibraryScope.__enter__)


def test_whether_calls_are_converted_is_of_the_thread():
    assert not malt_library.is_converting_off()
    with malt_library.not_converting():
        assert malt_library.is_converting_off()
        with malt_library.converting():
            assert not malt_library.is_converting_off()
    assert not malt_library.is_converting_off()


def test_variables_without_a_value_have_types_of_their_own():
    assert malt_library.Undefined("x").symbol_name == "x"
    assert isinstance(malt_library.UndefinedReturnValue, type)


def test_builtins_are_known():
    assert malt_library.isbuiltin(len)
    assert not malt_library.isbuiltin(helper)
    assert not malt_library.is_unsupported(helper)
