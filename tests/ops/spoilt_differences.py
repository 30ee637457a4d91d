"""Where spoilt calls may end otherwise than on TensorFlow, and why.

Each entry has the reason, the ops, and which changes it is about, as patterns of their names (see
spoilt_calls.py).
"""

from __future__ import annotations

from fnmatch import fnmatchcase

_NOT_FINITE = ("* last nan", "* last inf", "* last -inf")
_EMPTY = ("*empty along *",)

# What TensorFlow does there is not to be wished for.
THEIRS: list[tuple[str, str, tuple[str, ...]]] = [
    ("never ends", "AdjustHue", ("* last *inf",)),
    (
        "gives what was in memory",
        "IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D DepthwiseConv2dNativeBackpropInput "
        "DepthwiseConv2dNativeBackpropFilter SparseSegmentMeanGrad SparseSegmentSqrtNGrad "
        "SparseSegmentSumGrad MatrixSolveLs",
        _EMPTY,
    ),
    ("gives what was in memory", "Cholesky", ("* last *",)),
    ("reads values and splits beyond their ends", "RaggedTensorToTensor", ("1 *", "3.0 *")),
    ("takes splits of any rank", "RaggedTensorToSparse", ("0.0 in a list",)),
    (
        "reads no more of its inputs than it needs, and does not look at the rest",
        "AvgPoolGrad AvgPool3DGrad",
        ("*along *", "0 *", "1 wider", "ksize *", "strides *", "padding *"),
    ),
    (
        "does not look at the steps or windows over channels, or at windows of no size",
        "AvgPool MaxPoolWithArgmax MaxPoolGradWithArgmax MaxPoolGrad MaxPoolGradGrad MaxPool3DGrad "
        "MaxPool3DGradGrad",
        ("ksize *", "strides *"),
    ),
    (
        "compares with outputs that are not those of its input",
        "MaxPoolGrad",
        ("1 last *",),
    ),
    (
        "has kernels for channels last only on CPUs",
        "AvgPool AvgPoolGrad MaxPool MaxPoolGradGrad AvgPool3D MaxPool3D SpaceToDepth",
        ("data_format N*",),
    ),
    (
        "has no kernels for dilations on CPUs, or takes no notice of them",
        "Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 "
        "Conv3DBackpropInputV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter "
        "DepthwiseConv2dNativeBackpropInput",
        ("dilations *",),
    ),
    (
        "answers for filters and images without elements, or refuses what has an answer",
        "Conv2D Conv2DBackpropFilter Conv3D Conv3DBackpropInputV2 DepthwiseConv2dNative Dilation2D "
        "Dilation2DBackpropFilter Dilation2DBackpropInput ResizeNearestNeighborGrad "
        "ScaleAndTranslateGrad MirrorPadGrad",
        _EMPTY,
    ),
    (
        "takes rates of zero or less",
        "Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput",
        ("rates *",),
    ),
    ("gives NaN moments of no elements, and takes any rank", "FusedBatchNormV3", ("*",)),
    ("takes a scalar for a vector of one, and the other way round", "Fill", ("*",)),
    (
        "goes by the number of elements, whatever their shapes",
        "InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad",
        ("* in a list",),
    ),
    ("calls a division by zero an internal error", "TruncateDiv TruncateMod", ("1 all 0",)),
    ("takes negative sizes", "BroadcastArgs BroadcastGradientArgs", ("0 last -1",)),
    (
        "does not look whether indices are in the shape",
        "SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseReshape "
        "SparseSlice SparseSoftmax",
        ("0 *", "2 *"),
    ),
    (
        "merges as if indices rose",
        "SparseAdd SparseSparseMaximum SparseSparseMinimum",
        ("0 all *", "3 all *"),
    ),
    ("calls negative sizes an internal error", "SparseConcat", ("2.*",)),
    (
        "takes indices that are not in the shape, each kernel in its way",
        "SparseCrossHashed SparseCrossV2",
        ("0.*",),
    ),
    ("takes a negative number of buckets for a large one", "SparseCrossHashed", ("4 *",)),
    (
        "answers for outputs without rows",
        "SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGrad",
        ("3 all 0",),
    ),
    ("does not look at the sizes of a single piece", "SplitV", ("num_split 1",)),
    ("takes what does not begin as a file for an empty one", "DecodeCompressed", ("*xff'",)),
    ("answers strings for no splits", "StringNGrams", ("1 empty along 0",)),
    ("writes an ellipsis for no elements with a space", "StringFormat", ("summarize 0",)),
    ("broadcasts a label of size 0 and 1", "Einsum", ("0.*along *",)),
    ("gives a loss without any choice", "CTCLoss", ("all one along 2",)),
    ("takes a label beyond the last as one that was given", "CTCLoss", ("2 all 7",)),
    ("orders what has no order", "LowerBound UpperBound TopKV2", ("* last nan",)),
    ("gives the greatest in no order", "TopKV2", ("sorted False",)),
    (
        "never ends, or ends the process",
        "AccumulatorTakeGradient SparseAccumulatorTakeGradient",
        ("0 in a list",),
    ),
    (
        "does not look at the shapes of all slots",
        "ResourceApplyAdadelta ResourceApplyAdamWithAmsgrad",
        ("2 *", "3 *"),
    ),
    (
        "goes by the number of updates, whatever their shapes",
        "ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterDiv "
        "ResourceScatterMin ResourceScatterMax ResourceScatterUpdate",
        ("* wider", "* along *"),
    ),
    ("refuses a division by zero of floats", "ResourceScatterDiv", ("2 last 0",)),
    (
        "takes a vector of one for a number",
        "QueueDequeueManyV2 QueueDequeueUpToV2",
        ("1 in a list",),
    ),
    ("counts fewer than no elements", "DatasetCardinality", ("0 all -5",)),
    ("gives empty batches without end", "RebatchDatasetV2", ("0 all 0",)),
    ("takes empty elements beside others", "TensorArrayGatherV3", ("1 empty *",)),
    ("takes lengths of any rank", "TensorListConcatV2", ("3 scalar",)),
    (
        "reads beyond the end of what it is given",
        "TensorListScatterIntoExistingList",
        ("0 *along *", "2 *", "3 *"),
    ),
    (
        "compares with NaN in one direction",
        "MaxPool MaxPool3D Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput "
        "ApplyAdaMax ResourceApplyAdaMax ResourceApplyAdamWithAmsgrad "
        "CumulativeLogsumexp NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps RGBToHSV AdjustHue "
        "AdjustSaturation",
        _NOT_FINITE,
    ),
    (
        "reads counters beyond their ends",
        "StatelessRandomGammaV3 StatelessShuffle",
        ("*one along 0",),
    ),
    ("takes numbers of rounds that mix nothing", "RandomIndexShuffle", ("rounds *",)),
    (
        "multiplies the zeros that it has put around and between gradients",
        "Conv3DBackpropFilterV2 Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput",
        _NOT_FINITE,
    ),
    ("is NaN where the function falls without bound, as it does in double", "BesselY1", ("0 last 0",)),
    ("takes the side of the cut that rounding errors tell", "MatrixLogarithm", ("0 last *",)),
    ("keeps what it has read of metadata that are cut off", "TensorSummaryV2", ("2 last *",)),
]

# What tideflow cannot do, or does in another way.
OURS: list[tuple[str, str, tuple[str, ...]]] = []


def reason(op: str, change: str) -> str | None:
    """Return why a changed call need not end as on TensorFlow, or None where it must."""
    for why, ops, patterns in (*THEIRS, *OURS):
        if op in ops.split() and any(fnmatchcase(change, one) for one in patterns):
            return why
    return None
