"""What certificates say of who holds them.

A task's certificate names it in a URI, `tideflow://worker/1`; `tideflow://client` is one for
clients, and `tideflow://reader` one for who may look and not touch.  SPIFFE's names say the same
behind their domain: `spiffe://example.org/tideflow/worker/1`.  Whoever has a certificate of a
trusted authority without such a name is a client.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from tideflow.transport.identity import Identity, Kind
from tideflow.wire import errors
from tideflow.wire.device_name import parse_device_name

Certificate = Mapping[str, Any]

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
# Tags of DER.
_VERSION, _UTC_TIME = 0xA0, 0x17

_ROLES = {"client": Kind.CLIENT, "reader": Kind.READER}
# The job of which an eager client is a task where it names no other.
_CLIENTS_JOB = "localhost"


def identity_in(certificate: Certificate, host: str = "") -> Identity:
    """Return whom a verified certificate is for.

    certificate: as ssl.SSLObject.getpeercert gives it.  host: the holder's address.
    """
    names = certificate.get("subjectAltName", ())
    for kind, uri in names:
        words = _words_of(uri) if kind == "URI" else ()
        if len(words) == 2 and words[1].isdecimal():
            return Identity(Kind.TASK, f"{words[0]}:{int(words[1])}", host)
        if len(words) == 1 and words[0] in _ROLES:
            return Identity(_ROLES[words[0]], f"a {words[0]} with a certificate", host)
    known = next((value for kind, value in names if kind in ("URI", "DNS")), "")
    return Identity(Kind.CLIENT, f"a client with a certificate for {known or 'nobody'}", host)


def _words_of(uri: str) -> list[str]:
    parts = urlsplit(uri)
    words = [unquote(word) for word in parts.path.split("/") if word]
    if parts.scheme == "tideflow":
        return [parts.netloc, *words]
    if parts.scheme == "spiffe" and words[:1] == ["tideflow"]:
        return words[1:]
    return []


def uri_of_task(job: str, index: int) -> str:
    """Return the name of a task in its certificate."""
    return f"tideflow://{job}/{index}"


def holder_of(peer: str | None) -> str:
    """Return the task that a peer's name names, `worker:1` for /job:worker/task:1; "" for none."""
    try:
        spec = parse_device_name(peer or "")
    except errors.InvalidArgumentError:
        return ""
    return "" if spec.job is None or spec.task is None else f"{spec.job}:{spec.task}"


def fault_in(certificate: Certificate, expected: str) -> str:
    """Return what is wrong with a server's certificate; "" if nothing is.

    expected: the task that was called, `worker:1`; "" where any will do.
    """
    found = identity_in(certificate)
    if not expected or found.name == expected:
        return ""
    if found.kind is Kind.TASK:
        return f"{expected} presented a certificate for {found.name}"
    is_eager_client = expected.startswith(f"{_CLIENTS_JOB}:")
    if found.kind is Kind.CLIENT and is_eager_client:
        return ""
    return f"{expected} presented a certificate for {found}, which names no task"


def pem_ends_at_s(pem: str) -> float:
    """Return when the first certificate of a PEM runs out, in seconds since 1970.

    Source: RFC 5280, section 4.1.  Raises: ValueError for what is no certificate.
    """
    first = pem[pem.index(_BEGIN) : pem.index(_END) + len(_END)]
    try:
        signed = _parts(_parts(ssl.PEM_cert_to_DER_cert(first))[0][1])[0][1]
        fields = _parts(signed)
        # The version may be left out; then come number, algorithm, issuer and validity.
        _, validity = fields[4 if fields[0][0] == _VERSION else 3]
        tag, until = _parts(validity)[1]
    except IndexError:
        raise ValueError("no certificate of X.509") from None
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(until.decode(), form).replace(tzinfo=UTC).timestamp()


def _parts(data: bytes) -> list[tuple[int, bytes]]:
    """Return tags and contents of the DER values that follow one another in data."""
    found = []
    while data:
        tag, length, start = data[0], data[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(data[2:start])
        found.append((tag, data[start : start + length]))
        data = data[start + length :]
    return found


def ends_at_s(certificate: Certificate) -> float:
    """Return when a certificate runs out, in seconds since 1970."""
    return float(ssl.cert_time_to_seconds(certificate["notAfter"]))
