"""TLS contexts for talking to an API server: whom we trust there, and the certificate that we show."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator

from ullage.kube.client.kubeconfig import BadConfig


def client_context(*, ca: bytes = b"", insecure: bool = False, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
    """A context that trusts `ca` alone, or this machine's authorities where none is given."""
    try:
        context = ssl.create_default_context(cadata=ca.decode() if ca else None)
    except (ssl.SSLError, ValueError):
        raise BadConfig("cluster", "certificate-authority", "this holds no PEM certificate") from None
    # Clusters' own authorities are often made without the extensions that newer Pythons demand by default; and, as with Go,
    # an intermediate that was handed to us as an authority is one.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        _show(context, certificate, key)
    return context


def _show(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with _file_of(certificate + b"\n" + key) as path:
        try:
            context.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError):
            problem = "these are not a PEM certificate and the unencrypted key that belongs to it"
            raise BadConfig("user", "client-certificate, client-key", problem) from None


def _no_password() -> str:
    raise ValueError("the key is encrypted")  # without this, OpenSSL would ask whoever sits at the terminal


@contextlib.contextmanager
def _file_of(data: bytes) -> Iterator[str]:
    """OpenSSL reads keys from files only. Where the system has files in memory, the key touches no disk."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("client-key"), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile() as named:
        named.write(data)
        named.flush()
        yield named.name
