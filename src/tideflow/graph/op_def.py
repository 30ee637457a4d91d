"""Op definitions: the signature language, the registry and the decorators.

An op is declared once, beside its kernel:

    @op('''
    AddV2(x: T, y: T) -> z: T
    T: type in {float, double, int32}
    ''', shape=broadcast)
    def add_v2(xp, x, y):
        return xp.add(x, y)

The first line names inputs and outputs.  A type is an element type (`int32`), an attr that names
one (`T`), `N * T` for N tensors of type T, `*Tlist` for one tensor for each type in a list, and
`Ref T` for a reference.  Each further line is an attr: `name: kind`, then as needed
`in {allowed}`, `>= minimum`, `= default`.  Signatures are parsed on first use.

A kernel's first parameter tells its kind:
  xp            pure: the same code for NumPy and jax.numpy, so that it can run at once or be traced
  ctx           host: may use resources, threads and files (KernelContext)
  ctx, step     host, and also needs the running step (StepContext)
`async def` kernels wait on the event loop.  Each input is one positional parameter (a list where
the signature says N * T or *T); each keyword-only parameter receives the attr of that name.  The
result is the output, or a tuple with one item for each output.

What passes and executors may do with the op is declared with it (tideflow.graph.op_traits).
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack

import numpy as np

from tideflow.graph import roles
from tideflow.graph.draws import Draws
from tideflow.graph.op_traits import Compiles, Effects, OnValue, Rows, Runs, Traits
from tideflow.graph.roles import Role
from tideflow.graph.shapes import TensorShape
from tideflow.graph.update_rule import Update
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

F = TypeVar("F", bound=Callable[..., Any])

# The type sets that signatures name most; facts of TensorFlow's op definitions.
TYPE_SETS: dict[str, str] = {
    "numbers": "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 "
    "qint16 quint16 uint16 complex128 half uint32 uint64",
    "reals": "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64",
    "floats": "bfloat16 half float double",
    "floats_and_complex": "bfloat16 half float double complex64 complex128",
    "indices": "int32 int64",
    "integers": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
}


@dataclass(frozen=True, slots=True)
class ArgDef:
    """One input or output of an op.

    Exactly one of dtype, type_attr and type_list_attr is set; number_attr goes with the first two.
    """

    name: str
    dtype: DType | None = None
    type_attr: str = ""
    number_attr: str = ""
    type_list_attr: str = ""
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        """Whether the argument stands for a list of tensors."""
        return bool(self.number_attr or self.type_list_attr)


@dataclass(frozen=True, slots=True)
class AttrDef:
    """One attr of an op.  `required` tells whether a default is missing."""

    name: str
    kind: str
    allowed: tuple[Any, ...] | None = None
    minimum: int | None = None
    default: Any = None
    required: bool = True


@dataclass(slots=True)
class OpDef:
    """An op: what it takes and gives, and how it is computed.

    Attributes:
      shape_rule: function(ShapeContext) -> list of Dims, one for each output; None: unknown shapes.
      kernel: the kernel function, or None for an op that only the runtime itself carries out.
      static_inputs: names of inputs whose values must be known when the op is compiled.
      is_pure: the kernel gives the same for the same inputs and attrs, on NumPy and traced.
      is_async: the kernel waits, so it runs on the event loop.
      keeps_state: what it gives may depend on how often it ran, other than through a handle.
      holds_functions: what it gives may call functions of its attrs after it ran.
    Those from `role` on are explained in tideflow.graph.op_traits.Traits.
    """

    name: str
    inputs: tuple[ArgDef, ...]
    outputs: tuple[ArgDef, ...]
    attrs: dict[str, AttrDef]
    is_stateful: bool = False
    is_commutative: bool = False
    is_aggregate: bool = False
    allows_uninitialized_input: bool = False
    shape_rule: Callable[..., Any] | None = None
    kernel: Callable[..., Any] | None = None
    is_pure: bool = False
    is_async: bool = False
    takes_step: bool = False
    static_inputs: tuple[str, ...] = ()
    kernel_attrs: tuple[str, ...] = ()
    keeps_state: bool = False
    holds_functions: bool = False
    role: Role = roles.COMPUTE
    compiles: Compiles = Compiles.NEVER
    divides: bool = False
    rows: Rows | None = None
    any_device: bool = False
    host_inputs: int | None = None
    only_reads: bool = False
    effects: Effects = Effects.ORDERED
    runs: Runs | None = None
    update: Update | None = None
    traced: Callable[..., Any] | None = None
    draws: Draws | None = None
    gather: Callable[..., Any] | None = None
    static_value: Callable[..., Any] | None = None
    partial_value: Callable[..., Any] | None = None
    holds_parameters: bool = False
    blocks: str = ""
    held_shapes: Callable[..., Any] | None = None
    is_stated: bool = False
    changes_elements: bool = True
    on_value: OnValue | None = None
    host_types: Mapping[str, tuple[DType, ...]] | None = None
    only_checks: bool = False
    checked_outputs: int | None = None


class _Declaration:
    """An op as declared; parsed into an OpDef when it is first looked up."""

    __slots__ = ("kernel", "options", "signature")

    def __init__(
        self, signature: str, options: dict[str, Any], kernel: Callable[..., Any] | None
    ) -> None:
        self.signature = signature
        self.options = options
        self.kernel = kernel


_declared: dict[str, _Declaration] = {}
_parsed: dict[str, OpDef] = {}

_SIGNATURE = re.compile(r"\s*(\w+)\s*\((.*?)\)\s*(?:->\s*(.*))?$", re.DOTALL)
_ATTR = re.compile(
    r"(?P<name>\w+)\s*:\s*(?P<kind>list\(\w+\)|\w+)"
    r"(?:\s+in\s+(?P<allowed>\{[^}]*\}|\w+))?"
    r"(?:\s*>=\s*(?P<minimum>-?\d+))?"
    r"(?:\s*=\s*(?P<default>.+))?$"
)


def op(
    signature: str,
    *,
    shape: Callable[..., Any] | None = None,
    stateful: bool = False,
    commutative: bool = False,
    aggregate: bool = False,
    allows_uninitialized_input: bool = False,
    static: Sequence[str] = (),
    **traits: Unpack[Traits],
) -> Callable[[F], F]:
    """Register an op with the decorated function as its kernel (see the module's text).

    Args:
      signature: inputs, outputs and attrs in the signature language.
      shape: the shape rule, a function of a ShapeContext; see tideflow.graph.shape_rules.
      static: inputs that must be known when the op is compiled (axes, sizes).
      traits: what passes and executors may do with the op (tideflow.graph.op_traits).
    """
    options: dict[str, Any] = {
        "shape_rule": shape,
        "is_stateful": stateful,
        "is_commutative": commutative,
        "is_aggregate": aggregate,
        "allows_uninitialized_input": allows_uninitialized_input,
        "static_inputs": tuple(static),
        **traits,
    }

    def register(kernel: F) -> F:
        declare(signature, kernel, **options)
        return kernel

    return register


def declare(signature: str, kernel: Callable[..., Any] | None = None, **options: Any) -> None:
    """Register an op; `options` are fields of OpDef.  Without a kernel the runtime runs it."""
    name = signature.split("(", 1)[0].strip()
    if name in _declared:
        raise ValueError(f"op {name} is defined twice")
    _declared[name] = _Declaration(signature, options, kernel)


def declare_like(
    name: str,
    base: str,
    *further_attrs: str,
    without: Sequence[str] = (),
    **traits: Unpack[Traits],
) -> None:
    """Register an op that is another one under a further name.

    Args:
      further_attrs: attrs that only the new op has, as lines of a signature.
      without: names of attrs that only `base` has.
      traits: what differs from those of `base`.

    Raises: NotFoundError when there is no op `base`.
    """
    declaration = _declared.get(base)
    if declaration is None:
        raise errors.NotFoundError(f"op type {base!r} is not registered in tideflow")
    rest = declaration.signature.strip()[len(base) :]
    head, *attrs = _join_lines(name + rest)
    kept = [line for line in attrs if line.split(":", 1)[0].strip() not in without]
    declare(
        "\n".join([head, *kept, *further_attrs]),
        declaration.kernel,
        **{**declaration.options, **traits},
    )


def declare_adapted(
    name: str,
    base: str,
    signature: Callable[[str], str],
    kernel: Callable[[Callable[..., Any]], Callable[..., Any]],
    **options: Any,
) -> None:
    """Register an op that another one stands for, with another signature.

    Args:
      signature: gives the op's inputs, outputs and attrs, from those of `base`.
      kernel: gives the op's kernel, from that of `base`.
      options: fields of OpDef that differ from those of `base`.

    Raises: NotFoundError when there is no op `base`.
    """
    declaration = _declared.get(base)
    if declaration is None or declaration.kernel is None:
        raise errors.NotFoundError(f"op type {base!r} is not registered in tideflow")
    rest = declaration.signature.strip()[len(base) :]
    declare(
        name + signature(rest),
        kernel(declaration.kernel),
        **{**declaration.options, **options},
    )


def registered_ops() -> list[str]:
    """Return the names of all registered ops, sorted."""
    return sorted(_declared)


def is_registered(name: str) -> bool:
    """Whether an op of that name exists."""
    return name in _declared


def role_of(name: str) -> Role:
    """Return the role of an op by its name; of one that is not registered, that of a kernel."""
    found = find_op_def(name)
    return roles.COMPUTE if found is None else found.role


def find_op_def(name: str) -> OpDef | None:
    """Return the definition of an op; None where there is none of that name."""
    return get_op_def(name) if name in _declared else None


def get_op_def(name: str) -> OpDef:
    """Return the definition of an op.  Raises: NotFoundError when there is none of that name."""
    found = _parsed.get(name)
    if found is None:
        declaration = _declared.get(name)
        if declaration is None:
            raise errors.NotFoundError(f"op type {name!r} is not registered in tideflow")
        found = _parsed[name] = _parse(declaration)
    return found


def _parse(declaration: _Declaration) -> OpDef:
    head, *attr_lines = _join_lines(declaration.signature)
    matched = _SIGNATURE.match(head)
    if matched is None:
        raise ValueError(f"not an op signature: {head!r}")
    name, inputs, outputs = matched.groups()
    attrs = dict(_parse_attr(line) for line in attr_lines)
    parsed = OpDef(
        name=name,
        inputs=_parse_args(inputs, attrs),
        outputs=_parse_args(outputs or "", attrs),
        attrs=attrs,
        kernel=declaration.kernel,
        **declaration.options,
    )
    if declaration.kernel is not None:
        _read_kernel(parsed, declaration.kernel)
    _derive_traits(parsed, declaration.options)
    return parsed


def _derive_traits(parsed: OpDef, declared: Mapping[str, Any]) -> None:
    """Fill in what follows from the kernel and the signature, where it is not declared."""
    if "compiles" not in declared and parsed.is_pure:
        parsed.compiles = Compiles.ON_ACCELERATORS
    if parsed.role in roles.CONTROL_FLOW:
        parsed.checked_outputs = 0
    if "any_device" not in declared:
        parsed.any_device = parsed.role in roles.WITHOUT_COMPUTATION
    # A dataset is a variant: its functions are called, and its state is, by what iterates over it.
    takes_variants = any(arg.dtype is dtypes.variant for arg in parsed.inputs)
    gives_variants = [arg.dtype is dtypes.variant for arg in parsed.outputs]
    is_of_handle = any(arg.dtype is dtypes.resource for arg in parsed.inputs)
    parsed.keeps_state = parsed.is_stateful and not (
        is_of_handle or takes_variants or (gives_variants and all(gives_variants))
    )
    parsed.holds_functions = (takes_variants or any(gives_variants)) and any(
        attr.kind in ("func", "list(func)") for attr in parsed.attrs.values()
    )


def _join_lines(signature: str) -> list[str]:
    """Split a signature into its head and one line for each attr (a head may span lines)."""
    lines = [line.strip() for line in signature.strip().splitlines() if line.strip()]
    count = 1
    while "".join(lines[:count]).count("(") > "".join(lines[:count]).count(")"):
        count += 1
    if count < len(lines) and lines[count].startswith("->"):
        count += 1
    return [" ".join(lines[:count]), *lines[count:]]


def _parse_args(text: str, attrs: dict[str, AttrDef]) -> tuple[ArgDef, ...]:
    return tuple(_parse_arg(part, attrs) for part in text.split(",") if part.strip())


def _parse_arg(text: str, attrs: dict[str, AttrDef]) -> ArgDef:
    name, _, kind = (part.strip() for part in text.partition(":"))
    is_ref = kind.startswith("Ref ")
    if is_ref:
        kind = kind[4:].strip()
    if kind.startswith("*"):
        return ArgDef(name, type_list_attr=kind[1:].strip(), is_ref=is_ref)
    number, star, element = (part.strip() for part in kind.partition("*"))
    number_attr, kind = (number, element) if star else ("", kind)
    if kind in attrs:
        return ArgDef(name, type_attr=kind, number_attr=number_attr, is_ref=is_ref)
    return ArgDef(name, dtype=dtypes.as_dtype(kind), number_attr=number_attr, is_ref=is_ref)


def _parse_attr(line: str) -> tuple[str, AttrDef]:
    matched = _ATTR.match(line)
    if matched is None:
        raise ValueError(f"not an attr of an op signature: {line!r}")
    name, kind = matched["name"], matched["kind"]
    allowed = None if matched["allowed"] is None else _parse_allowed(matched["allowed"], kind)
    minimum = None if matched["minimum"] is None else int(matched["minimum"])
    if matched["default"] is None:
        return name, AttrDef(name, kind, allowed, minimum)
    default = _parse_default(matched["default"].strip(), kind)
    return name, AttrDef(name, kind, allowed, minimum, default, required=False)


def _parse_allowed(text: str, kind: str) -> tuple[Any, ...]:
    words = text[1:-1].split(",") if text.startswith("{") else TYPE_SETS[text].split()
    values = [word.strip() for word in words]
    if kind in ("type", "list(type)"):
        return tuple(dtypes.as_dtype(value) for value in values)
    return tuple(ast.literal_eval(v) if v[:1] in "\"'" else v for v in values)


def _parse_default(text: str, kind: str) -> Any:
    if kind == "type":
        return dtypes.as_dtype(text)
    if kind == "list(type)":
        return [dtypes.as_dtype(t.strip()) for t in text.strip("[]").split(",") if t.strip()]
    if kind == "shape":
        return TensorShape(None if text == "unknown" else ast.literal_eval(text))
    if kind == "list(shape)":
        return [TensorShape(dims) for dims in ast.literal_eval(text)]
    if kind == "bool":
        return text in ("true", "True")
    if kind == "tensor":
        dtype, _, items = text.partition(" ")
        return np.array(ast.literal_eval(items), dtypes.as_dtype(dtype).as_numpy_dtype)
    value = ast.literal_eval(text)
    return float(value) if kind == "float" else value


def with_attrs(kernel: F, attr_names: Sequence[str], first: str = "xp") -> F:
    """Let a kernel that is made by a function take attrs; return it.

    Its own code need not name them: what the registry reads is `first`, any inputs, and these.
    """
    parameter = inspect.Parameter
    kernel.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            parameter(first, parameter.POSITIONAL_OR_KEYWORD),
            parameter("inputs", parameter.VAR_POSITIONAL),
            *[parameter(name, parameter.KEYWORD_ONLY) for name in attr_names],
        ]
    )
    return kernel


def _read_kernel(parsed: OpDef, kernel: Callable[..., Any]) -> None:
    parameters = list(inspect.signature(kernel).parameters.values())
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    takes_xp = positional[:1] == ["xp"]
    parsed.is_pure = takes_xp and parsed.update is None
    parsed.is_async = inspect.iscoroutinefunction(kernel)
    parsed.takes_step = positional[1:2] == ["step"]
    parsed.kernel_attrs = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    leading = (1 + parsed.takes_step) if takes_xp or positional[:1] == ["ctx"] else 0
    if not leading:
        raise TypeError(f"kernel of {parsed.name} must take xp or ctx first")
    unknown = set(parsed.kernel_attrs) - set(parsed.attrs)
    if unknown:
        raise TypeError(f"kernel of {parsed.name} takes attrs that it lacks: {sorted(unknown)}")
    has_var_positional = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if not has_var_positional and len(positional) - leading != len(parsed.inputs):
        raise TypeError(
            f"kernel of {parsed.name} takes {len(positional) - leading} inputs; "
            f"the signature has {len(parsed.inputs)}"
        )
