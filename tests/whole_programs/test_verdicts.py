"""What differences come to, and which are one finding, without TensorFlow."""

from __future__ import annotations

from typing import Any

import pytest

from whole_programs.bench import ALONE, LOCAL, Outcome, Pair, differ
from whole_programs.syntax import Program, Statement, Type
from whole_programs.verdicts import Finding, calls, findings, judge, kind, signature, triage

OURS = Pair("tideflow", LOCAL)
PROGRAM = Program(7, "v1", (Statement("at.note(lambda: 1)"),))


class Replies:
    """Gives what pairs note when they run again."""

    def __init__(self, notes: dict[Pair, list[Any]]) -> None:
        self.notes = notes

    def run(self, program: Program, pair: Pair) -> list[Any]:
        return self.notes[pair]


@pytest.mark.parametrize(
    ("reference", "ours", "plain", "verdict"),
    [
        ([1], [2], [1], "differs"),
        ([1], [2], [2], "rewritten"),
        ([1], [1], [1], "once"),
        ([3], [2], [1], "unstable"),
    ],
)
def test_a_difference_is_told_if_it_repeats_and_is_not_that_of_optimisers(
    reference: list[Any], ours: list[Any], plain: list[Any], verdict: str
) -> None:
    again = Replies({ALONE: reference, OURS: ours, OURS.plain_reference: plain})
    found = judge(again, PROGRAM, Outcome(7, {ALONE: [1], OURS: [2]}))
    assert [name for name, some in vars(found).items() if some] == [verdict]
    assert list(getattr(found, verdict)) == [str(OURS)]


def test_programs_that_do_not_differ_are_not_run_again() -> None:
    found = judge(Replies({}), PROGRAM, Outcome(7, {ALONE: [1], OURS: [1]}))
    assert not any(vars(found).values())


def error(kind: str, text: str = "") -> dict[str, str]:
    return {"error": kind, "text": f"{kind}: {text}"}


@pytest.mark.parametrize(
    ("expected", "found", "told"),
    [
        (1, 2, "number / number"),
        (None, 2, "None / number"),
        ("a", "b", "text / text"),
        ([1], [1, 2], "structure / structure"),
        (error("ValueError"), 1, "ValueError / number"),
        ({"failed": error("ValueError")}, {"failed": error("TypeError")}, "ValueError / TypeError"),
        (1, {"failed": error("TypeError")}, "number / ends with TypeError"),
    ],
)
def test_a_kind_says_what_is_on_each_side(expected: Any, found: Any, told: str) -> None:
    (text,) = differ([expected], [found])
    assert kind(text) == told


def test_arrays_are_told_apart_by_their_type_and_by_being_empty() -> None:
    text = "note 3: expected array([], dtype=float32), found array([ 8, 14], dtype=int32)"
    assert kind(text) == "empty array of float32 / array of int32"
    assert kind("3 notes expected, 4 found") == "how many notes"


def test_a_signature_keeps_what_errors_say_but_not_what_each_run_has_otherwise() -> None:
    def told(node: str, number: int) -> str:
        (text,) = differ([error("NotFoundError", f"no '{node}' in step {number}")], [1])
        return signature(text)

    assert told("a", 3) == told("b_1", 44)
    assert told("a", 3) == "NotFoundError / number; no # in step #"


def test_findings_are_what_differs_in_the_same_way_by_the_same_calls() -> None:
    rows = [
        {"seed": 1, "kind": "k", "calls": ["tf.abs"], "least": "long one"},
        {"seed": 2, "kind": "k", "calls": ["tf.add"], "least": "x"},
        {"seed": 3, "kind": "k", "calls": ["tf.abs"], "least": "short"},
    ]
    assert findings(rows) == [
        Finding("k", ("tf.abs",), [1, 3], "short"),
        Finding("k", ("tf.add",), [2], "x"),
    ]


def test_triage_shrinks_to_what_still_differs_and_names_its_calls() -> None:
    tensor = Type("tensor")
    program = PROGRAM.with_statements(
        [
            Statement("a = tf.ones([2])", (("a", tensor),)),
            Statement("b = tf.math.tanh(⟨a⟩)", (("b", tensor),)),
            Statement("at.note(sess.run, ⟨b⟩)"),
            Statement("at.note(sess.run, ⟨a⟩)"),
        ]
    )

    class Tanh:
        """Differs where a program runs tanh."""

        def run(self, program: Program, pair: Pair) -> list[Any]:
            text = "".join(one.text for one in program.statements)
            runs = "tanh" in text and "⟨b⟩" in text
            return [1] if pair == OURS and runs else [0]

    row = triage(Tanh(), program, OURS, 100)
    assert row is not None
    assert row["calls"] == ("tf.math.tanh", "tf.ones")
    assert (row["seed"], row["kind"]) == (7, "number / number")
    assert "sess.run, a" not in row["least"]
    assert triage(Replies({ALONE: [1], OURS: [1]}), program, OURS, 9) is None


def test_calls_leave_out_what_every_program_does() -> None:
    text = "with tf.Session(at.target()) as sess:"
    body = (Statement("at.note(sess.run, tf.nn.relu(1.0).op)"),)
    assert calls(PROGRAM.with_statements([Statement(text, body=body)])) == ("tf.nn.relu",)
