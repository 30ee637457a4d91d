"""The public names of the eager side."""

from __future__ import annotations

from tideflow.eager import asynchronous as asynchronous
from tideflow.eager import config as config
from tideflow.eager import data_experimental as data_experimental
from tideflow.eager import dlpack as dlpack
from tideflow.eager import forward as forward
from tideflow.eager import iterators as iterators
from tideflow.eager import module as module
from tideflow.eager import py_function as py_function
from tideflow.eager import random_generator as random_generator
from tideflow.eager.backprop import GradientTape
from tideflow.eager.context import executing_eagerly, inside_function
from tideflow.eager.functions import function, functions_run_eagerly, run_functions_eagerly
from tideflow.eager.tensor import EagerTensor
from tideflow.eager.variable import VariableV2
from tideflow.graph.graph import Tensor
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.export import export_value_v2

for _name, _thing in {
    "GradientTape": GradientTape,
    "autodiff.GradientTape": GradientTape,
    "TensorSpec": TensorSpec,
    "Variable": VariableV2,
    "Tensor": Tensor,
    "executing_eagerly": executing_eagerly,
    "function": function,
    "inside_function": inside_function,
    "config.run_functions_eagerly": run_functions_eagerly,
    "config.functions_run_eagerly": functions_run_eagerly,
    "config.experimental_run_functions_eagerly": run_functions_eagerly,
    "config.experimental_functions_run_eagerly": functions_run_eagerly,
}.items():
    export_value_v2(_name, _thing)

__all__ = ["EagerTensor"]
