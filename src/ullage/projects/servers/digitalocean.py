"""DigitalOcean: GET /v2/droplets with a token, in pages of 200. machine-controller tags a droplet with its Machine's uid."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable

from ullage.projects.servers.contract import found_in, listed, texts
from ullage.projects.sizes.lookups import ANYWHERE, Site
from ullage.projects.sizes.providers.contract import Credentials, inside
from ullage.projects.sizes.providers.digitalocean import ADDRESS
from ullage.projects.sizes.providers.web import bearer, web


class DigitalOceanServers:
    source = "GET /v2/droplets"

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address

    async def present(self, uids: Collection[str], credentials: Credentials, *, site: Site = ANYWHERE) -> frozenset[str]:
        return await found_in(uids, self._marks(credentials.needed("token")))

    async def _marks(self, token: str) -> AsyncGenerator[Iterable[str], None]:
        number: int | None = 1
        async with web() as calls:
            while number is not None:
                query = {"per_page": "200", "page": str(number)}
                page = await calls.get(f"{self._address}/v2/droplets", headers=bearer(token), query=query)
                yield [tag for one in listed(page, "droplets") for tag in texts(inside(one, "tags"))]
                number = number + 1 if inside(page, "links", "pages", "next") else None
