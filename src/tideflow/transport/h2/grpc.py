"""gRPC over HTTP/2 without I/O: what goes into header blocks and bodies, and what comes out.

A call is a POST to `/service/method`; its bodies are messages, each behind five bytes (compressed
or not, length); its status comes in trailers, or in the only header block when there is no answer.
Source: gRPC over HTTP/2 (PROTOCOL-HTTP2.md of gRPC)
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote

from tideflow.transport.h2.faults import ErrorCode, name_of
from tideflow.transport.h2.header_blocks import Headers, Pairs, encode_block
from tideflow.wire import errors, status

Metadata = tuple[tuple[str, str | bytes], ...]

USER_AGENT = b"grpc-python-tideflow/1"
CONTENT_TYPE = b"application/grpc"
ACCEPTED_ENCODINGS = b"identity,deflate,gzip"
_ENCODINGS = ("identity", "deflate", "gzip")

# Clients may refuse trailers beyond 8 KiB, and would then not see the error at all.
_MOST_ENCODED_TEXT_BYTES = 6144
_SENT_AS_THEY_ARE = "".join(chr(c) for c in range(0x20, 0x7F) if chr(c) != "%")

_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_UNIT_S = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MOST_TIMEOUT = 99_999_999

RESPONSE_HEAD = encode_block(
    [
        (b":status", b"200"),
        (b"content-type", CONTENT_TYPE),
        (b"grpc-accept-encoding", ACCEPTED_ENCODINGS),
    ]
)
OK_TRAILERS = encode_block([(b"grpc-status", b"0")])

# What an HTTP status means when the peer does not say it in gRPC's way.
_CODE_OF_HTTP = {
    b"400": errors.INTERNAL,
    b"401": errors.UNAUTHENTICATED,
    b"403": errors.PERMISSION_DENIED,
    b"404": errors.UNIMPLEMENTED,
    b"429": errors.UNAVAILABLE,
    b"502": errors.UNAVAILABLE,
    b"503": errors.UNAVAILABLE,
    b"504": errors.UNAVAILABLE,
}
_CODE_OF_RESET = {
    ErrorCode.REFUSED_STREAM: errors.UNAVAILABLE,
    ErrorCode.CANCEL: errors.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: errors.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: errors.PERMISSION_DENIED,
}
_OWN_FIELDS = frozenset(
    {
        b"content-type", b"te", b"user-agent", b"grpc-timeout", b"grpc-encoding",
        b"grpc-accept-encoding", b"accept-encoding", b"grpc-status", b"grpc-message",
    }
)  # fmt: skip


# ---- requests


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What the first header block of a call says.

    Attributes:
      path: `/service/method`.
      timeout_s: how long the caller waits, or None.
      encoding: how messages marked as compressed are compressed.
      http_status: the refusal of what is no gRPC call, or b"".
      fault: the refusal of what is one, but wrong.
    """

    path: str
    timeout_s: float | None
    encoding: str
    http_status: bytes = b""
    fault: errors.OpError | None = None


def read_request(headers: Headers) -> RequestHead:
    """Return what a request's headers say to a server; the same Headers are read only once."""
    found: RequestHead | None = headers.meaning
    if found is None:
        like = headers.like
        if like is not None and like.pairs[-1][0] not in _OWN_FIELDS:
            # Only a value of the application's differs.
            found = read_request(like)
        else:
            found = _read_request(headers.pairs)
        headers.meaning = found
    return found


def _read_request(pairs: Pairs) -> RequestHead:
    fields = dict(pairs)
    path = fields.get(b":path", b"").decode("latin-1")
    encoding = fields.get(b"grpc-encoding", b"identity").decode("latin-1")
    timeout_s: float | None = None
    http_status = b""
    fault: errors.OpError | None = None
    if fields.get(b":method") != b"POST":
        http_status = b"405"
    elif not fields.get(b"content-type", b"").startswith(CONTENT_TYPE):
        http_status = b"415"
    elif encoding not in _ENCODINGS:
        fault = errors.UnimplementedError(
            f"{path} came with grpc-encoding {encoding!r}; known here: {', '.join(_ENCODINGS)}"
        )
    elif b"grpc-timeout" in fields:
        timeout = _TIMEOUT.fullmatch(fields[b"grpc-timeout"])
        if timeout is None:
            fault = errors.InternalError(
                f"{path} came with grpc-timeout {fields[b'grpc-timeout']!r}; it has up to eight"
                " digits and one of H M S m u n"
            )
        else:
            timeout_s = int(timeout[1]) * _UNIT_S[timeout[2]]
    return RequestHead(path, timeout_s, encoding, http_status, fault)


@functools.lru_cache(maxsize=1024)
def request_block(path: str, authority: str, timeout: bytes, *, is_secure: bool) -> bytes:
    """Return the header block of a call without metadata of its own; timeout as `encode_timeout`
    writes it, or b""."""
    pairs = [
        (b":method", b"POST"),
        (b":scheme", b"https" if is_secure else b"http"),
        (b":path", path.encode()),
        (b":authority", authority.encode()),
        (b"te", b"trailers"),
        (b"content-type", CONTENT_TYPE),
        (b"user-agent", USER_AGENT),
        (b"grpc-accept-encoding", ACCEPTED_ENCODINGS),
    ]
    if timeout:
        pairs.append((b"grpc-timeout", timeout))
    return encode_block(pairs)


def encode_timeout(timeout_s: float) -> bytes:
    """Return a timeout in the finest unit of at most eight digits that it needs, rounded up."""
    for unit, unit_s in ((b"u", 1e-6), (b"m", 1e-3), (b"S", 1.0), (b"M", 60.0), (b"H", 3600.0)):
        count = max(1, -int(-timeout_s // unit_s)) if timeout_s > 0 else 1
        if unit == b"u" and timeout_s >= 0.01:
            continue
        if count <= _MOST_TIMEOUT:
            return b"%d%s" % (count, unit)
    return b"%dH" % _MOST_TIMEOUT


# ---- metadata


def read_metadata(pairs: Pairs) -> Metadata:
    """Return the fields that are the application's; values of names in -bin are bytes."""
    return tuple(
        (name.decode("latin-1"), _read_value(name, value))
        for name, value in pairs
        if name[:1] != b":" and name not in _OWN_FIELDS
    )


def _read_value(name: bytes, value: bytes) -> str | bytes:
    if not name.endswith(b"-bin"):
        return value.decode("latin-1")
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return b""


def metadata_pairs(metadata: Iterable[tuple[str, str | bytes]]) -> list[tuple[bytes, bytes]]:
    """Return metadata as header fields.

    Raises: InvalidArgumentError for names or values that headers cannot carry.
    """
    made = []
    for name, value in metadata:
        key = name.lower().encode()
        if not re.fullmatch(rb"[0-9a-z_.-]+", key) or key in _OWN_FIELDS:
            raise errors.InvalidArgumentError(f"metadata cannot be named {name!r}")
        data = value if isinstance(value, bytes) else value.encode()
        if key.endswith(b"-bin"):
            data = base64.b64encode(data).rstrip(b"=")
        elif re.search(rb"[^\x20-\x7e]", data):
            raise errors.InvalidArgumentError(
                f"metadata {name!r} has {value!r}: only names in -bin carry more than plain ASCII"
            )
        made.append((key, data))
    return made


# ---- statuses


def fit_header(text: str) -> str:
    """Cut a text that gets too long for a header where all but plain ASCII takes three bytes."""
    encoded = quote(text, safe=_SENT_AS_THEY_ARE)
    if len(encoded) <= _MOST_ENCODED_TEXT_BYTES:
        return text
    kept = re.sub("%.?$", "", encoded[:_MOST_ENCODED_TEXT_BYTES])
    return unquote(kept, errors="ignore") + " ... [cut]"


def error_fields(error: errors.OpError) -> list[tuple[bytes, bytes]]:
    """Return the trailer fields of a failed call."""
    code = error.error_code if error.error_code in errors.CODE_NAMES else errors.UNKNOWN
    # Lone surrogates, from a file name say, have no UTF-8.
    text = error.message.encode(errors="replace").decode()
    text = fit_header(status.trailer_text(text))
    fields = [(b"grpc-status", b"%d" % (code or errors.UNKNOWN))]
    if text:
        fields.append((b"grpc-message", quote(text, safe=_SENT_AS_THEY_ARE).encode()))
    return fields + metadata_pairs(status.to_trailers(error))


def error_trailers(error: errors.OpError) -> bytes:
    """Return the trailers of a call that fails after it began to answer."""
    return encode_block(error_fields(error))


def error_head(error: errors.OpError) -> bytes:
    """Return the only header block of a call that fails without an answer."""
    head = [
        (b":status", b"200"),
        (b"content-type", CONTENT_TYPE),
        # For who asked in an encoding that we do not know.
        (b"grpc-accept-encoding", ACCEPTED_ENCODINGS),
    ]
    return encode_block(head + error_fields(error))


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What a header block of an answer says.

    Attributes:
      code: the status code, or None when the block has none.
      text: what the peer says about it.
      metadata: the application's fields.
      encoding: how messages marked as compressed are compressed.
    """

    code: int | None
    text: str
    metadata: Metadata
    encoding: str


def read_response(headers: Headers, *, is_first: bool, is_last: bool) -> ResponseHead:
    """Return what an answer's headers or trailers say; the same Headers are read only once.

    An answer that is not gRPC's gets the code for its HTTP status.
    """
    # One block always has the same place, but for a peer that is out of its mind.
    key = (is_first, is_last)
    if headers.meaning is None or headers.meaning[0] != key:
        headers.meaning = (key, _read_response(headers.pairs, is_first, is_last))
    found: ResponseHead = headers.meaning[1]
    return found


def _read_response(pairs: Pairs, is_first: bool, is_last: bool) -> ResponseHead:
    fields = dict(pairs)
    code, text = None, ""
    http_status = fields.get(b":status", b"")
    content_type = fields.get(b"content-type", b"")
    if b"grpc-status" in fields and is_last:
        number = fields[b"grpc-status"]
        code = int(number) if number.isdigit() and len(number) < 6 else errors.UNKNOWN
        text = unquote(fields.get(b"grpc-message", b"").decode("latin-1"), errors="replace")
    elif is_first and http_status != b"200":
        code = _CODE_OF_HTTP.get(http_status, errors.UNKNOWN)
        text = f"answered with HTTP status {http_status.decode('latin-1') or 'missing'}"
    elif is_first and not content_type.startswith(CONTENT_TYPE):
        code = errors.UNKNOWN
        text = f"answered with content-type {content_type.decode('latin-1')!r}, not gRPC's"
    elif is_last:
        code, text = errors.INTERNAL, "ended the call without a grpc-status"
    encoding = fields.get(b"grpc-encoding", b"identity").decode("latin-1")
    return ResponseHead(code, text, read_metadata(pairs), encoding)


def code_of_reset(code: int) -> int:
    """Return the status code for a stream that the peer reset."""
    try:
        return _CODE_OF_RESET.get(ErrorCode(code), errors.INTERNAL)
    except ValueError:
        return errors.INTERNAL


def text_of_reset(code: int) -> str:
    """Return how to say that the peer reset a stream."""
    return f"the call was reset with {name_of(code)}"
