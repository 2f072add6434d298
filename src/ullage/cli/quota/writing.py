"""How `ullage quota` writes: for good, or as a dry run."""

from __future__ import annotations

from typing import Any

from ullage.kube.client.client import Client
from ullage.kube.kinds import Kind


class LimitClient:
    """A client whose writes are a dry run where that was asked for."""

    def __init__(self, client: Client, *, dry_run: bool) -> None:
        self._client = client
        self._dry_run = dry_run

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        return await self._client.find(kind, name, namespace)

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        return await self._client.get(kind, name, namespace)

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        return await self._client.create(kind, obj, dry_run=self._dry_run)

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        return await self._client.patch(kind, name, namespace, dry_run=self._dry_run, **given)

    async def list(self, kind: Kind[Any], namespace: str = "") -> Any:
        return await self._client.list(kind, namespace)

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> None:
        await self._client.delete(kind, name, namespace, dry_run=self._dry_run, **given)
