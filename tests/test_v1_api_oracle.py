"""Public functions take TensorFlow's arguments: the same names in the same order."""

from __future__ import annotations

import inspect

import pytest

import tideflow.v1 as tf

theirs = pytest.importorskip("tensorflow.compat.v1")
pytestmark = pytest.mark.tensorflow

NAMES = """
Session.run Session.make_callable Session.partial_run Session.partial_run_setup placeholder
placeholder_with_default constant get_variable variable_scope name_scope device
control_dependencies colocate_with identity gradients cond case while_loop import_graph_def
as_dtype make_ndarray register_tensor_conversion_function scatter_nd gather concat stack nn.relu
nn.conv2d nn.max_pool nn.softmax nn.dropout nn.embedding_lookup nn.moments
nn.softmax_cross_entropy_with_logits nn.sparse_softmax_cross_entropy_with_logits
nn.sigmoid_cross_entropy_with_logits nn.batch_normalization nn.l2_loss nn.top_k nn.in_top_k
math.add math.reduce_sum math.argmax math.unsorted_segment_sum reduce_mean cast random.normal
random.uniform random.truncated_normal random.shuffle losses.mean_squared_error
losses.softmax_cross_entropy losses.sparse_softmax_cross_entropy losses.compute_weighted_loss
TensorArray FIFOQueue RandomShuffleQueue PaddingFIFOQueue PriorityQueue
train.GradientDescentOptimizer train.MomentumOptimizer train.AdagradOptimizer
train.AdadeltaOptimizer train.RMSPropOptimizer train.FtrlOptimizer train.ClusterSpec train.Saver
train.Saver.save train.Saver.restore train.Saver.export_meta_graph train.latest_checkpoint
train.get_checkpoint_state train.update_checkpoint_state train.import_meta_graph
train.export_meta_graph train.list_variables train.load_variable train.checkpoints_iterator
train.init_from_checkpoint train.CheckpointManager train.CheckpointManager.save summary.FileWriter
summary.FileWriter.add_summary summary.FileWriter.add_graph summary.FileWriter.add_run_metadata
summary.scalar summary.histogram summary.image summary.text summary.audio summary.tensor_summary
summary.merge summary.merge_all io.TFRecordWriter train.replica_device_setter
train.get_or_create_global_step nest.map_structure train.Coordinator train.Coordinator.join
train.Coordinator.request_stop train.LooperThread train.QueueRunner
train.QueueRunner.create_threads train.start_queue_runners train.SessionManager
train.SessionManager.prepare_session train.SessionManager.wait_for_session
train.SessionManager.recover_session train.Supervisor train.Supervisor.managed_session
train.Supervisor.prepare_or_wait_for_session train.Supervisor.stop train.Supervisor.loop
train.Supervisor.summary_computed train.basic_train_loop train.Scaffold train.ChiefSessionCreator
train.WorkerSessionCreator train.MonitoredTrainingSession train.MonitoredSession
train.SingularMonitoredSession train.StopAtStepHook train.CheckpointSaverHook
train.SummarySaverHook train.StepCounterHook train.LoggingTensorHook train.NanTensorHook
train.FinalOpsHook train.FeedFnHook train.GlobalStepWaiterHook train.ProfilerHook
train.SecondOrStepTimer train.SyncReplicasOptimizer
train.SyncReplicasOptimizer.make_session_run_hook train.string_input_producer train.batch
train.shuffle_batch train.maybe_batch_join train.limit_epochs
nn.dynamic_rnn nn.bidirectional_dynamic_rnn nn.raw_rnn nn.static_rnn
nn.static_state_saving_rnn nn.static_bidirectional_rnn feature_column.input_layer
feature_column.linear_model feature_column.numeric_column feature_column.embedding_column
feature_column.shared_embedding_columns feature_column.crossed_column
feature_column.categorical_column_with_vocabulary_file
feature_column.categorical_column_with_vocabulary_list feature_column.bucketized_column
serialize_sparse deserialize_many_sparse sparse_merge sparse_split create_partitioned_variables
losses.mean_pairwise_squared_error train.warm_start wrap_function enable_eager_execution
autograph.to_code autograph.to_graph test.create_local_cluster test.assert_equal_graph_def
distribute.MirroredStrategy distribute.OneDeviceStrategy mixed_precision.DynamicLossScale
convert_to_tensor_or_sparse_tensor
""".split()  # noqa: SIM905 - a list of one hundred quoted names reads worse


def arguments(root, path):
    for part in path.split("."):
        root = getattr(root, part)
    return [name for name in inspect.signature(root).parameters if name != "self"]


@pytest.mark.parametrize("path", NAMES)
def test_a_function_takes_the_arguments_of_tensorflows(path):
    assert arguments(tf, path) == arguments(theirs, path)
