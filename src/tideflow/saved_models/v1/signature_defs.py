"""Signatures of graphs: which tensors go in and come out, by name.

Source: tensorflow/python/saved_model/signature_def_utils_impl.py, method_name_updater.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tideflow.graph.graph import Tensor
from tideflow.ops.export import export
from tideflow.saved_models import constants as names
from tideflow.saved_models.files import model_path, parse_saved_model, write_saved_model
from tideflow.saved_models.tensor_infos import tensor_info
from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.tensor_codec import encode_tensor

T = TypeVar("T")


def _export(name: str) -> Callable[[T], T]:
    return export(f"saved_model.{name}", f"saved_model.signature_def_utils.{name}")


@_export("build_signature_def")
def build_signature_def(
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    method_name: str | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> pb.SignatureDef:
    """Return a signature.

    Args:
      inputs, outputs: messages of tensors by name.
      method_name: how servers use it.
      defaults: values of inputs that may be left out.
    """
    made = pb.SignatureDef()
    for given, field in ((inputs, made.inputs), (outputs, made.outputs)):
        for name, info in (given or {}).items():
            field[name].CopyFrom(info)
    if method_name is not None:
        made.method_name = method_name
    for name, value in (defaults or {}).items():
        is_message = isinstance(value, pb.TensorProto)
        held = value.numpy() if hasattr(value, "numpy") else value
        made.defaults[name].CopyFrom(value if is_message else encode_tensor(held))
    return made


def _checked(tensor: Tensor, wanted: dtypes.DType, what: str) -> pb.TensorInfo:
    found = tensor_info(tensor)
    if found.dtype != wanted.number:
        kind = "string" if wanted is dtypes.string else "float"
        raise ValueError(
            f"{what} tensors must be of type {kind}. Found tensor with dtype {tensor.dtype.name}"
        )
    return found


@_export("regression_signature_def")
def regression_signature_def(examples: Tensor, predictions: Tensor) -> pb.SignatureDef:
    """Return a signature for regression: serialised examples to float predictions.

    Raises: ValueError for tensors that are missing or of other types.
    """
    if examples is None:
        raise ValueError("Regression `examples` cannot be None.")
    if not isinstance(examples, Tensor):
        raise ValueError("Expected regression `examples` to be of type Tensor.")
    if predictions is None:
        raise ValueError("Regression `predictions` cannot be None.")
    given = {names.REGRESS_INPUTS: _checked(examples, dtypes.string, "Regression input")}
    found = {names.REGRESS_OUTPUTS: _checked(predictions, dtypes.float32, "Regression output")}
    return build_signature_def(given, found, names.REGRESS_METHOD_NAME)


@_export("classification_signature_def")
def classification_signature_def(
    examples: Tensor, classes: Tensor | None, scores: Tensor | None
) -> pb.SignatureDef:
    """Return a signature for classification: serialised examples to classes, scores or both.

    Raises: ValueError for tensors that are missing or of other types.
    """
    if examples is None:
        raise ValueError("Classification `examples` cannot be None.")
    if not isinstance(examples, Tensor):
        raise ValueError("Classification `examples` must be a string Tensor.")
    if classes is None and scores is None:
        raise ValueError("Classification `classes` and `scores` cannot both be None.")
    given = {names.CLASSIFY_INPUTS: _checked(examples, dtypes.string, "Classification input")}
    found = {}
    if classes is not None:
        what = "Classification classes"
        found[names.CLASSIFY_OUTPUT_CLASSES] = _checked(classes, dtypes.string, what)
    if scores is not None:
        what = "Classification scores"
        found[names.CLASSIFY_OUTPUT_SCORES] = _checked(scores, dtypes.float32, what)
    return build_signature_def(given, found, names.CLASSIFY_METHOD_NAME)


@_export("predict_signature_def")
def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> pb.SignatureDef:
    """Return a signature for prediction: any tensors to any others.

    Raises: ValueError where there are none.
    """
    if not inputs:
        raise ValueError("Prediction `inputs` cannot be None or empty.")
    if not outputs:
        raise ValueError("Prediction `outputs` cannot be None or empty.")
    return build_signature_def(
        {name: tensor_info(tensor) for name, tensor in inputs.items()},
        {name: tensor_info(tensor) for name, tensor in outputs.items()},
        names.PREDICT_METHOD_NAME,
    )


@_export("is_valid_signature")
def is_valid_signature(signature_def: Any) -> bool:
    """Whether a signature can be served as its method says."""
    if signature_def is None:
        return False
    inputs = {name: info.dtype for name, info in signature_def.inputs.items()}
    outputs = {name: info.dtype for name, info in signature_def.outputs.items()}
    text, number = dtypes.string.number, dtypes.float32.number
    if signature_def.method_name == names.PREDICT_METHOD_NAME:
        return bool(inputs) and bool(outputs)
    if signature_def.method_name == names.REGRESS_METHOD_NAME:
        return inputs == {names.REGRESS_INPUTS: text} and outputs == {names.REGRESS_OUTPUTS: number}
    if signature_def.method_name == names.CLASSIFY_METHOD_NAME:
        allowed = {names.CLASSIFY_OUTPUT_CLASSES: text, names.CLASSIFY_OUTPUT_SCORES: number}
        fits = bool(outputs) and outputs.items() <= allowed.items()
        return inputs == {names.CLASSIFY_INPUTS: text} and fits
    return False


@export("saved_model.signature_def_utils.MethodNameUpdater")
class MethodNameUpdater:
    """Changes how servers use the signatures of a saved model.

    Args:
      export_dir: the directory of the model.
    """

    def __init__(self, export_dir: str) -> None:
        self._export_dir = os.fspath(export_dir)
        self._model_pb = parse_saved_model(self._export_dir)

    def replace_method_name(
        self, signature_key: str, method_name: str, tags: str | Sequence[str] | None = None
    ) -> None:
        """Give a signature another method name.

        tags: of the graph; all graphs if None.
        Raises: ValueError where no graph has such tags, or no such signature.
        """
        if not signature_key:
            raise ValueError("`signature_key` must be defined.")
        if not method_name:
            raise ValueError("`method_name` must be defined.")
        wanted = [tags] if isinstance(tags, str) else tags
        found = [
            meta_pb
            for meta_pb in self._model_pb.meta_graphs
            if wanted is None or {*wanted} == {*meta_pb.meta_info_def.tags}
        ]
        if not found:
            raise ValueError(
                f"MetaGraphDef associated with tags {wanted} could not be found in SavedModel "
                f"{self._export_dir}"
            )
        for meta_pb in found:
            if signature_key not in meta_pb.signature_def:
                raise ValueError(
                    f"MetaGraphDef associated with tags {wanted} does not have a signature_def "
                    f"with key: '{signature_key}'; it has {sorted(meta_pb.signature_def)}"
                )
            meta_pb.signature_def[signature_key].method_name = method_name

    def save(self, new_export_dir: str | None = None) -> None:
        """Write the model, in place or into another directory, which gets its message alone."""
        as_text = not os.path.exists(model_path(self._export_dir))
        folder = os.fspath(new_export_dir or self._export_dir)
        os.makedirs(folder, exist_ok=True)
        write_saved_model(self._model_pb, folder, as_text)
