"""Who our processes are on one machine: the service accounts of a cluster, with tokens that expire and are renewed.

The administrator's credentials stay with `ullage up`. Each process gets a kubeconfig of its own that names a token file; the
file is replaced long before the token expires, and clients read it again by themselves.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from ullage import pki
from ullage.app.installer.manifests import NAMESPACE
from ullage.clock import BootClock, Clock
from ullage.errors import UllageError
from ullage.kube.builtin.core import SERVICE_ACCOUNTS
from ullage.kube.client.client import Client

logger = logging.getLogger(__name__)

LIFETIME: Final = 3600  # seconds
RENEW_AFTER: Final = LIFETIME / 3  # two more tries' worth of time is left if one fails
LOOK_SECONDS: Final = 15.0  # a machine that slept past the expiry has new tokens this soon after it wakes


@dataclass(frozen=True, slots=True)
class Identity:
    """A service account, and the files in which its process finds what it needs."""

    account: str
    directory: Path

    @property
    def kubeconfig(self) -> Path:
        return self.directory / f"{self.account}.kubeconfig"

    @property
    def token(self) -> Path:
        return self.directory / f"{self.account}.token"


class Identities:
    def __init__(self, client: Client, identities: Sequence[Identity], *, clock: Clock | None = None) -> None:
        self._client = client
        self._identities = identities
        self._clock = clock or BootClock()
        self._renew_at = 0.0

    async def issue(self) -> None:
        """Writes a fresh token for each, and the kubeconfigs."""
        due = self._clock.monotonic() + RENEW_AFTER
        for identity in self._identities:
            token = await self._request(identity.account)
            pki.write_private(identity.token, token.encode())
            pki.write_private(identity.kubeconfig, self._kubeconfig(identity))
        self._renew_at = due

    async def keep(self) -> None:
        """Renews for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._clock.monotonic() < self._renew_at:
                continue
            try:
                await self.issue()
            except (UllageError, OSError) as error:  # the API server is away, the disk is full: there is time to try again
                logger.warning("tokens were not renewed", extra={"error": str(error)})

    async def _request(self, account: str) -> str:
        path = SERVICE_ACCOUNTS.path(NAMESPACE, account, "token")
        wanted = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": LIFETIME},
        }
        answer = await self._client.request("POST", path, body=msgspec.json.encode(wanted))
        return msgspec.json.decode(answer, type=_TokenRequest).status.token

    def _kubeconfig(self, identity: Identity) -> bytes:
        config = self._client.config
        cluster: dict[str, Any] = {"server": config.server}
        if config.ca:
            cluster["certificate-authority-data"] = base64.b64encode(config.ca).decode()
        name = "ullage"
        return msgspec.yaml.encode(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": name, "cluster": cluster}],
                "users": [{"name": identity.account, "user": {"tokenFile": identity.token.name}}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": identity.account}}],
                "current-context": name,
            }
        )


class _Token(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _Token
