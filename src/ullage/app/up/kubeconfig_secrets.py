"""Kubeconfigs of other control planes on this machine, as Secrets of this one: of the seeds on the master, of user clusters on
their seed. A file that changes, since a control plane came back on another port or its token was renewed, is written again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ullage.errors import UllageError
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists
from ullage.kube.kinds import Meta

logger = logging.getLogger(__name__)

KEY: Final = "kubeconfig"
LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class KubeconfigSecret:
    """A Secret, and the file that it follows."""

    namespace: str
    name: str
    file: Path


class KubeconfigSecrets:
    def __init__(self, client: Client, wanted: Sequence[KubeconfigSecret]) -> None:
        self._client = client
        self._wanted = wanted
        self._written: dict[KubeconfigSecret, bytes] = {}

    async def keep(self) -> None:
        """For ever. A file that is not there yet is waited for."""
        while True:
            for one in self._wanted:
                await self._look(one)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, one: KubeconfigSecret) -> None:
        try:
            content = one.file.read_bytes() if one.file.exists() else b""
            if content and content != self._written.get(one):
                await self._write(one, content)
                self._written[one] = content
        except (UllageError, OSError) as error:  # the API server is away: there is time to try again
            logger.warning(
                "a kubeconfig was not handed on", extra={"secret": f"{one.namespace}/{one.name}", "error": str(error)}
            )

    async def _write(self, one: KubeconfigSecret, content: bytes) -> None:
        """Nothing is written where it is there already: who reads it would make all its connections anew."""
        wanted = secret_data({KEY: content})
        found = await self._client.find(SECRETS, one.name, one.namespace)
        if found is None:
            try:
                await self._client.create(SECRETS, Secret(metadata=Meta(name=one.name, namespace=one.namespace), data=wanted))
            except AlreadyExists:
                found = await self._client.get(SECRETS, one.name, one.namespace)
        if found is not None and found.data.get(KEY) != wanted[KEY]:
            await self._client.patch(SECRETS, one.name, one.namespace, merge={"data": dict(wanted)}, uid=found.metadata.uid)
