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
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import same_as
from tideflow.ops.export import export
from tideflow.ops.string import encoded, map_strings, scalar_string
from tideflow.wire.errors import InvalidArgumentError


@functools.lru_cache(maxsize=256)
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidArgumentError(f"invalid pattern {pattern!r}: {error}") from None


def _full_match(x: Any, pattern: bytes) -> Any:
    compiled = _compiled(pattern)
    return map_strings(lambda item: compiled.fullmatch(item) is not None, x, np.bool_)


@op(
    """
    StaticRegexFullMatch(input: string) -> output: bool
    pattern: string
    """,
    shape=same_as(0),
)
def static_regex_full_match_kernel(ctx: Any, x: Any, *, pattern: str) -> Any:
    """Tell which strings match the pattern as a whole."""
    return _full_match(x, encoded(pattern))


@op("RegexFullMatch(input: string, pattern: string) -> output: bool", shape=same_as(0))
def regex_full_match_kernel(ctx: Any, x: Any, pattern: Any) -> Any:
    """Tell which strings match the pattern as a whole."""
    return _full_match(x, scalar_string(pattern, "pattern"))


@export("strings.regex_full_match")
def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """Tell which strings match the pattern as a whole."""
    made: Tensor
    if isinstance(pattern, (str, bytes)):
        made = apply_op("StaticRegexFullMatch", input, pattern=pattern, name=name)
    else:
        made = apply_op("RegexFullMatch", input, pattern, name=name)
    return made


def _replace(x: Any, pattern: bytes, rewrite: bytes, replace_global: bool) -> Any:
    compiled = _compiled(pattern)
    # RE2 writes the whole match as \0; Python knows that as \g<0> only.
    template = rewrite.replace(b"\\0", b"\\g<0>")
    count = 0 if replace_global else 1
    return map_strings(lambda item: compiled.sub(template, item, count=count), x)


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
    ctx: Any, x: Any, *, pattern: str, rewrite: str, replace_global: bool
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
    ctx: Any, x: Any, pattern: Any, rewrite: Any, *, replace_global: bool
) -> Any:
    """Return the strings with matches (or the first of each) rewritten."""
    return _replace(
        x, scalar_string(pattern, "pattern"), scalar_string(rewrite, "rewrite"), replace_global
    )


@export("regex_replace", "strings.regex_replace")
def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
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
