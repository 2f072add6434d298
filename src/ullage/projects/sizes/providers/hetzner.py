"""Hetzner: GET /v1/server_types with a token, in pages of 50. Server types are the same in all locations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final

from ullage.projects.sizes.catalogue import Flavour, Place
from ullage.projects.sizes.providers.contract import Credentials, collect, inside
from ullage.projects.sizes.providers.web import bearer, web

ADDRESS: Final = "https://api.hetzner.cloud"


class Hetzner:
    source = "GET /v1/server_types"

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address

    async def flavours(self, place: Place, credentials: Credentials) -> Mapping[str, Flavour]:
        return await collect("hetzner", self._pages(credentials.needed("token")))

    async def _pages(self, token: str) -> AsyncGenerator[object, None]:
        number: object = 1
        async with web() as calls:
            while isinstance(number, int):
                query = {"per_page": "50", "page": str(number)}
                page = await calls.get(f"{self._address}/v1/server_types", headers=bearer(token), query=query)
                yield page
                number = inside(page, "meta", "pagination", "next_page")
