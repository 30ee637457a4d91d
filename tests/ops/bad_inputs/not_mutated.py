"""Ops whose calls no test mutates, and why."""

from __future__ import annotations

_NOTHING_TO_FEED = """
    AnonymousHashTable AnonymousMutableHashTable AnonymousMutableHashTableOfTensors
    AccumulatorNumAccumulated Barrier BarrierClose BarrierIncompleteSize BarrierReadySize
    CloseSummaryWriter FlushSummaryWriter SummaryWriter DeserializeIterator
    ConditionalAccumulator Const DestroyResourceOp DisableCopyOnRead DummyMemoryCache
    DummyIterationCounter DummySeedGenerator FIFOQueue FakeParam HashTable HashTableV2
    IsVariableInitialized
    LookupTableExport LookupTableExportV2 LookupTableSize LookupTableSizeV2 MapClear
    MapIncompleteSize MapSize MutableHashTable MutableHashTableOfTensors
    MutableHashTableOfTensorsV2 MutableHashTableV2 NoOp OneShotIterator
    OrderedMapClear OrderedMapIncompleteSize OrderedMapSize PaddingFIFOQueue Placeholder
    PriorityQueue QueueClose QueueCloseV2 QueueIsClosed QueueIsClosedV2 QueueSize QueueSizeV2
    ConsumeMutexLock MutexLock MutexV2 EmptyTensorMap FakeQueue Stack StackClose TensorMapSize
    SdcaShrinkL1 TensorMapStackKeys
    RandomShuffleQueue ResourceAccumulatorNumAccumulated ResourceConditionalAccumulator
    SerializeIterator SparseConditionalAccumulator StackCloseV2 StageClear StageSize
    IteratorGetModelProto StatsAggregatorHandle StatsAggregatorHandleV2
    ExperimentalStatsAggregatorHandle ExperimentalStatsAggregatorSummary
    StatsAggregatorSetSummaryWriter StatsAggregatorSummary
    StatelessRandomGetAlg
    TensorArrayCloseV3 TensorListLength Timestamp Unstage VarHandleOp VarIsInitializedOp Variable
    VariableV2
"""

_REWRITTEN = """
    _FusedBatchNormEx _FusedConv2D _FusedConv3D _FusedDepthwiseConv2dNative _FusedMatMul
    _MklFusedBatchMatMulV2 _MklFusedMish _MklNativeConv2DWithBias _MklNativePadWithConv2D
    _MklNativePadWithFusedConv2D
    _MklNativeConv2DBackpropFilterWithBias _MklNativeFusedBatchNormEx
    _MklNativeFusedBatchNormGradV3 _MklNativeFusedConv2D _MklNativeFusedConv3D
    _MklNativeFusedDepthwiseConv2dNative _MklNativeFusedMatMul _MklNativeMaxPool
    _MklNativeMaxPool3D _MklNativeMaxPool3DGrad _MklNativeMaxPoolGrad _MklSwish
"""

_COLLECTIVE = """
    CollectiveAllToAllV2 CollectiveAllToAllV3 CollectiveBcastRecv CollectiveBcastRecvV2
    CollectiveBcastSend CollectiveBcastSendV2 CollectiveGather CollectiveGatherV2
    CollectiveInitializeCommunicator CollectiveReduce CollectiveReduceScatterV2
    CollectiveReduceV2 CollectiveReduceV3
"""

_STAGED = """
    BarrierInsertMany BarrierTakeMany MapPeek MapUnstage MapUnstageNoKey OrderedMapPeek
    OrderedMapUnstage OrderedMapUnstageNoKey StagePeek
"""

_TO_SUMMARY_FILES = """
    CreateSummaryDbWriter CreateSummaryFileWriter ImportEvent WriteAudioSummary WriteGraphSummary
    WriteHistogramSummary WriteImageSummary WriteRawProtoSummary WriteScalarSummary WriteSummary
"""

_BY_ONEDNN = """
    QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize
    QuantizedConv2DPerChannel QuantizedConv2DWithBias QuantizedConv2DWithBiasAndRelu
    QuantizedConv2DWithBiasAndReluAndRequantize QuantizedConv2DWithBiasAndRequantize
    QuantizedConv2DWithBiasSignedSumAndReluAndRequantize QuantizedConv2DWithBiasSumAndRelu
    QuantizedConv2DWithBiasSumAndReluAndRequantize QuantizedDepthwiseConv2D
    QuantizedDepthwiseConv2DWithBias QuantizedDepthwiseConv2DWithBiasAndRelu
    QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize QuantizedMatMulWithBias
    QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndRelu
    QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize
"""

_BY_REFERENCE = """
    InitializeTable InitializeTableFromTextFile LookupTableFind LookupTableImport LookupTableInsert
    QueueDequeue QueueDequeueMany QueueDequeueUpTo QueueEnqueue QueueEnqueueMany
    ReaderNumRecordsProduced ReaderNumWorkUnitsCompleted ReaderRead ReaderReadUpTo ReaderReset
    ReaderRestoreState ReaderSerializeState StackPop StackPush WholeFileReader
"""

# They take nothing, or handles alone, which a graph cannot be fed.
NOTHING_TO_FEED = frozenset(_NOTHING_TO_FEED.split())

# Only TensorFlow's rewriting makes them, of ops whose inputs fit: its kernels do not look at them.
REWRITTEN = frozenset(_REWRITTEN.split())

_NO_KERNEL = "TensorFlow has no kernel for it on CPUs"
_NOT_DELETED = "TensorFlow refuses to delete what a graph made"
_PYTHON = "it calls a Python function of the process that made it"

OTHERS: dict[str, str] = {
    "Abort": "it ends the process",
    "Empty": "what it holds without init is not defined; see test_passed_on_state_oracle.py",
    "GenerateVocabRemapping": "it takes files alone; see test_vocabularies_oracle.py",
    "DecodeJxl": "it needs a library that may not be there; see test_jxl_oracle.py",
    "TensorListScatterIntoExistingList": "TensorFlow reads beyond the end of its indices, and "
    "gives what happens to be there; see test_tensor_list_oracle.py",
    "RecordInput": "it takes files alone; see test_warm_start_oracle.py",
    "LoadAndRemapMatrix": "TensorFlow ends its process on a col_remapping that is no vector; what "
    "else is wrong is in test_warm_start_oracle.py",
    "SparseMatrixOrderingAMD": "it may give another order; see test_csr_matrices_oracle.py",
    "SparseMatrixSparseCholesky": "TensorFlow's kernel takes what is no permutation; what else is "
    "wrong is in test_csr_matrices_oracle.py",
    "ImmutableConst": "it takes a file alone; see test_passed_on_state_oracle.py",
    "AccumulateNV2": "TensorFlow's rewriting replaces it before it runs",
    "AnonymousRandomSeedGenerator": "TensorFlow's kernel asks for an input that it does not have",
    **dict.fromkeys(
        ("BlockLSTMGrad", "BlockLSTMGradV2"),
        "TensorFlow's kernel reads beyond the ends of what does not fit its cell",
    ),
    "DeleteMemoryCache": _NOT_DELETED,
    "DeleteRandomSeedGenerator": _NOT_DELETED,
    "DeleteSeedGenerator": _NOT_DELETED,
    "EagerPyFunc": _PYTHON,
    "ExperimentalMapDataset": _NO_KERNEL,
    "FilterByLastComponentDataset": _NO_KERNEL,
    **dict.fromkeys(
        ("DeleteSessionTensor", "GetSessionHandle", "GetSessionHandleV2", "GetSessionTensor"),
        "it needs what a session keeps; see tests/tf_behaviours/client_others.py",
    ),
    "InitializeTableFromDataset": "TensorFlow ends its process on a dataset that does not fit",
    "MutableDenseHashTable": "TensorFlow's kernel asks for an input that it does not have",
    "NonDeterministicInts": "no two of its draws agree",
    "PyFunc": _PYTHON,
    "PyFuncStateless": _PYTHON,
    "RaggedTensorToVariantGradient": "TensorFlow's kernel gives memory of others for other shapes",
    **dict.fromkeys(
        (
            *("ChooseFastestDataset", "ExperimentalChooseFastestDataset"),
            *("DatasetFingerprint", "DatasetToGraph", "DatasetToGraphV2"),
        ),
        "it takes datasets alone, which other programs mutate",
    ),
    **dict.fromkeys(
        ("ListSnapshotChunksDataset", "SnapshotChunkDataset", "SnapshotDatasetReader"),
        "it takes files alone; see test_dataset_saved_oracle.py",
    ),
    **dict.fromkeys(
        ("SnapshotDataset", "SnapshotDatasetV2"),
        "it keeps what it is given wrong in files; see test_dataset_snapshots_oracle.py",
    ),
    **dict.fromkeys(
        ("DatasetToTFRecord", "ExperimentalDatasetToTFRecord"),
        "what it writes is compared in test_dataset_access_oracle.py",
    ),
    **dict.fromkeys(
        (
            *("DataServiceDataset", "DataServiceDatasetV2", "DataServiceDatasetV3"),
            *("DataServiceDatasetV4", "RegisterDataset", "RegisterDatasetV2", "DistributedSave"),
        ),
        "it asks other processes; what it is given wrong is in tests/data_service",
    ),
    "WindowOp": "TensorFlow's kernel cannot be written into a graph, which programs go by",
    "TensorArraySizeV3": "its second input only tells when it runs",
    "TopK": _NO_KERNEL,
    **dict.fromkeys(_BY_REFERENCE.split(), "its kernel is that of the op that takes a resource"),
    **dict.fromkeys(
        ("InitializeTableV2", "InitializeTableFromTextFileV2"),
        "it fills a table once; what it is given wrong is in test_older_versions_oracle.py",
    ),
    **dict.fromkeys(
        _BY_ONEDNN.split(),
        "TensorFlow has only kernels of oneDNN for it, which end bad input with ABORTED or end the "
        "process; see test_fused_levels_oracle.py",
    ),
    **dict.fromkeys(
        _TO_SUMMARY_FILES.split(),
        "TensorFlow ends its process on steps and tags that are no scalars; what else is wrong is "
        "in test_summary_writers_oracle.py",
    ),
    **dict.fromkeys(
        (
            "ParallelConcat",
            "TensorMapErase",
            "TensorMapHasKey",
            "TensorMapInsert",
            "TensorMapLookup",
        ),
        "what it is given wrong is in test_passed_on_state_oracle.py",
    ),
    **dict.fromkeys(
        _STAGED.split(),
        "it waits for what other calls put; what it is given wrong is in test_staging_oracle.py",
    ),
    **dict.fromkeys(
        _COLLECTIVE.split(),
        "members that are given different things wait for each other; what all are given wrong "
        "is in test_collective_ops_oracle.py",
    ),
}
