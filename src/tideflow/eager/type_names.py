"""Element types of few bits, and the quantised ones, by their public names."""

from __future__ import annotations

from tideflow.ops.export import export_value
from tideflow.wire import dtypes

for _name in (
    *("int2", "int4", "uint2", "uint4", "float4_e2m1fn", "float8_e4m3b11fnuz"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
):
    export_value(f"dtypes.experimental.{_name}", dtypes.as_dtype(_name))

_QUANTIZED = (dtypes.qint8, dtypes.quint8, dtypes.qint16, dtypes.quint16, dtypes.qint32)
# Their references count, too.
for _name in ("QUANTIZED_DTYPES", "dtypes.QUANTIZED_DTYPES"):
    export_value(_name, frozenset({*_QUANTIZED, *(one.as_ref for one in _QUANTIZED)}))
