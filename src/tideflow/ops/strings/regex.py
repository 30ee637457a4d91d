"""Regular expressions on strings.

They are RE2's in TensorFlow and Python's here, which agree on what both accept.
Source: tensorflow/core/ops/string_ops.cc, core/kernels/{regex_replace,regex_full_match}_op.cc.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

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


@functools.lru_cache(maxsize=256)
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidArgumentError(f"invalid pattern {pattern!r}: {error}") from None


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


def _replace(x: TensorLike, pattern: bytes, rewrite: bytes, replace_global: bool) -> Any:
    """Rewrite matches as RE2 does: nothing changes where the rewrite cannot be followed."""
    compiled = _compiled(pattern)
    parts, is_whole = _rewriting(rewrite)
    highest = max((part for part in parts if isinstance(part, int)), default=0)
    if highest > compiled.groups or not (is_whole or replace_global):
        return map_strings(lambda item: item, x)

    def rewritten(item: bytes) -> bytes:
        done: list[bytes] = []
        at, end = 0, -1
        while at <= len(item) and (found := compiled.search(item, at)) is not None:
            done.append(item[at : found.start()])
            if found.start() == found.end() == end:
                # Nothing empty is found where a match has just ended.
                done.append(item[end : end + 1])
                at = end + 1
                continue
            done += [found[p] or b"" if isinstance(p, int) else p for p in parts]
            at = end = found.end()
            if not replace_global:
                break
        return b"".join(done) + item[at:]

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
