"""Records (tf.train.Example) from JSON.

Source: tensorflow/core/ops/parsing_ops.cc; https://protobuf.dev/programming-guides/json.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
from google.protobuf import json_format

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import same_as
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.wire import messages as pb
from tideflow.wire.errors import InvalidArgumentError
from tideflow.wire.fields import varint

_MASK = (1 << 64) - 1
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


def _field(number: int, content: bytes) -> bytes:
    """Return a field that holds bytes or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def _feature(feature: pb.Feature) -> bytes:
    """Return a feature with a field for each of its values, as TensorFlow writes them."""
    kind = feature.WhichOneof("kind")
    if kind is None:
        return b""
    values = getattr(feature, kind).value
    if kind == "bytes_list":
        return _field(1, b"".join(_field(1, value) for value in values))
    if kind == "float_list":
        return _field(2, b"".join(b"\x0d" + struct.pack("<f", value) for value in values))
    return _field(3, b"".join(b"\x08" + varint(value & _MASK) for value in values))


def _example(text: bytes) -> bytes:
    """Return a record, its features in the order in which they come.

    Raises: InvalidArgumentError for text that is no JSON of a record.
    """
    try:
        given = json_format.Parse(text, pb.Example())
        # A message forgets the order of a map.
        plain = json.loads(text)
    except (json_format.ParseError, ValueError) as error:
        raise InvalidArgumentError(f"Error while parsing JSON: {error}") from None
    if not given.HasField("features"):
        return b""
    features = given.features.feature
    names = (plain["features"] or {}).get("feature") or {}
    _check_base64(names.values())
    entries = (
        _field(1, _field(1, name.encode()) + _field(2, _feature(features[name]))) for name in names
    )
    return _field(1, b"".join(entries))


def _check_base64(features: Iterable[Any]) -> None:
    """Require text of base64 for bytes: the parser takes no notice of other characters."""
    for feature in features:
        values = (feature.get("bytesList") or feature.get("bytes_list") or {}).get("value") or ()
        for value in values:
            if not _BASE64.fullmatch(value):
                raise InvalidArgumentError(f"Error while parsing JSON: {value!r} is no base64")


@op("DecodeJSONExample(json_examples: string) -> binary_examples: string", shape=same_as())
def decode_json_example_kernel(ctx: KernelContext, json_examples: Array | bytes) -> Any:
    """Return records, serialized, of their JSON.  Raises: InvalidArgumentError for other text."""
    if not np.ndim(json_examples):
        return _example(np.asarray(json_examples, object).item())
    given = np.asarray(json_examples, object)
    made = np.empty(given.size, object)
    made[:] = [_example(text) for text in given.reshape(-1).tolist()]
    return made.reshape(given.shape)


not_differentiable("DecodeJSONExample")


@export("io.decode_json_example", "decode_json_example")
def decode_json_example(json_examples: TensorLike, name: str | None = None) -> Tensor:
    """Return serialized tf.train.Examples of their JSON, in the shape of the strings given.

    Raises: InvalidArgumentError, when run, for text that is no JSON of a record.
    Example:
      >>> text = '{"features": {"feature": {"a": {"int64List": {"value": [3]}}}}}'
      >>> read = tf.Session().run(tf.io.decode_json_example(text))
      >>> record = tf.train.Example.FromString(read)
      >>> list(record.features.feature["a"].int64_list.value)
      [3]
    """
    made: Tensor = apply_op("DecodeJSONExample", json_examples, name=name)
    return made
