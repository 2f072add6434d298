"""Tells an application whose certificate a client has shown: the names stand in the scope of each request.

A server asks for certificates where it is given authorities to believe. A client that shows none is served all the same,
without a name; one that shows a certificate of another authority does not get past the handshake.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

from ullage.errors import BadInput
from ullage.http1 import BoundedProtocol

CLIENT_NAMES: Final = "ullage.client_names"  # in the scope


class NamingProtocol(BoundedProtocol):
    """One connection, whose client may have shown a certificate."""

    _names: frozenset[str] = frozenset()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._names = names_of(transport.get_extra_info("peercert") or {})
        super().connection_made(transport)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CLIENT_NAMES] = self._names  # type: ignore[typeddict-unknown-key]


def ask_for_certificates(context: ssl.SSLContext, authorities: str) -> None:
    """Asks clients for a certificate of these authorities, PEM. Raises BadInput where there is none to read."""
    try:
        context.load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError) as error:
        raise BadInput("authorities of clients", "as given", f"no certificate can be read: {error}") from error
    context.verify_mode = ssl.CERT_OPTIONAL


def names_of(certificate: Mapping[str, Any]) -> frozenset[str]:
    """The common name and the DNS names of a certificate, as Python's ssl tells of it."""
    common = {value for parts in certificate.get("subject", ()) for kind, value in parts if kind == "commonName"}
    return frozenset(common | {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"})
