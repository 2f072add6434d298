"""Equinix Metal: GET /metal/v1/projects/{id}/devices with a key, in pages of 100. machine-controller gives a device a tag that
ends in its Machine's uid."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Final
from urllib.parse import quote

from ullage.projects.servers.contract import found_in, listed, texts
from ullage.projects.sizes.lookups import ANYWHERE, Site
from ullage.projects.sizes.providers.contract import Credentials, inside
from ullage.projects.sizes.providers.equinixmetal import ADDRESS
from ullage.projects.sizes.providers.web import web

TAG: Final = "kubermatic-machine-controller:machine-uid:"


class EquinixMetalServers:
    source = "GET /metal/v1/projects/{id}/devices"

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address

    async def present(self, uids: Collection[str], credentials: Credentials, *, site: Site = ANYWHERE) -> frozenset[str]:
        return await found_in(uids, self._marks(credentials))

    async def _marks(self, credentials: Credentials) -> AsyncGenerator[Iterable[str], None]:
        url = f"{self._address}/metal/v1/projects/{quote(credentials.needed('projectID'), safe='')}/devices"
        headers, number, last = {"X-Auth-Token": credentials.needed("apiKey")}, 1, 1
        async with web() as calls:
            while number <= last:
                page = await calls.get(url, headers=headers, query={"per_page": "100", "page": str(number)})
                tags = [tag for one in listed(page, "devices") for tag in texts(inside(one, "tags"))]
                yield [tag.removeprefix(TAG) for tag in tags if tag.startswith(TAG)]
                found = inside(page, "meta", "last_page")
                number, last = number + 1, found if isinstance(found, int) else number
