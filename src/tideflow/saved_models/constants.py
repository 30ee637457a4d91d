"""Names within saved models, as TensorFlow's programs spell them.

Source: tensorflow/python/saved_model/constants.py, signature_constants.py, tag_constants.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.ops.export import export_value, export_value_v2

ASSETS_DIRECTORY = "assets"
ASSETS_KEY = "saved_model_assets"
DEBUG_DIRECTORY = "debug"
DEBUG_INFO_FILENAME_PB = "saved_model_debug_info.pb"
LEGACY_INIT_OP_KEY = "legacy_init_op"
MAIN_OP_KEY = "saved_model_main_op"
SAVED_MODEL_FILENAME_PB = "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT = "saved_model.pbtxt"
SAVED_MODEL_SCHEMA_VERSION = 1
VARIABLES_DIRECTORY = "variables"
VARIABLES_FILENAME = "variables"

CLASSIFY_INPUTS = "inputs"
CLASSIFY_METHOD_NAME = "tensorflow/serving/classify"
CLASSIFY_OUTPUT_CLASSES = "classes"
CLASSIFY_OUTPUT_SCORES = "scores"
DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
PREDICT_INPUTS = "inputs"
PREDICT_METHOD_NAME = "tensorflow/serving/predict"
PREDICT_OUTPUTS = "outputs"
REGRESS_INPUTS = "inputs"
REGRESS_METHOD_NAME = "tensorflow/serving/regress"
REGRESS_OUTPUTS = "outputs"

GPU = "gpu"
SERVING = "serve"
TPU = "tpu"
TRAINING = "train"

# Signatures that are none of the model's own: the operations that prepare a session for it.
INIT_OP_SIGNATURE_KEY = "__saved_model_init_op"
TRAIN_OP_SIGNATURE_KEY = "__saved_model_train_op"

_ONLY_V1 = frozenset({"LEGACY_INIT_OP_KEY", "MAIN_OP_KEY"})
_SIGNATURES = ("CLASSIFY_", "DEFAULT_", "PREDICT_", "REGRESS_")
_TAGS = frozenset({"GPU", "SERVING", "TPU", "TRAINING"})


def _export(constants: dict[str, Any]) -> None:
    for name, value in constants.items():
        if not name.isupper() or name.startswith("_") or name.endswith("OP_SIGNATURE_KEY"):
            continue
        if name in _TAGS:
            group = "tag_constants"
        else:
            group = "signature_constants" if name.startswith(_SIGNATURES) else "constants"
        export_value(f"saved_model.{name}", value)
        export_value(f"saved_model.{group}.{name}", value)
        if name not in _ONLY_V1:
            export_value_v2(f"saved_model.{name}", value)


_export(dict(globals()))
