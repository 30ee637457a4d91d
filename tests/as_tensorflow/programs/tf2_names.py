"""Statements that import, and what libraries look at to tell TensorFlow's values."""

import copy
import importlib
import importlib.util
import pickle

import tensorflow
import tensorflow as tf
import tensorflow.compat.v1 as tf1
import tensorflow.compat.v2 as tf2
import tensorflow.io.gfile
import tensorflow.nn as nn
from tensorflow import data as tf_data
from tensorflow import errors, float32
from tensorflow.compat import v1
from tensorflow.data import Dataset
from tensorflow.io import gfile
from tensorflow.math import reduce_sum
from tensorflow.nn import relu
from tensorflow.python.framework import ops, tensor_shape
from tensorflow.python.ops import array_ops, math_ops
from tensorflow.python.util import nest

print(tf is tensorflow, tf1 is v1, tf.compat.v1 is tf1, tf2.add is tf.add, tf.nn.relu is relu)
print(
    nn.relu is relu, tf.data.Dataset is Dataset, tf_data.Dataset is Dataset, tf.float32 is float32
)
print(tf.io.gfile.exists is gfile.exists, errors.NotFoundError is tf.errors.NotFoundError)
print(math_ops.reduce_sum is not None, int(math_ops.reduce_sum([1, 2])), int(reduce_sum([3, 4])))
print(array_ops.zeros([2]).numpy().tolist(), nest.flatten({"b": 1, "a": [2, 3]}))
print(ops.convert_to_tensor([1]).dtype, tensor_shape.TensorShape([2, None]))
print(importlib.import_module("tensorflow.compat.v1.train").Saver is tf1.train.Saver)
print(
    importlib.util.find_spec("tensorflow") is not None,
    importlib.util.find_spec("tensorflow.nn") is not None,
)
print(tf.__version__, tf.version.VERSION, tf1.VERSION, tf.executing_eagerly())
print([name in dir(tf) for name in ("add", "nn", "sys", "importlib", "types_", "function", "data")])
print(hasattr(tf, "no_such_name"), hasattr(tf.nn, "no_such_name"), hasattr(tf, "contrib"))

values = {
    "tensor": tf.constant(1),
    "variable": tf.Variable(1),
    "dataset": tf.data.Dataset.range(2),
    "iterator": iter(tf.data.Dataset.range(2)),
    "ragged": tf.ragged.constant([[1]]),
    "sparse": tf.sparse.eye(1),
    "shape": tf.TensorShape([1]),
    "dtype": tf.float32,
    "spec": tf.TensorSpec([1]),
    "error": tf.errors.NotFoundError(None, None, "gone"),
}
for name, value in values.items():
    known = ("Tensor", "DatasetV2", "Variable", "RaggedTensor", "SparseTensor", "NotFoundError")
    parents = {c.__name__ for c in type(value).__mro__ if "tensorflow.python." in c.__module__}
    print(
        name, [one for one in known if (one in parents and one != "Tensor") or one == name.title()]
    )
    print(name, type(value).__module__.startswith("tensorflow."), tf.is_tensor(value))
for kind in (
    tf.Tensor,
    tf.RaggedTensor,
    tf.SparseTensor,
    tf.data.Dataset,
    tf.Module,
    tf.TensorShape,
):
    print(kind.__module__, kind.__name__, pickle.loads(pickle.dumps(kind)) is kind)
print(pickle.loads(pickle.dumps(tf.float32)) is tf.float32, copy.deepcopy(tf.TensorShape([1, 2])))
print(pickle.loads(pickle.dumps(tf.TensorShape([1, 2]))) == tf.TensorShape([1, 2]))
