"""Certificates of a test's own authority, as contexts for both ends and as files for grpcio."""

from __future__ import annotations

import functools
import ssl
from dataclasses import dataclass

import trustme


@dataclass(frozen=True)
class Certificates:
    """An authority, and a certificate by it for this machine."""

    authority: trustme.CA
    own: trustme.LeafCert

    def server_context(self, *, asks_clients: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.own.configure_cert(context)
        if asks_clients:
            self.authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self, *, shows_own: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.authority.configure_trust(context)
        if shows_own:
            self.own.configure_cert(context)
        return context

    @property
    def authority_pem(self) -> bytes:
        return self.authority.cert_pem.bytes()

    @property
    def own_pems(self) -> tuple[bytes, bytes]:
        """The private key and the chain, in the order in which grpcio takes them."""
        chain = b"".join(blob.bytes() for blob in self.own.cert_chain_pems)
        return self.own.private_key_pem.bytes(), chain


def make_certificates() -> Certificates:
    authority = trustme.CA()
    return Certificates(authority, authority.issue_cert("127.0.0.1", "localhost"))


@functools.cache
def certificates() -> Certificates:
    """The authority that tests share; making one takes a while."""
    return make_certificates()
