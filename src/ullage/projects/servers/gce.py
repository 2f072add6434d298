"""Google: instances of all zones of a project that have the label `machine_uid`, which machine-controller gives to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Final
from urllib.parse import quote

from ullage.clock import Clock
from ullage.projects.servers.contract import found_in, part, value_of
from ullage.projects.sizes.lookups import ANYWHERE, Site
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered, inside, text_inside
from ullage.projects.sizes.providers.gce import Google, GoogleAddresses, ServiceAccountKey
from ullage.projects.sizes.providers.web import bearer, web

LABEL: Final = "machine_uid"


class GoogleServers:
    source = "instances.aggregatedList"

    def __init__(self, addresses: GoogleAddresses | None = None, *, clock: Clock | None = None) -> None:
        self._addresses = addresses or GoogleAddresses()
        self._login = Google(self._addresses, clock=clock)

    async def present(self, uids: Collection[str], credentials: Credentials, *, site: Site = ANYWHERE) -> frozenset[str]:
        return await found_in(uids, self._marks(ServiceAccountKey(credentials.needed("serviceAccount"))))

    async def _marks(self, key: ServiceAccountKey) -> AsyncGenerator[Iterable[str], None]:
        url = f"{self._addresses.compute}/compute/v1/projects/{quote(key.project, safe=':')}/aggregated/instances"
        asked = {"maxResults": "500", "filter": f"labels.{LABEL}:*"}
        query: dict[str, str] | None = asked
        async with web() as calls:
            headers = bearer(await self._login.token(calls, key))
            while query is not None:
                page = await calls.get(url, headers=headers, query=query)
                if inside(page, "kind") != "compute#instanceAggregatedList" or inside(page, "unreachables"):
                    raise NotAnswered("its answer is not about all zones")
                yield [uid for zone in part(page, "items").values() for one in _instances(zone) for uid in _uids(one)]
                token = text_inside(page, "nextPageToken")
                query = {**asked, "pageToken": token} if token else None


def _instances(zone: object) -> list[object]:
    """A zone without any has a warning in their place."""
    found = inside(zone, "instances")
    return found if isinstance(found, list) else []


def _uids(instance: object) -> Iterable[str]:
    return value_of(instance, "labels", LABEL)
