"""Layers written like those of TF-Slim, on the modules behind the API."""

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import session as session_lib
from tensorflow.python.framework import constant_op, dtypes, ops
from tensorflow.python.ops import array_ops, init_ops, math_ops, nn, nn_ops, variable_scope
from tensorflow.python.ops import variables as tf_variables
from tensorflow.python.training import training_util
from tensorflow.python.util import tf_inspect

tf.disable_v2_behavior()


def fully_connected(inputs, units, scope):
    with variable_scope.variable_scope(scope):
        shape = [inputs.get_shape().as_list()[-1], units]
        weights = variable_scope.get_variable(
            "weights", shape, dtypes.float32, init_ops.ones_initializer()
        )
        ops.add_to_collection(ops.GraphKeys.MODEL_VARIABLES, weights)
        return nn_ops.relu(math_ops.matmul(inputs, weights))


with ops.Graph().as_default() as graph:
    inputs = array_ops.placeholder(dtypes.float32, [None, 3])
    hidden = fully_connected(inputs, 2, "first")
    out = math_ops.reduce_sum(nn.softmax(hidden), name="out")
    total = math_ops.add(out, constant_op.constant(1.0))
    step = training_util.create_global_step()
    with session_lib.Session(config=config_pb2.ConfigProto()) as session:
        session.run(tf_variables.global_variables_initializer())
        print(session.run([hidden, total], {inputs: [[1.0, 2.0, 3.0]]})[1])
    print([v.op.name for v in ops.get_collection(ops.GraphKeys.MODEL_VARIABLES)], step.op.name)
    read = graph_pb2.GraphDef.FromString(graph.as_graph_def().SerializeToString())
    print(
        len(read.node) == len(graph.get_operations()),
        tf_inspect.getfullargspec(fully_connected).args,
    )
