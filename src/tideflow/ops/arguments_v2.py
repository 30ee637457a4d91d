"""The TF2 shape of functions that differ from the v1 shape in their arguments' order and names.

The v1 shape has older arguments in between (`name` before newer ones, `data`, `keep_prob`).
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.ops import checks
from tideflow.ops.array import (
    gathering as array_gather,
)
from tideflow.ops.array import (
    padding as array_pad,
)
from tideflow.ops.array import (
    scattering as array_scatter,
)
from tideflow.ops.array import (
    shapes as array,
)
from tideflow.ops.array import (
    transposing as array_transpose,
)
from tideflow.ops.control_flow import ordering as control_flow
from tideflow.ops.export import export_value_v2, exports
from tideflow.ops.framework import constants as constant
from tideflow.ops.gradients import api as gradients
from tideflow.ops.gradients import second as second_gradients
from tideflow.ops.math import counting
from tideflow.ops.math import reducing as reduce
from tideflow.ops.nn import (
    activations as nn_activations,
)
from tideflow.ops.nn import (
    blocks_api as array_blocks,
)
from tideflow.ops.nn import (
    convolutions as conv,
)
from tideflow.ops.nn import (
    cross_entropy as nn_losses,
)
from tideflow.ops.nn import (
    depthwise as conv_depthwise,
)
from tideflow.ops.nn import (
    dropouts as nn_dropout,
)
from tideflow.ops.nn import (
    volumes,
)
from tideflow.ops.parsing import values as parsing
from tideflow.ops.sparse import segment as sparse_segment
from tideflow.ops.sparse import tensor as sparse_tensor
from tideflow.ops.strings import strings as string


def with_arguments(function: Callable[..., Any], arguments: str) -> Callable[..., Any]:
    """Return a function with the arguments given, in their order.

    arguments: names, or `name=own` where the function calls it otherwise; `name:default` where the
    signature shows another default, which means the same.
    Arguments have the function's defaults; those that it demands are demanded.
    """
    parts = [part.partition(":") for part in arguments.split()]
    pairs = [part.partition("=") for part, _, _ in parts]
    own_names = {name: own or name for name, _, own in pairs}
    shown = {name: ast.literal_eval(default) for name, is_other, default in parts if is_other}
    names = list(own_names)
    known = inspect.signature(function).parameters
    is_a_prefix = [*own_names.values()] == [*known][: len(names)] == names
    # An argument that replaces an older one has no default that says whether it is demanded.
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=shown.get(name, known[own].default),
        )
        for name, own in own_names.items()
    ]
    signature = inspect.Signature(_with_defaults_last(parameters))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_a_prefix and len(args) <= len(names) and kwargs.keys() <= own_names.keys():
            return function(*args, **kwargs)
        if len(args) > len(names):
            raise TypeError(f"{call.__name__}() takes {names}; found {len(args)} arguments")
        found = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in own_names or name in found:
                what = "several values for" if name in found else "an unexpected"
                raise TypeError(f"{call.__name__}() got {what} argument {name!r}")
            found[name] = value
        return function(**{own_names[name]: value for name, value in found.items()})

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _with_defaults_last(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Give the arguments after one with a default a default, too, which a signature needs."""
    made = []
    is_optional = False
    for parameter in parameters:
        is_optional = is_optional or parameter.default is not inspect.Parameter.empty
        if is_optional and parameter.default is inspect.Parameter.empty:
            parameter = parameter.replace(default=None)
        made.append(parameter)
    return made


_COMPARED = "x y message summarize name"
_SIGNED = "x message summarize name"
_REDUCED = "input_tensor axis keepdims:False name"
_SEGMENTED = "data indices segment_ids num_segments name sparse_gradient"
_SCATTERED = "tensor indices updates bad_indices_policy name"

_ROWS: tuple[tuple[str, Callable[..., Any], str], ...] = (
    ("argmax math.argmax", reduce.argmax, "input axis output_type name"),
    ("argmin math.argmin", reduce.argmin, "input axis output_type name"),
    ("boolean_mask", array_gather.boolean_mask, "tensor mask axis name"),
    ("convert_to_tensor", convert_to_tensor, "value dtype dtype_hint name"),
    ("gather", array_gather.gather, "params indices validate_indices axis batch_dims name"),
    ("gather_nd", array_gather.gather_nd, "params indices batch_dims name bad_indices_policy"),
    (
        "gradients",
        gradients.gradients,
        "ys xs grad_ys name gate_gradients aggregation_method stop_gradients unconnected_gradients",
    ),
    ("hessians", second_gradients.hessians, "ys xs gate_gradients aggregation_method name"),
    ("pad", array_pad.pad, "tensor paddings mode constant_values name"),
    (
        "reverse_sequence",
        array_pad.reverse_sequence,
        "input seq_lengths seq_axis batch_axis name",
    ),
    ("shape", array.shape, "input out_type:None name"),
    ("size", array.size, "input out_type:None name"),
    ("squeeze", array.squeeze, "input axis name"),
    ("transpose", array_transpose.transpose, "a perm conjugate name"),
    ("tuple", control_flow.tuple_, "tensors control_inputs name"),
    ("zeros_like", constant.zeros_like, "input=tensor dtype name"),
    ("ones_like", constant.ones_like, "input=tensor dtype name"),
    *(
        (f"math.{name} {name}", exports()[name], _REDUCED)
        for name in (
            *("reduce_all", "reduce_any", "reduce_logsumexp", "reduce_max", "reduce_mean"),
            *("reduce_min", "reduce_prod", "reduce_sum"),
        )
    ),
    ("sparse.segment_mean", sparse_segment.sparse_segment_mean, _SEGMENTED),
    ("sparse.segment_sqrt_n", sparse_segment.sparse_segment_sqrt_n, _SEGMENTED),
    ("sparse.segment_sum", sparse_segment.sparse_segment_sum, _SEGMENTED),
    *(
        (name, array_scatter.tensor_scatters[name], _SCATTERED)
        for name in (f"tensor_scatter_nd_{way}" for way in ("add", "max", "min", "sub"))
    ),
    (
        "tensor_scatter_nd_update",
        array_scatter.tensor_scatters["tensor_scatter_nd_update"],
        "tensor indices updates name",
    ),
    ("sparse.concat", sparse_tensor.concat, "axis sp_inputs expand_nonconcat_dims name"),
    ("linalg.norm norm", reduce.norm, "tensor ord axis keepdims name"),
    ("math.softmax nn.softmax", nn_losses.softmax, "logits axis name"),
    ("math.log_softmax nn.log_softmax", nn_losses.log_softmax, "logits axis name"),
    ("nn.silu nn.swish", nn_activations.swish, "features beta"),
    (
        "nn.weighted_cross_entropy_with_logits",
        nn_losses.weighted_cross_entropy_with_logits,
        "labels logits pos_weight name",
    ),
    ("strings.length", string.string_length, "input unit name"),
    ("strings.substr", string.substr, "input pos len unit name"),
    ("strings.to_number", string.string_to_number, "input=string_tensor out_type name"),
    ("strings.reduce_join", string.reduce_join, "inputs axis keepdims separator name"),
    (
        "io.decode_csv",
        parsing.decode_csv,
        "records record_defaults field_delim use_quote_delim na_value select_cols name",
    ),
    ("math.count_nonzero", reduce.count_nonzero, "input=input_tensor axis keepdims dtype name"),
    (
        "math.confusion_matrix",
        counting.confusion_matrix,
        "labels predictions num_classes weights dtype name",
    ),
    (
        "nn.conv1d",
        conv.conv1d,
        "input=value filters stride padding data_format dilations name",
    ),
    (
        "nn.conv2d",
        conv.conv2d,
        "input filters=filter strides padding data_format dilations name",
    ),
    (
        "nn.conv2d_transpose",
        conv.conv2d_transpose,
        "input=value filters=filter output_shape strides padding data_format dilations name",
    ),
    (
        "nn.conv3d",
        volumes.conv3d,
        "input filters=filter strides padding data_format dilations name",
    ),
    (
        "nn.conv3d_transpose",
        volumes.conv3d_transpose,
        "input=value filters=filter output_shape strides padding data_format dilations name",
    ),
    ("nn.crelu", nn_activations.crelu, "features axis name"),
    ("nn.depth_to_space", array_blocks.depth_to_space, "input block_size data_format name"),
    ("nn.space_to_depth", array_blocks.space_to_depth, "input block_size data_format name"),
    (
        "nn.depthwise_conv2d",
        conv_depthwise.depthwise_conv2d,
        "input filter strides padding data_format dilations name",
    ),
    (
        "nn.separable_conv2d",
        conv_depthwise.separable_conv2d,
        "input depthwise_filter pointwise_filter strides padding data_format dilations name",
    ),
    ("nn.dropout", nn_dropout.dropout, "x rate noise_shape seed name"),
    (
        "nn.softmax_cross_entropy_with_logits",
        nn_losses.softmax_cross_entropy_with_logits_v2,
        "labels logits axis name",
    ),
    ("debugging.assert_near", checks.assert_near, "x y rtol atol message summarize name"),
    ("debugging.assert_rank_in", checks.assert_rank_in, "x ranks message name"),
    *(
        (f"{name} debugging.{name}", exports()[name], _COMPARED)
        for name in ("assert_equal", "assert_greater", "assert_less")
    ),
    *(
        (f"debugging.{name}", exports()[name], _COMPARED)
        for name in ("assert_greater_equal", "assert_less_equal")
    ),
    (
        "debugging.assert_none_equal",
        exports()["assert_none_equal"],
        "x y summarize message name",
    ),
    *(
        (f"debugging.{name}", exports()[name], _SIGNED)
        for name in (
            "assert_negative",
            "assert_non_negative",
            "assert_non_positive",
            "assert_positive",
        )
    ),
    ("assert_rank debugging.assert_rank", exports()["assert_rank"], "x rank message name"),
    (
        "debugging.assert_rank_at_least",
        exports()["assert_rank_at_least"],
        "x rank message name",
    ),
)

for _names, _function, _arguments in _ROWS:
    _made = with_arguments(_function, _arguments)
    for _name in _names.split():
        export_value_v2(_name, _made)
