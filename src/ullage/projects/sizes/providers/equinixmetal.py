"""Equinix Metal: GET /metal/v1/plans with a key, or the plans of a project where the Secret names one: it may have its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final
from urllib.parse import quote

from ullage.projects.sizes.catalogue import Flavour, Place
from ullage.projects.sizes.providers.contract import Credentials, collect
from ullage.projects.sizes.providers.web import web

ADDRESS: Final = "https://api.equinix.com"


class EquinixMetal:
    source = "GET /metal/v1/plans"

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address

    async def flavours(self, place: Place, credentials: Credentials) -> Mapping[str, Flavour]:
        return await collect("equinixmetal", self._pages(credentials))

    async def _pages(self, credentials: Credentials) -> AsyncGenerator[object, None]:
        project = credentials.get("projectID")
        path = f"projects/{quote(project, safe='')}/plans" if project else "plans"
        async with web() as calls:
            yield await calls.get(f"{self._address}/metal/v1/{path}", headers={"X-Auth-Token": credentials.needed("apiKey")})
