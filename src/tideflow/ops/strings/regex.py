"""Regular expressions on strings, by RE2, as in TensorFlow.

The time that a match takes grows with the text alone, whoever wrote the pattern.
Source: tensorflow/core/ops/string_ops.cc, core/kernels/{regex_replace,regex_full_match}_op.cc.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import re2

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import same_as
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.strings.strings import encoded, map_strings, scalar_string
from tideflow.wire.errors import InvalidArgumentError


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


# Each may hold up to 8 MiB of automata.
@functools.lru_cache(maxsize=32)
def _compiled(pattern: bytes) -> Any:
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        why = error.args[0]
        shown = why.decode(errors="replace") if isinstance(why, bytes) else why
        raise InvalidArgumentError(
            f"Invalid pattern: {pattern.decode(errors='replace')}, error: {shown}"
        ) from None


def _full_match(x: object, pattern: bytes) -> Any:
    compiled = _compiled(pattern)
    return map_strings(lambda item: compiled.fullmatch(item) is not None, x, np.bool_)


@op(
    """
    StaticRegexFullMatch(input: string) -> output: bool
    pattern: string
    """,
    shape=same_as(0),
)
def static_regex_full_match_kernel(ctx: KernelContext, x: Array | bytes, *, pattern: str) -> Any:
    """Tell which strings match the pattern as a whole."""
    return _full_match(x, encoded(pattern))


@op("RegexFullMatch(input: string, pattern: string) -> output: bool", shape=same_as(0))
def regex_full_match_kernel(ctx: KernelContext, x: Array | bytes, pattern: Array | bytes) -> Any:
    """Tell which strings match the pattern as a whole."""
    return _full_match(x, scalar_string(pattern, "pattern"))


@export("strings.regex_full_match")
def regex_full_match(input: TensorLike, pattern: TensorLike, name: str | None = None) -> Tensor:
    """Tell which strings match the pattern as a whole."""
    made: Tensor
    if isinstance(pattern, (str, bytes)):
        made = apply_op("StaticRegexFullMatch", input, pattern=pattern, name=name)
    else:
        made = apply_op("RegexFullMatch", input, pattern, name=name)
    return made


@functools.lru_cache(maxsize=256)
def _rewriting(rewrite: bytes) -> tuple[tuple[bytes | int, ...], bool]:
    """Return what takes the place of a match, and whether all of it could be read.

    It is made of literals and numbers of groups.  After a backslash stands a digit, for a group, or
    another backslash; nothing is read after anything else.
    """
    parts: list[bytes | int] = []
    end = 0
    for found in re.finditer(rb"[^\\]+|\\([0-9\\])", rewrite):
        if found.start() != end:
            break
        end = found.end()
        escaped = found[1]
        if escaped is None:
            parts.append(found[0])
        else:
            parts.append(int(escaped) if escaped.isdigit() else escaped)
    return tuple(parts), end == len(rewrite)


def _character_bytes(text: bytes, at: int) -> int:
    """Return how many bytes the UTF-8 character at a place has; 1 for what is none."""
    first = text[at] if at < len(text) else 0
    size = 1 + (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0)
    try:
        text[at : at + size].decode()
    except UnicodeDecodeError:
        return 1
    return size


def _replace(x: TensorLike, pattern: bytes, rewrite: bytes, replace_global: bool) -> Any:
    """Rewrite matches as RE2 does: nothing changes where the rewrite cannot be followed."""
    compiled = _compiled(pattern)
    parts, is_whole = _rewriting(rewrite)
    highest = max((part for part in parts if isinstance(part, int)), default=0)
    if highest > compiled.groups or not (is_whole or replace_global):
        return map_strings(lambda item: item, x)

    def rewritten(item: bytes) -> bytes:
        done: list[bytes] = []
        end, next_empty = 0, 0
        for found in compiled.finditer(item):
            begin, behind = found.span()
            if begin == behind:
                if begin < next_empty:
                    continue
                next_empty = begin + _character_bytes(item, begin)
            else:
                # Nothing empty is found where a match has just ended.
                next_empty = behind + _character_bytes(item, behind)
            done.append(item[end:begin])
            done += [found[p] or b"" if isinstance(p, int) else p for p in parts]
            end = behind
            if not replace_global:
                break
        return b"".join(done) + item[end:]

    return map_strings(rewritten, x)


@op(
    """
    StaticRegexReplace(input: string) -> output: string
    pattern: string
    rewrite: string
    replace_global: bool = true
    """,
    shape=same_as(0),
)
def static_regex_replace_kernel(
    ctx: KernelContext, x: Array | bytes, *, pattern: str, rewrite: str, replace_global: bool
) -> Any:
    """Return the strings with matches (or the first of each) rewritten."""
    return _replace(x, encoded(pattern), encoded(rewrite), replace_global)


@op(
    """
    RegexReplace(input: string, pattern: string, rewrite: string) -> output: string
    replace_global: bool = true
    """,
    shape=same_as(0),
)
def regex_replace_kernel(
    ctx: KernelContext,
    x: Array | bytes,
    pattern: Array | bytes,
    rewrite: Array | bytes,
    *,
    replace_global: bool,
) -> Any:
    """Return the strings with matches (or the first of each) rewritten."""
    return _replace(
        x, scalar_string(pattern, "pattern"), scalar_string(rewrite, "rewrite"), replace_global
    )


@export("regex_replace", "strings.regex_replace")
def regex_replace(
    input: TensorLike,
    pattern: TensorLike,
    rewrite: object,
    replace_global: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return strings with matches (or the first of each) rewritten; \\1 stands for a group."""
    made: Tensor
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        made = apply_op(
            "StaticRegexReplace",
            input,
            pattern=pattern,
            rewrite=rewrite,
            replace_global=replace_global,
            name=name,
        )
    else:
        made = apply_op(
            "RegexReplace", input, pattern, rewrite, replace_global=replace_global, name=name
        )
    return made


not_differentiable("StaticRegexFullMatch", "RegexFullMatch", "StaticRegexReplace", "RegexReplace")
