"""Where spoilt calls may end otherwise than on TensorFlow, and why.

Each entry has the reason, the ops, and which changes it is about, as patterns of their names (see
spoilt_calls.py).
"""

from __future__ import annotations

from fnmatch import fnmatchcase

# What TensorFlow does there is not to be wished for.
THEIRS: list[tuple[str, str, tuple[str, ...]]] = [
    ("never ends", "RandomPoissonV2", ("1 last nan",)),
    ("never ends", "StatelessRandomPoisson StatelessRandomBinomial", ("2 last nan",)),
    ("never ends", "AdjustHue", ("* -inf", "* inf")),
    ("gives what was in memory", "DepthwiseConv2dNativeBackpropInput", ("all empty along 3",)),
    (
        "gives what was in memory",
        "DepthwiseConv2dNativeBackpropFilter",
        ("all empty along 1", "all empty along 2"),
    ),
    (
        "gives what was in memory",
        "SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGrad",
        ("0 empty along 1", "all empty *"),
    ),
    ("gives what was in memory", "MatrixSolveLs", ("* empty along 2", "all empty *")),
    (
        "gives what was in memory",
        "IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D",
        ("0 empty *", "all empty along 1", "all empty along 2", "all empty along 3"),
    ),
    ("gives what was in memory", "Cholesky", ("0 last *",)),
    ("gives what was in memory", "StatelessRandomBinomial", ("3 last nan",)),
    (
        "reads values and splits beyond their ends",
        "RaggedTensorToTensor",
        (
            "1 * 0",
            "1 in a list",
            "1 last *",
            "1 longer",
            "1 wider",
            "3.0 all *",
            "3.0 in a list",
            "3.0 last *",
            "3.0 one along 0",
        ),
    ),
    ("never ends", "StatefulRandomBinomial", ("3 last nan",)),
    ("never ends", "RandomPoisson", ("1 last inf", "1 last nan")),
    ("takes splits of any rank", "RaggedTensorToSparse", ("0.0 in a list",)),
    (
        "reads no more of its inputs than it needs, and does not look at the rest",
        "AvgPoolGrad",
        (
            "* 3",
            "* along 1",
            "0 all 0",
            "0 last 99",
            "1 empty *",
            "1 wider",
            "all empty along 2",
            "ksize [0, 2, 2, 1]",
            "ksize [1, 0, 2, 1]",
            "ksize [1, 2, -1, 1]",
            "ksize [1, 2, 0, 1]",
            "ksize [1, 2, 2, 0]",
            "strides [1, 2, 2, 0]",
            "strides [1, 2, 2, 2]",
        ),
    ),
    (
        "reads no more of its inputs than it needs, and does not look at the rest",
        "AvgPool3DGrad",
        (
            "* along 1",
            "1 empty along 2",
            "1 empty along 3",
            "all one *",
            "ksize [-1, 2, 3, 2, 1]",
            "ksize [0, 2, 3, 2, 1]",
            "ksize [1, 2, 3, 2, 0]",
            "ksize [1, 2, 3, 2, 1, 1]",
            "padding VALID",
            "strides [-1, 2, 1, 2, 1]",
            "strides [1, 2, 1, 2, -1]",
            "strides [1, 2, 1, 2, 1, 1]",
            "strides [1, 2, 1, 2, 2]",
            "strides [2, 2, 1, 2, 1]",
        ),
    ),
    (
        "does not look at the steps or windows over channels, or at windows of no size",
        "AvgPool",
        (
            "ksize [-1, 2, 2, 1]",
            "ksize [0, 2, 2, 1]",
            "strides [1, 2, 2, -1]",
            "strides [1, 2, 2, 0]",
            "strides [1, 2, 2, 2]",
        ),
    ),
    (
        "does not look at the steps or windows over channels, or at windows of no size",
        "MaxPoolWithArgmax",
        ("strides [1, 2, 2, 2]",),
    ),
    (
        "does not look at the steps or windows over channels, or at windows of no size",
        "MaxPoolGradWithArgmax",
        ("strides [1, 2, 2, -1]", "strides [1, 2, 2, 2]"),
    ),
    (
        "does not look at the steps or windows over channels, or at windows of no size",
        "MaxPoolGrad",
        (
            "ksize [0, 2, 2, 1]",
            "ksize [1, -1, 2, 1]",
            "ksize [1, 2, -1, 1]",
            "ksize [1, 2, 2, -1]",
            "ksize [1, 2, 2, 2]",
            "strides [0, 2, 2, 1]",
            "strides [1, 2, 2, -1]",
            "strides [1, 2, 2, 2]",
        ),
    ),
    (
        "does not look at the steps or windows over channels, or at windows of no size",
        "MaxPoolGradGrad",
        ("ksize [-1, 2, 2, 1]", "ksize [1, 0, 2, 1]", "ksize [1, 2, 0, 1]", "ksize [1, 2, 2, 0]"),
    ),
    (
        "does not look at the steps or windows over channels, or at windows of no size",
        "MaxPool3DGrad MaxPool3DGradGrad",
        (
            "ksize [-1, 2, 3, 2, 1]",
            "ksize [1, 0, 3, 2, 1]",
            "ksize [1, 2, 3, 0, 1]",
            "ksize [1, 2, 3, 2, 0]",
        ),
    ),
    ("compares with outputs that are not those of its input", "MaxPoolGrad", ("1 last *",)),
    (
        "has kernels for channels last only on CPUs",
        "AvgPool AvgPoolGrad MaxPool MaxPoolGradGrad SpaceToDepth",
        ("data_format NCHW",),
    ),
    ("has kernels for channels last only on CPUs", "AvgPool3D MaxPool3D", ("data_format NCDHW",)),
    (
        "has no kernels for dilations on CPUs, or takes no notice of them",
        "Conv2DBackpropFilter Conv2DBackpropInput",
        ("dilations [1, 1, 2, 1]",),
    ),
    (
        "has no kernels for dilations on CPUs, or takes no notice of them",
        "Conv3D",
        ("dilations [1, 1, 1, 2, 1]", "dilations [1, 2, 1, 1, 1]"),
    ),
    (
        "has no kernels for dilations on CPUs, or takes no notice of them",
        "Conv3DBackpropFilterV2 Conv3DBackpropInputV2",
        ("dilations [1, 1, 2, 1, 1]",),
    ),
    (
        "has no kernels for dilations on CPUs, or takes no notice of them",
        "DepthwiseConv2dNative",
        (
            "dilations [-1, 1, 1, 1]",
            "dilations [1, 1, 1, 0]",
            "dilations [1, 1, 2, 1]",
            "dilations [1, 2, 1, 1]",
            "dilations [2, 1, 1, 1]",
        ),
    ),
    (
        "has no kernels for dilations on CPUs, or takes no notice of them",
        "DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput",
        ("dilations *",),
    ),
    (
        "answers for filters and images without elements, or refuses what has an answer",
        "Conv2D Dilation2DBackpropFilter Dilation2DBackpropInput",
        ("all empty along 0", "all empty along 1"),
    ),
    (
        "answers for filters and images without elements, or refuses what has an answer",
        "Conv3D",
        ("1 empty along 4",),
    ),
    (
        "answers for filters and images without elements, or refuses what has an answer",
        "Conv3DBackpropInputV2",
        ("1 empty along 0", "1 empty along 1", "1 empty along 2"),
    ),
    (
        "answers for filters and images without elements, or refuses what has an answer",
        "ResizeNearestNeighborGrad",
        ("* empty along 1", "* empty along 2"),
    ),
    (
        "answers for filters and images without elements, or refuses what has an answer",
        "MirrorPadGrad",
        ("0 empty along 1",),
    ),
    (
        "answers for filters and images without elements, or refuses what has an answer",
        "Conv2DBackpropFilter ScaleAndTranslateGrad",
        ("* empty along 1", "* empty along 2", "0 empty along 3"),
    ),
    (
        "answers for filters and images without elements, or refuses what has an answer",
        "DepthwiseConv2dNative Dilation2D",
        ("* empty along 0", "1 empty along 1", "all empty along 1"),
    ),
    (
        "takes rates of zero or less",
        "Dilation2D",
        ("rates [1, 0, 2, 1]", "rates [1, 1, 0, 1]", "rates [1, 1, -1, 1]"),
    ),
    (
        "takes rates of zero or less",
        "Dilation2DBackpropFilter Dilation2DBackpropInput",
        ("rates [1, -1, 2, 1]", "rates [1, 1, 0, 1]"),
    ),
    (
        "gives its third reserve, which no kernel reads, as a scalar; NaN moments; takes any rank",
        "FusedBatchNormV3",
        (
            "* 1",
            "* 2",
            "0 empty along 0",
            "0 in a list",
            "0 last *",
            "0 longer",
            "1 last nan",
            "1 last 0",
            "1 last -1",
            "2 last *",
            "3 longer",
            "epsilon *",
        ),
    ),
    (
        "takes a scalar for a vector of one, and the other way round",
        "Fill",
        ("0 scalar", "1 in a list"),
    ),
    (
        "goes by the number of elements, whatever their shapes",
        "InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad",
        ("* list",),
    ),
    ("calls a division by zero an internal error", "TruncateDiv TruncateMod", ("1 all 0",)),
    ("takes negative sizes", "BroadcastArgs BroadcastGradientArgs", ("0 last -1",)),
    (
        "does not look whether indices are in the shape",
        "SparseReshape",
        ("0 all -1", "0 all -5", "0 all 7", "0 last 99"),
    ),
    ("does not look whether indices are in the shape", "SparseSlice", ("2 all 0",)),
    (
        "does not look whether indices are in the shape",
        "SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseSoftmax",
        ("0 * -1", "0 all -5", "0 all 7", "0 last 99", "2 all 0", "2 all 1"),
    ),
    ("merges as if indices rose", "SparseAdd", ("0 all *", "3 all *")),
    (
        "merges as if indices rose",
        "SparseSparseMaximum SparseSparseMinimum",
        ("0 all 1", "3 all 0"),
    ),
    (
        "calls negative sizes an internal error",
        "SparseConcat",
        ("2.0 * -1", "2.1 all -5", "2.1 last -1"),
    ),
    (
        "merges as if indices rose",
        "SparseAddGrad",
        ("1 all *", "2 all *", "3 all *", "? longer", "all empty *"),
    ),
    (
        "takes indices that are not in the shape, each kernel in its way",
        "SparseCrossHashed",
        ("0.0 all -1", "0.0 all 7", "0.1 all *"),
    ),
    (
        "takes indices that are not in the shape, each kernel in its way",
        "SparseCrossV2",
        ("0.0 all -1", "0.0 all 7", "0.1 all -5", "0.1 all 7"),
    ),
    (
        "takes a negative number of buckets for a large one",
        "SparseCrossHashed",
        ("4 all -5", "4 last -1"),
    ),
    (
        "answers for outputs without rows",
        "SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGrad",
        ("3 all 0",),
    ),
    (
        "takes what does not begin as a file for an empty one",
        "DecodeCompressed",
        ("0.0 last b'\\xff'",),
    ),
    ("answers strings for no splits", "StringNGrams", ("1 empty along 0",)),
    ("writes an ellipsis for no elements with a space", "StringFormat", ("summarize 0",)),
    ("broadcasts a label of size 0 and 1", "Einsum", ("0.0 * 1", "0.1 one along 0")),
    ("gives a loss without any choice", "CTCLoss", ("all one along 2",)),
    ("takes a label beyond the last as one that was given", "CTCLoss", ("2 all 7",)),
    ("orders what has no order", "LowerBound", ("1 last nan",)),
    ("orders what has no order", "UpperBound TopKV2", ("0 last nan",)),
    ("gives the greatest in no order", "TopKV2", ("sorted False",)),
    (
        "never ends, or ends the process",
        "AccumulatorTakeGradient SparseAccumulatorTakeGradient",
        ("0 in a list",),
    ),
    (
        "does not look at the shapes of all slots",
        "ResourceApplyAdadelta",
        ("2 empty along 1", "2 in a list", "2 wider"),
    ),
    (
        "does not look at the shapes of all slots",
        "ResourceApplyAdamWithAmsgrad",
        ("3 empty along 1", "3 scalar"),
    ),
    (
        "goes by the number of updates, whatever their shapes",
        "ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterDiv "
        "ResourceScatterMin ResourceScatterMax ResourceScatterUpdate",
        ("* 1", "1 empty along 0", "2 wider"),
    ),
    ("refuses a division by zero of floats", "ResourceScatterDiv", ("2 last 0",)),
    (
        "takes a vector of one for a number",
        "QueueDequeueManyV2 QueueDequeueUpToV2",
        ("1 in a list",),
    ),
    ("takes a vector of one for a number", "PriorityQueueV2", ("2 in a list",)),
    ("counts fewer than no elements", "DatasetCardinality", ("0 all -5",)),
    ("gives empty batches without end", "RebatchDatasetV2", ("0 all 0",)),
    ("never ends", "ParallelBatchDataset", ("0 all 0",)),
    ("never ends", "ParallelFilterDataset", ("0 all 0",)),
    (
        "calls a file without room for a header an internal error, one for a footer empty",
        "FixedLengthRecordDataset FixedLengthRecordDatasetV2",
        ("0 all 7", "0 last 99", "2 all 7", "2 last 99"),
    ),
    ("looks for a checkpoint of the first kind in a directory", "RestoreV2", ("0 last b''",)),
    ("takes an example that ends within a field", "ParseExampleV2", ("0 last b'0 zz'",)),
    ("takes the head of a table for a tensor without a name", "RestoreV2", ("1 last b''",)),
    ("takes a vector of one for a number", "ReaderReadUpToV2", ("1 in a list",)),
    (
        "never ends without room for an element",
        "MultiDeviceIterator MultiDeviceIteratorInit MultiDeviceIteratorGetNextFromShard "
        "MultiDeviceIteratorToStringHandle MultiDeviceIteratorFromStringHandle "
        "AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 DeleteMultiDeviceIterator",
        ("1 all 0",),
    ),
    (
        "takes a vector of one for a number",
        "MultiDeviceIterator MultiDeviceIteratorInit MultiDeviceIteratorGetNextFromShard "
        "MultiDeviceIteratorToStringHandle MultiDeviceIteratorFromStringHandle "
        "AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 DeleteMultiDeviceIterator",
        ("1 in a list", "2 in a list", "3 in a list"),
    ),
    ("takes empty elements beside others", "TensorArrayGatherV3", ("1 empty *",)),
    ("takes lengths of any rank", "TensorListConcatV2", ("3 scalar",)),
    (
        "reads beyond the end of what it is given",
        "TensorListScatterIntoExistingList",
        ("* -1", "* along 0", "2 last *", "2 wider", "3 all *"),
    ),
    ("compares with NaN in one direction", "ApplyAdaMax", ("5 last nan",)),
    (
        "compares with NaN in one direction",
        "ResourceApplyAdamWithAmsgrad",
        ("10 last nan", "2 last -inf"),
    ),
    ("compares with NaN in one direction", "NonMaxSuppressionV5", ("0 last nan", "5 last nan")),
    ("compares with NaN in one direction", "NonMaxSuppressionWithOverlaps", ("3 last nan",)),
    ("compares with NaN in one direction", "AdjustSaturation", ("* -inf", "* nan", "1 last inf")),
    (
        "compares with NaN in one direction",
        "MaxPool MaxPool3D Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput "
        "CumulativeLogsumexp RGBToHSV AdjustHue",
        ("* nan",),
    ),
    ("reads counters beyond their ends", "StatelessRandomGammaV3", ("2 one along 0",)),
    ("reads counters beyond their ends", "StatelessShuffle", ("* one along 0",)),
    ("takes numbers of rounds that mix nothing", "RandomIndexShuffle", ("rounds *",)),
    (
        "multiplies the zeros that it has put around and between gradients",
        "DepthwiseConv2dNativeBackpropInput",
        ("1 last -inf", "1 last nan"),
    ),
    (
        "multiplies the zeros that it has put around and between gradients",
        "Conv3DBackpropFilterV2 Conv3DBackpropInputV2",
        ("* inf",),
    ),
    (
        "is NaN where the function falls without bound, as it does in double",
        "BesselY1",
        ("0 last 0",),
    ),
    (
        "takes the side of the cut that rounding errors tell",
        "MatrixLogarithm",
        ("0 last -1", "0 last 0"),
    ),
    (
        "keeps what it has read of metadata that are cut off",
        "TensorSummaryV2",
        ("2 last b'-1'", "2 last b'0 zz'"),
    ),
    (
        "reads counters beyond their ends",
        "StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2 "
        "StatelessRandomUniformFullIntV2 StatelessRandomUniformIntV2",
        ("*one along 0",),
    ),
]

# What tideflow cannot do, or does in another way.
OURS: list[tuple[str, str, tuple[str, ...]]] = [
    (
        "folds the mean into the offset, which is infinite too for an infinite scale",
        "FusedBatchNormV3",
        ("1 last inf", "1 last -inf"),
    ),
    (
        "the phase of the last column is free where there are no more rows than columns",
        "Qr",
        ("0 wider",),
    ),
    ("shows a number as the data", "Print", ("1.0 scalar",)),
    (
        "transformations have no names",
        "AssertNextDataset ExperimentalAssertNextDataset AssertPrevDataset",
        ("as it should be", "0 last *", "0 longer", "0 wider"),
    ),
]


def reason(op: str, change: str) -> str | None:
    """Return why a changed call need not end as on TensorFlow, or None where it must."""
    for why, ops, patterns in (*THEIRS, *OURS):
        if op in ops.split() and _is_one_of(change, patterns):
            return why
    return None


def _is_one_of(change: str, patterns: tuple[str, ...]) -> bool:
    # Brackets of lists stand for themselves, unlike those of patterns.
    return change in patterns or any(fnmatchcase(change, one) for one in patterns)
