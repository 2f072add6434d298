"""Azure: the virtual machines of a subscription, by the tag `Machine-UID` that machine-controller gives to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Final
from urllib.parse import quote

from ullage.projects.servers.contract import found_in, listed, value_of
from ullage.projects.sizes.lookups import ANYWHERE, Site
from ullage.projects.sizes.providers.azure import VERSION, Azure, AzureAddresses
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered, text_inside
from ullage.projects.sizes.providers.web import bearer, same_origin, web

TAG: Final = "Machine-UID"


class AzureServers:
    source = f"Microsoft.Compute/virtualMachines {VERSION}"

    def __init__(self, addresses: AzureAddresses | None = None) -> None:
        self._addresses = addresses or AzureAddresses()

    async def present(self, uids: Collection[str], credentials: Credentials, *, site: Site = ANYWHERE) -> frozenset[str]:
        return await found_in(uids, self._marks(credentials))

    async def _marks(self, credentials: Credentials) -> AsyncGenerator[Iterable[str], None]:
        root = self._addresses.management
        subscription = quote(credentials.needed("subscriptionID"), safe="")
        next_page = f"{root}/subscriptions/{subscription}/providers/Microsoft.Compute/virtualMachines"
        query = {"api-version": VERSION}
        async with web() as calls:
            headers = bearer(await Azure(self._addresses).token(calls, credentials))
            while next_page:
                if not same_origin(next_page, root):
                    raise NotAnswered("it names another host for its next page")
                page = await calls.get(next_page, headers=headers, query=query)
                yield [uid for one in listed(page, "value") for uid in value_of(one, "tags", TAG)]
                next_page, query = text_inside(page, "nextLink"), {}
