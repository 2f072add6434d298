"""Who our processes are on one machine: the service accounts of a cluster, with tokens that expire and are renewed.

The administrator's credentials stay with `ullage up`. Each process gets a kubeconfig of its own that names a token file; the
file is replaced long before the token expires, and clients read it again by themselves.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Sequence
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
    """A service account, and the files in which its process finds what it needs. `inline`: its kubeconfig has the token itself,
    since it is handed to somebody who has no files of ours."""

    account: str
    directory: Path
    inline: bool = False

    @property
    def kubeconfig(self) -> Path:
        return self.directory / f"{self.account}.kubeconfig"

    @property
    def token(self) -> Path:
        return self.directory / f"{self.account}.token"


class Identities:
    def __init__(
        self, client: Client, identities: Sequence[Identity], *, clock: Clock | None = None, lifetime: int = LIFETIME
    ) -> None:
        self._lifetime = lifetime  # of a token
        self._renew_after = lifetime * RENEW_AFTER / LIFETIME
        self._client = client
        self._identities = identities
        self._clock = clock or BootClock()
        self._renew_at = 0.0
        self._uids: dict[str, str] = {}  # of the accounts that the tokens are for
        self._gone: list[str] = []

    async def issue(self) -> None:
        """Writes a fresh token for each, and the kubeconfigs."""
        due = self._clock.monotonic() + self._renew_after
        for identity in self._identities:
            found = await self._client.get(SERVICE_ACCOUNTS, identity.account, NAMESPACE)
            token = await self._request(identity.account)
            self._uids[identity.account] = found.metadata.uid
            if not identity.inline:
                pki.write_private(identity.token, token.encode())
            pki.write_private(identity.kubeconfig, self._kubeconfig(identity, token))
        self._renew_at = due

    async def keep(self, tell: Callable[[str], None]) -> None:
        """Renews for ever. Tells when the accounts are gone, and with them what `ullage install` brought, and when they are
        back: tokens of an account that was deleted are good for nothing, also where another of its name is there."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                anew = await self._look(tell)
                if anew or self._clock.monotonic() >= self._renew_at:
                    await self.issue()
                if anew:
                    self._gone = []
                    tell("Ullage is installed again: its processes have new tokens")
            except (UllageError, OSError) as error:  # the API server is away, the disk is full: there is time to try again
                logger.warning("tokens were not renewed", extra={"error": str(error)})

    async def _look(self, tell: Callable[[str], None]) -> bool:
        """Whether the accounts are all there, and not those that the tokens are for."""
        found = {one.account: await self._client.find(SERVICE_ACCOUNTS, one.account, NAMESPACE) for one in self._identities}
        gone = [account for account, live in found.items() if live is None]
        if gone and not self._gone:
            tell(
                f"Ullage was uninstalled here: {NAMESPACE} has no serviceaccount {', '.join(gone)}. The API goes on; "
                "snapshots, limits and volumes do not. Start `ullage up` anew to install it again"
            )
        if gone:
            self._gone = gone
            self._renew_at = self._clock.monotonic() + self._renew_after  # there is nothing to renew
            return False
        uids = {account: live.metadata.uid for account, live in found.items() if live is not None}
        return bool(self._gone) or uids != self._uids

    async def _request(self, account: str) -> str:
        path = SERVICE_ACCOUNTS.path(NAMESPACE, account, "token")
        wanted = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": self._lifetime},
        }
        answer = await self._client.request("POST", path, body=msgspec.json.encode(wanted))
        return msgspec.json.decode(answer, type=_TokenRequest).status.token

    def _kubeconfig(self, identity: Identity, token: str) -> bytes:
        user = {"token": token} if identity.inline else {"tokenFile": identity.token.name}
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
                "users": [{"name": identity.account, "user": user}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": identity.account}}],
                "current-context": name,
            }
        )


class _Token(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _Token
