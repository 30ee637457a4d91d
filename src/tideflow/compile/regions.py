"""Choose which nodes a compiler may take over, and cut straight code into regions of them.

A region is run as one executable.  It holds pure nodes, reads of variables, and updates of them by
an elementwise rule.  Every node gets a number: even for nodes that are called one by one, odd for
those of a region.  All nodes of one number run before those of the next, so a region depends on
nothing that depends on it, and regions are as large as the edges allow.

Only ops that cannot fail on the values of their tensors are taken, or whose values can be checked
before (`label_guard`): compiled code cannot raise.  Two uses of one variable keep their order when
one of them may change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from tideflow.compile.plan import FORWARDING_OPS, forwards
from tideflow.graph.node import Node
from tideflow.ops.state.updates import find_update
from tideflow.wire.dtypes import DType

VariableKey: TypeAlias = "tuple[str, ...] | tuple[int, int]"

# They do the same on any numbers, whatever their values.
_SAFE_OPS = frozenset(
    {
        "Abs", "Acos", "Acosh", "Add", "AddN", "AddV2", "All", "Angle", "Any", "ArgMax", "ArgMin",
        "Asin", "Asinh", "Atan", "Atan2", "Atanh", "AvgPool", "AvgPoolGrad", "BatchMatMul",
        "BatchMatMulV2", "BatchMatMulV3", "BiasAdd", "BiasAddGrad", "BiasAddV1", "BroadcastArgs",
        "BroadcastGradientArgs", "BroadcastTo", "Ceil", "ClipByValue", "Complex", "ComplexAbs",
        "Concat", "ConcatOffset", "ConcatV2", "Conj", "Conv2D", "Conv2DBackpropFilter",
        "Conv2DBackpropInput", "Cos", "Cosh", "Cumprod", "Cumsum", "DepthToSpace",
        "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropFilter",
        "DepthwiseConv2dNativeBackpropInput", "DivNoNan", "Einsum", "Elu", "EluGrad", "Equal",
        "Erf", "Erfc", "Exp", "ExpandDims", "Expm1", "Fill", "Floor", "FusedBatchNormGradV3",
        "FusedBatchNormV3", "Greater", "GreaterEqual", "Identity", "IdentityN", "Imag",
        "InvGrad", "IsFinite", "IsInf", "IsNan", "L2Loss", "LRN", "LRNGrad", "LeakyRelu",
        "LeakyReluGrad", "Less", "LessEqual", "Log", "Log1p", "LogSoftmax", "LogicalAnd",
        "LogicalNot", "LogicalOr", "MatMul", "MatrixBandPart", "Max", "MaxPool", "MaxPoolGrad",
        "Maximum", "Mean", "Min", "Minimum", "MirrorPad", "Mul", "MulNoNan", "Neg", "NotEqual",
        "OneHot", "OnesLike", "Pack", "Pad", "PadV2", "Prod", "Range", "Rank", "Real",
        "ReciprocalGrad", "Relu", "Relu6", "Relu6Grad", "ReluGrad", "Reshape",
        "ReverseV2", "Rint", "Round", "Rsqrt", "RsqrtGrad", "Select", "SelectV2", "Selu",
        "SeluGrad", "Shape", "ShapeN", "Sigmoid", "SigmoidGrad", "Sign", "Sin", "Sinh", "Size",
        "Slice", "Softmax", "SoftmaxCrossEntropyWithLogits", "Softplus", "SoftplusGrad", "Softsign",
        "SoftsignGrad", "SpaceToDepth", "Split", "SplitV", "Sqrt", "SqrtGrad", "Square",
        "SquaredDifference", "Squeeze", "StridedSlice", "StridedSliceGrad", "Sub", "Sum", "Tan",
        "Tanh", "TanhGrad", "Tile", "Transpose", "Unpack", "Xdivy", "Xlogy", "ZerosLike",
        "_FusedConv2D", "_FusedMatMul",
    }
)  # fmt: skip
# On integers they fail for some values; on floats never.
_FLOAT_OPS = frozenset(
    {
        "Div", "FloorDiv", "FloorMod", "Inv", "Mod", "Pow", "RealDiv", "Reciprocal", "TruncateDiv",
        "TruncateMod",
    }
)  # fmt: skip
_DIVISIONS = frozenset({"Div", "DivNoNan", "RealDiv", "TruncateDiv", "FloorDiv"})
# They fail for some values, so only arithmetic on shapes, which is done while tracing, has them.
_SHAPE_OPS = _FLOAT_OPS | {"Gather", "GatherV2", "InvertPermutation", "DynamicStitch"}
# Nothing happens when they run, so they belong to no region and to every one.
_IDLE_OPS = frozenset({"Const", "NoOp", "ControlTrigger", "_Arg", "_DeviceArg"})
_VARIABLE_OPS = frozenset({"VariableV2", "Variable"})
# They take a variable without changing it.
_READING_OPS = frozenset(
    {
        "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp",
        "VariableShape", "IsVariableInitialized",
    }
)  # fmt: skip
_LABELS_OP = "SparseSoftmaxCrossEntropyWithLogits"

_KINDS = {
    "float": frozenset({"bfloat16", "float16", "float32", "float64"}),
    "complex": frozenset({"complex64", "complex128"}),
    "exact": frozenset(
        {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
    ),
}
_TYPES = frozenset().union(*_KINDS.values())


def variable_key(node: Node, port: int) -> VariableKey:
    """Return what tells apart the variables that handles and references name.

    Different keys may yet name the same variable; a runtime must compare what it finds.
    """
    while forwards(node) or (changes_variables(node) and node.output_types[port].is_ref_dtype):
        node, port = node.edges[0]
    if node.op == "VarHandleOp" and node.attrs["shared_name"]:
        return ("resource", node.attrs["container"], node.attrs["shared_name"])
    if node.op in _VARIABLE_OPS:
        return ("ref", node.attrs["container"], node.attrs["shared_name"] or node.name)
    return (id(node), port)


def is_variable_read(node: Node) -> bool:
    """Whether a node gives the value of a resource variable."""
    return node.op == "ReadVariableOp"


def _only_reads(node: Node) -> bool:
    return is_variable_read(node) or (node.op in FORWARDING_OPS and not forwards(node))


def is_gather(node: Node) -> bool:
    """Whether a node gives rows of a resource variable."""
    return node.op in ("ResourceGather", "ResourceGatherNd")


def shape_of_variable(node: Node) -> DType | None:
    """Return the element type of the variable whose shape a node gives; None for other nodes."""
    if node.op != "VariableShape":
        return None
    source = node.edges[0][0]
    while forwards(source):
        source = source.edges[0][0]
    found: DType | None = source.attrs["dtype"] if source.op == "VarHandleOp" else None
    return found


def assigns(node: Node) -> bool:
    """Whether a node stores a value as it is."""
    return node.op in ("Assign", "AssignVariableOp")


def changes_variables(node: Node) -> bool:
    """Whether a node stores new values, by whatever rule."""
    return assigns(node) or find_update(node.op) is not None


def is_update(node: Node) -> bool:
    """Whether a node stores new values, by a rule that compiles."""
    if assigns(node):
        return True
    update = find_update(node.op)
    return update is not None and update.kind == "elementwise" and update.check is None


def variables_of(node: Node) -> int:
    """Return how many of the first inputs of a read or an update are variables."""
    update = find_update(node.op)
    return 1 if update is None else update.variables


def label_guard(node: Node) -> bool:
    """Whether input 1 holds labels, each of which must lie in [0, last size of input 0)."""
    return node.op == _LABELS_OP


def needs_known_inputs(node: Node) -> bool:
    """Whether a node may be part of a region only where its inputs are known while tracing."""
    if node.op not in _SHAPE_OPS:
        return False
    is_float = not any(t.name in _KINDS["exact"] for t in value_types(node))
    return not (is_float and node.op in _FLOAT_OPS)


def divides(node: Node) -> bool:
    """Whether input 0 is divided by input 1."""
    return node.op in _DIVISIONS


def may_compile(node: Node) -> bool:
    """Whether a node may be part of a region, as far as its op and types tell."""
    types = value_types(node)
    if not has_types(types) or not knows_references(node):
        return False
    if is_variable_read(node) or is_update(node):
        return True
    if node.op in _SAFE_OPS or label_guard(node):
        return True
    if node.op in _SHAPE_OPS:
        return True
    # Out of range, the conversion of floats to integers differs.
    return node.op == "Cast" and (
        types[0].name in _KINDS["exact"] or types[-1].name not in _KINDS["exact"]
    )


def value_types(node: Node) -> list[DType]:
    """Return the types of the inputs and outputs that are values."""
    first = variables_of(node) if is_variable_read(node) or changes_variables(node) else 0
    types = [source.output_types[port].base_dtype for source, port in node.edges[first:]]
    return types + [t for t in node.output_types if not t.is_ref_dtype]


def has_types(types: Iterable[DType]) -> bool:
    """Whether a compiler knows all of the element types."""
    return all(t.name in _TYPES for t in types)


def knows_references(node: Node) -> bool:
    """Whether a node's references are known variables; a handle is looked up when it runs."""
    return all(
        variable_key(source, port)[0] == "ref"
        for source, port in node.edges
        if source.output_types[port].is_ref_dtype
    )


def number_nodes(
    nodes: Sequence[Node],
    excluded: Iterable[int] = (),
    takes: Callable[[Node], bool] = may_compile,
    checks_labels: bool = True,
) -> dict[int, int]:
    """Return for each node, by id, when it runs: an odd number names a region (see above).

    Args:
      nodes: straight code, in order.
      excluded: ids of nodes that no region may hold.
      takes: whether a node may be part of a region otherwise.
      checks_labels: whether labels must be there before their region runs.
    """
    left_out = set(excluded)
    taken = {id(n) for n in nodes if id(n) not in left_out and takes(n)}
    _drop_needless_reads(nodes, taken)
    numbers: dict[int, int] = {}
    changed: dict[VariableKey, int] = {}
    used: dict[VariableKey, int] = {}
    for node in nodes:
        base = max((numbers.get(id(s), 0) for s in _sources(node)), default=0)
        uses = [*variable_uses(node)]
        for key, changes in uses:
            base = max(base, used.get(key, 0) if changes else changed.get(key, 0))
        if checks_labels and id(node) in taken and label_guard(node):
            # Labels can be checked only before their region runs.
            labels_at = numbers.get(id(node.edges[1][0]), 0)
            if labels_at & 1 and labels_at >= base:
                taken.discard(id(node))
        if node.op in _IDLE_OPS or forwards(node):
            number = base
        else:
            number = base + ((base & 1) != (id(node) in taken))
        numbers[id(node)] = number
        for key, changes in uses:
            used[key] = max(number, used.get(key, 0))
            if changes:
                changed[key] = max(number, changed.get(key, 0))
    return numbers


def _drop_needless_reads(nodes: Sequence[Node], taken: set[int]) -> None:
    """Leave variables that no region computes with to those who read them."""
    wanted: set[int] = set()
    for node in reversed(nodes):
        if id(node) in (wanted if forwards(node) else taken):
            wanted.update(id(source) for source, _ in node.edges)
    taken.difference_update(id(n) for n in nodes if _only_reads(n) and id(n) not in wanted)


def _sources(node: Node) -> Iterable[Node]:
    for source, _ in node.edges:
        yield source
    yield from node.controls


def variable_uses(node: Node) -> Iterable[tuple[VariableKey, bool]]:
    """Return the variables that a node touches, and whether it may change them."""
    if forwards(node):
        return
    for source, port in node.edges:
        dtype = source.output_types[port]
        if dtype.is_ref_dtype or dtype.name == "resource":
            yield variable_key(source, port), not (node.op_def.is_pure or node.op in _READING_OPS)
