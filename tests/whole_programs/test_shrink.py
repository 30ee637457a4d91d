"""Programs are shrunk to what still differs, without TensorFlow."""

from __future__ import annotations

from whole_programs.generate import generate
from whole_programs.shrink import shrink
from whole_programs.syntax import Program, Statement, Type, is_well_formed, render

TENSOR = Type("tensor", "float32")


def made(name: str, text: str) -> Statement:
    return Statement(f"{name} = {text}", ((name, TENSOR),))


def lines(program: Program) -> list[str]:
    return [line.strip() for line in render(program).splitlines()[1:]]


def shrunk(*statements: Statement, needs: str) -> list[str]:
    """Return the lines that are left of a program that differs while it has a text."""
    program = Program(0, "v1", statements)
    tried: list[Program] = []

    def differs(candidate: Program) -> bool:
        assert is_well_formed(candidate.statements)
        tried.append(candidate)
        return needs in render(candidate)

    found = shrink(program, differs)
    assert needs in render(found)
    return lines(found)


def test_what_nothing_needs_goes_with_what_needs_it() -> None:
    found = shrunk(
        made("a", "1"), made("b", "⟨a⟩ + 1"), made("c", "bad()"), Statement("note(⟨b⟩)"),
        needs="bad()",
    )  # fmt: skip
    assert found == ["c = bad()"]


def test_what_is_needed_stays() -> None:
    found = shrunk(made("a", "1"), made("b", "2"), Statement("bad(⟨a⟩)"), needs="bad(a)")
    assert found == ["a = 1", "bad(a)"]


def test_blocks_are_taken_away_from_around_their_bodies() -> None:
    inner = Statement("with g():", body=(made("a", "bad()"),))
    found = shrunk(Statement("with f():", body=(inner, made("b", "1"))), needs="bad()")
    assert found == ["a = bad()"]


def test_parts_go_that_a_statement_can_do_without() -> None:
    found = shrunk(made("a", "1"), Statement("bad([⟪⟨a⟩, ⟫⟪2, ⟫⟪3, ⟫])"), needs="bad([")
    assert found == ["bad([])"]


def test_a_part_goes_with_the_name_that_it_uses() -> None:
    found = shrunk(made("a", "1"), Statement("bad([⟪⟨a⟩, ⟫⟪2, ⟫])"), needs="2]")
    assert found == ["bad([2])"]


def test_earlier_values_of_the_type_take_the_place_of_later_ones() -> None:
    found = shrunk(made("a", "1"), made("b", "⟨a⟩ + 1"), Statement("bad(⟨b⟩)"), needs="bad(")
    assert found == ["bad()"] or found == ["a = 1", "bad(a)"]


def test_a_function_goes_with_its_calls() -> None:
    function = Statement("def f(x):", (("f", Type("function")),), (Statement("return 1"),), True)
    found = shrunk(function, Statement("note(⟨f⟩)"), Statement("bad()"), needs="bad()")
    assert found == ["bad()"]


def test_it_gives_up_in_time() -> None:
    tried = []

    def differs(candidate: Program) -> bool:
        tried.append(candidate)
        return False

    program = generate(3)
    assert shrink(program, differs, most_tries=10) == program
    assert len(tried) == 10


def test_a_generated_program_is_shrunk_to_one_call() -> None:
    program = next(
        one for one in map(generate, range(100)) if one.shape == "v1" and "tf.tanh(" in render(one)
    )
    found = shrink(program, lambda one: "tf.tanh(" in render(one), most_tries=2000)
    assert len(lines(found)) <= 4
