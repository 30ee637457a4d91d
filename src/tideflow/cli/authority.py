"""Makes an authority and certificates by it, for `tideflow certs`.  Needs the extra tideflow[tls].

Source: RFC 5280
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tideflow.transport.credentials import AUTHORITIES, CERTIFICATE, KEY

AUTHORITY_KEY = "ca-key.pem"
_AUTHORITY_DAYS = 3650
# Clocks of a cluster may differ a little.
_EARLIER = timedelta(minutes=10)


@dataclass(frozen=True)
class Authority:
    """What signs certificates, and the PEM of all authorities that are to be trusted."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    trusted_pem: bytes


def open_authority(folder: Path, now: datetime, *, renew: bool) -> Authority:
    """Return the authority of a folder, made on first use.

    renew: make another one; the old ones stay trusted.
    Raises: OSError; ValueError for files that are none of ours.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key_file, trusted_file = folder / AUTHORITY_KEY, folder / AUTHORITIES
    if key_file.exists() and not renew:
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        trusted_pem = trusted_file.read_bytes()
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{key_file} holds another kind of key than `tideflow certs` makes")
        return Authority(x509.load_pem_x509_certificate(trusted_pem), key, trusted_pem)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _sign_authority(key, now)
    older = trusted_file.read_bytes() if trusted_file.exists() else b""
    trusted_pem = certificate.public_bytes(serialization.Encoding.PEM) + older
    write_private(key_file, _pem_of(key))
    write_public(trusted_file, trusted_pem)
    return Authority(certificate, key, trusted_pem)


def _sign_authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    # Each has a name of its own, or those who look for an issuer would take one for another.
    name = _name(f"tideflow authority {now:%Y-%m-%d %H:%M:%S}")
    public = key.public_key()
    usage = _usage(signs_certificates=True)
    return (
        x509.CertificateBuilder(name, name, public, x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=_AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def issue(
    authority: Authority,
    folder: Path,
    uri: str,
    hosts: Sequence[str],
    now: datetime,
    days: float,
) -> None:
    """Write a certificate, its key and the trusted authorities into a folder.

    uri: who it is for.  hosts: the names and addresses at which that is called.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    names = [x509.UniformResourceIdentifier(uri), *map(_host_name, dict.fromkeys(hosts))]
    certificate = (
        x509.CertificateBuilder(
            authority.certificate.subject, _name(uri), public, x509.random_serial_number()
        )
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / KEY, _pem_of(key))
    write_public(folder / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))
    write_public(folder / AUTHORITIES, authority.trusted_pem)


def now_utc(seconds: float) -> datetime:
    """Return a time, given in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def write_private(file: Path, data: bytes) -> None:
    """Write a file that only its owner reads; whoever reads it meanwhile gets the old one."""
    _write(file, data, 0o600)


def write_public(file: Path, data: bytes) -> None:
    """Write a file that anybody may read."""
    _write(file, data, 0o644)


def _write(file: Path, data: bytes, mode: int) -> None:
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    number = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(number, "wb") as out:
        out.write(data)
    fresh.replace(file)
