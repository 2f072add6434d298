"""Hetzner: GET /v1/servers with a token, by the label `machine-uid` that machine-controller gives to servers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Final

from ullage.projects.servers.contract import chunks, found_in, listed, value_of
from ullage.projects.sizes.lookups import ANYWHERE, Site
from ullage.projects.sizes.providers.contract import Credentials, inside
from ullage.projects.sizes.providers.hetzner import ADDRESS
from ullage.projects.sizes.providers.web import bearer, web

LABEL: Final = "machine-uid"


class HetznerServers:
    source = "GET /v1/servers"

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address

    async def present(self, uids: Collection[str], credentials: Credentials, *, site: Site = ANYWHERE) -> frozenset[str]:
        return await found_in(uids, self._marks(uids, credentials.needed("token")))

    async def _marks(self, uids: Collection[str], token: str) -> AsyncGenerator[Iterable[str], None]:
        async with web() as calls:
            for some in chunks(uids):
                number: object = 1
                while isinstance(number, int):
                    query = {"label_selector": f"{LABEL} in ({','.join(some)})", "per_page": "50", "page": str(number)}
                    page = await calls.get(f"{self._address}/v1/servers", headers=bearer(token), query=query)
                    yield [uid for one in listed(page, "servers") for uid in value_of(one, "labels", LABEL)]
                    number = inside(page, "meta", "pagination", "next_page")
