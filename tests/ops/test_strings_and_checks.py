"""Strings, assertions, printing and Python functions."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def value_of(tensor: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(tensor, feed)


def test_joining() -> None:
    assert value_of(tf.string_join(["a", ["b", "c"]], "-")).tolist() == [b"a-b", b"a-c"]
    assert value_of(tf.reduce_join([["a", "b"], ["c", "d"]], 1, separator=",")).tolist() == [
        b"a,b",
        b"c,d",
    ]
    with pytest.raises(ValueError, match="compatible"):
        tf.string_join([["a"], ["b", "c"]])


def test_matching_and_replacing() -> None:
    assert value_of(tf.strings.regex_full_match(["ab", "b"], "a.*")).tolist() == [True, False]
    assert value_of(tf.regex_replace("aab", "a", "x")) == b"xxb"
    with pytest.raises(tf.errors.InvalidArgumentError, match="pattern"):
        value_of(tf.strings.regex_full_match(["a"], "("))


def test_numbers() -> None:
    assert value_of(tf.as_string([1.5, 2.0], precision=2)).tolist() == [b"1.50", b"2.00"]
    assert value_of(tf.string_to_number(["1.5", "2"])).tolist() == [1.5, 2.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="nope"):
        value_of(tf.string_to_number(["nope"]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="300000000000"):
        value_of(tf.string_to_number(["300000000000"], tf.int32))


def test_parts() -> None:
    assert value_of(tf.substr(["hello"], 1, 3)).tolist() == [b"ell"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside"):
        value_of(tf.substr(["hello"], 9, 3))


def test_assert_tells_its_data() -> None:
    ok = tf.placeholder(tf.bool, [])
    check = tf.Assert(ok, ["bad", tf.constant([1, 2, 3, 4])])
    value_of(check, {ok: True})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[bad\] \[1 2 3\.\.\.\]"):
        value_of(check, {ok: False})


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("assert_equal", (1, 1), (1, 2)),
        ("assert_none_equal", (1, 2), (1, 1)),
        ("assert_less", (1, 2), (2, 2)),
        ("assert_less_equal", (2, 2), (3, 2)),
        ("assert_greater", (3, 2), (2, 2)),
        ("assert_greater_equal", (2, 2), (1, 2)),
        ("assert_near", (1.0, 1.0 + 1e-15), (1.0, 1.1)),
        ("assert_positive", (1,), (0,)),
        ("assert_negative", (-1,), (0,)),
        ("assert_non_negative", (0,), (-1,)),
        ("assert_non_positive", (0,), (1,)),
    ],
)
def test_assertions(name: str, good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    check = getattr(tf.debugging, name)
    value_of(check(*good))
    with pytest.raises(tf.errors.InvalidArgumentError):
        made = check(*[tf.constant(value) for value in bad])
        # Distances are computed, and known when they run.
        assert name == "assert_near"
        value_of(made)
    later = [tf.placeholder(tf.as_dtype(np.asarray(value).dtype), [None]) for value in good]
    op = check(*later, message="why")
    value_of(op, {x: [value] for x, value in zip(later, good)})
    with pytest.raises(tf.errors.InvalidArgumentError, match="why"):
        value_of(op, {x: [value] for x, value in zip(later, bad)})


def test_rank_assertions() -> None:
    x, unknown = tf.constant([1]), tf.placeholder(tf.float32)
    tf.debugging.assert_rank(x, 1)
    tf.debugging.assert_rank_at_least(x, 0)
    tf.debugging.assert_rank_in(x, [0, 1])
    with pytest.raises(ValueError, match="rank"):
        tf.debugging.assert_rank(x, 2)
    op = tf.debugging.assert_rank(unknown, 1)
    value_of(op, {unknown: [1.0]})
    with pytest.raises(tf.errors.InvalidArgumentError):
        value_of(op, {unknown: 1.0})


def test_check_numerics() -> None:
    x = tf.placeholder(tf.float32, [None])
    y = tf.check_numerics(x, "in the middle")
    assert value_of(y, {x: [1.0]}).tolist() == [1.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"in the middle.*NaN"):
        value_of(y, {x: [np.nan]})


def test_print_writes_and_passes_on(capfd: pytest.CaptureFixture[str]) -> None:
    x = tf.Print(tf.constant(1.0), [tf.constant([1, 2, 3, 4])], "seen ", first_n=1)
    with tf.Session() as session:
        assert [session.run(x), session.run(x)] == [1.0, 1.0]
    assert capfd.readouterr().err == "seen [1 2 3...]\n"


def test_print_v2(capfd: pytest.CaptureFixture[str]) -> None:
    value_of(tf.print("x:", tf.constant([[1, 2], [3, 4]]), [1, tf.constant(0.1)]))
    assert capfd.readouterr().err == "x: [[1 2]\n [3 4]] [1, 0.1]\n"
    value_of(tf.print(tf.constant("plain")))
    assert capfd.readouterr().err == "plain\n"


def test_py_func() -> None:
    calls: list[int] = []

    def add(x: Any, y: Any) -> Any:
        calls.append(1)
        return x + y

    total = tf.py_func(add, [np.float32(1), tf.constant([2.0, 3.0])], tf.float32)
    assert value_of(total).tolist() == [3.0, 4.0]
    assert len(calls) == 1
    several = tf.py_func(lambda s: (s + b"!", np.int64(len(s))), ["ab"], [tf.string, tf.int64])
    text, size = value_of(several)
    assert (text, size) == (b"ab!", 2)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError, tf.errors.InvalidArgumentError),
        (StopIteration, tf.errors.OutOfRangeError),
        (NotImplementedError, tf.errors.UnimplementedError),
        (RuntimeError, tf.errors.UnknownError),
    ],
)
def test_py_func_errors(error: type[Exception], code: type[Exception]) -> None:
    def fail() -> Any:
        raise error("what went wrong")

    with pytest.raises(code, match="what went wrong"):
        value_of(tf.py_func(fail, [], tf.float32))


def test_py_func_checks_types() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="float64"):
        value_of(tf.py_func(lambda: np.float64(1), [], tf.float32))


def test_a_graph_keeps_its_functions() -> None:
    x = tf.py_func(lambda: np.float32(4), [], tf.float32)
    gc.collect()
    assert value_of(x) == 4.0


TEXTS_WITH_ZEROS = [b"a\0\0", "\0", [b"a\0", b"bcd"], [["\0"], ["b\0"]], ()]


@pytest.mark.parametrize("value", TEXTS_WITH_ZEROS, ids=repr)
def test_texts_keep_the_zeros_at_their_end(value: Any) -> None:
    wanted = np.vectorize(lambda x: x.encode() if isinstance(x, str) else x, otypes=[object])
    expected = wanted(np.array(value, object)).tolist() if len(value) else []
    fed = tf.placeholder(tf.string, None)
    for tensor in (tf.constant(value, tf.string), tf.identity(fed)):
        assert np.asarray(value_of(tensor, {fed: value}), object).tolist() == expected


def test_py_function_gives_eager_tensors_to_its_function_and_has_a_gradient() -> None:
    given = tf.constant([1.0, 3.0])
    made = tf.py_function(lambda x: x * x + float(x[0]), [given], tf.float32)
    made.set_shape([2])
    (slope,) = tf.gradients(made, [given])
    with tf.Session() as session:
        found = session.run([made, slope])
    assert [one.tolist() for one in found] == [[2.0, 10.0], [2.0, 6.0]]


def test_py_function_is_called_with_eager_tensors_where_only_the_v1_shape_is_imported() -> None:
    program = (
        "import tideflow.v1 as tf\n"
        "x = tf.constant([1.0, 3.0])\n"
        "y = tf.py_function(lambda x: x * x + float(x[0]), [x], tf.float32)\n"
        "with tf.Session() as session:\n"
        "    print(session.run([y, tf.gradients(y, [x])[0]]), tf.executing_eagerly())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.split() == (
        [
            "[array([",
            "2.,",
            "10.],",
            "dtype=float32),",
            "array([2.,",
            "6.],",
            "dtype=float32)]",
            "False",
        ]
    )


def test_regular_expressions_are_those_of_re2() -> None:
    replaced = tf.strings.regex_replace
    assert value_of(replaced("aab a\u00e9", "a*|\u00e9", r"<\0>")) == "<aa>b<> <a>\u00e9<>".encode()
    assert value_of(replaced("h\u00e9\u00e9", "\u00e9?", "|")) == b"|h||"
    assert value_of(replaced(b"h\xc3\xc3\xa9", "x?", "|")) == b"|h|\xc3|\xc3\xa9|"
    assert value_of(replaced("aXb", r"\pL", "E")) == b"EEE"
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Invalid pattern: .*<=.*, error: "):
        value_of(replaced("a", "(?<=a)b", "E"))


def test_no_pattern_and_no_number_takes_time_that_grows_faster_than_the_text() -> None:
    # Python's own would take longer than the machine lasts.
    matched = tf.strings.regex_full_match("a" * 100_000 + "!", "(a+)+$")
    assert not value_of(matched)
    digits = "1" * 200_000
    for text, default in ((digits, 1), (digits + "x", 1.0), ("0x" + digits + "z", 1.0)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="is not a valid"):
            value_of(tf.io.decode_csv(text, [[default]]))
    assert value_of(tf.io.decode_csv("-" + "0" * 6000 + "12", [[1]])) == [-12]
