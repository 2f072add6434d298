"""OpenStack: Nova's servers of a project in every region that Keystone names, by `machine-uid` in their metadata, which
machine-controller writes there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Final

from ullage.projects.servers.contract import found_in, listed, value_of
from ullage.projects.sizes.lookups import ANYWHERE, Site
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered, inside, text_inside
from ullage.projects.sizes.providers.openstack import compute_addresses, login
from ullage.projects.sizes.providers.web import Web, web

KEY: Final = "machine-uid"
_PAGE: Final = 500
_MOST_REGIONS: Final = 10


class OpenStackServers:
    source = "GET /servers/detail"

    async def present(self, uids: Collection[str], credentials: Credentials, *, site: Site = ANYWHERE) -> frozenset[str]:
        if not site.endpoint:
            raise NotAnswered("the cloud's address is needed: authURL of the datacenter")
        return await found_in(uids, self._marks(site.endpoint, credentials))

    async def _marks(self, endpoint: str, credentials: Credentials) -> AsyncGenerator[Iterable[str], None]:
        async with web() as calls:
            token, services = await login(calls, endpoint, credentials)
            addresses = sorted(compute_addresses(services))
            if not 1 <= len(addresses) <= _MOST_REGIONS:
                raise NotAnswered(
                    f"its Keystone names {len(addresses) or 'no'} compute services: 1 to {_MOST_REGIONS} are asked"
                )
            for address in addresses:
                async for page in _pages(calls, address, token):
                    yield [uid for one in listed(page, "servers") for uid in value_of(one, "metadata", KEY)]


async def _pages(calls: Web, address: str, token: str) -> AsyncGenerator[object, None]:
    marker = ""
    while True:
        query = {"limit": str(_PAGE), **({"marker": marker} if marker else {})}
        page = await calls.get(f"{address}/servers/detail", headers={"X-Auth-Token": token}, query=query)
        yield page
        # From the last one on, and not from the address that it names: proxies get that wrong.
        servers = listed(page, "servers")
        last = text_inside(servers[-1], "id") if servers else ""
        if not inside(page, "servers_links") or not last or last == marker:
            return
        marker = last
