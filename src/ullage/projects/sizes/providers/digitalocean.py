"""DigitalOcean: GET /v2/sizes with a token, in pages of 200. Sizes are the same in all regions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final

from ullage.projects.sizes.catalogue import Flavour, Place
from ullage.projects.sizes.providers.contract import Credentials, collect, inside
from ullage.projects.sizes.providers.web import bearer, web

ADDRESS: Final = "https://api.digitalocean.com"


class DigitalOcean:
    source = "GET /v2/sizes"

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address

    async def flavours(self, place: Place, credentials: Credentials) -> Mapping[str, Flavour]:
        return await collect("digitalocean", self._pages(credentials.needed("token")))

    async def _pages(self, token: str) -> AsyncGenerator[object, None]:
        number: int | None = 1
        async with web() as calls:
            while number is not None:
                query = {"per_page": "200", "page": str(number)}
                page = await calls.get(f"{self._address}/v2/sizes", headers=bearer(token), query=query)
                yield page
                # The number, not the address that it names: that is for the same host in any case.
                number = number + 1 if inside(page, "links", "pages", "next") else None
