"""Azure: the resource SKUs of a location, with a token that a client's secret is traded for.

The list of SKUs knows sizes that have fewer vCPUs than the hardware they are sold with; the older list of VM sizes does not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from ullage.projects.sizes.catalogue import Flavour, Place
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered, collect, text_inside
from ullage.projects.sizes.providers.web import Web, bearer, same_origin, web

VERSION: Final = "2021-07-01"


@dataclass(frozen=True, slots=True)
class AzureAddresses:
    login: str = "https://login.microsoftonline.com"
    management: str = "https://management.azure.com"


class Azure:
    source = f"Microsoft.Compute/skus {VERSION}"

    def __init__(self, addresses: AzureAddresses | None = None) -> None:
        self._addresses = addresses or AzureAddresses()

    async def flavours(self, place: Place, credentials: Credentials) -> Mapping[str, Flavour]:
        return await collect("azure", self._pages(place.region, credentials))

    async def _pages(self, location: str, credentials: Credentials) -> AsyncGenerator[object, None]:
        if not location.isalnum():
            raise NotAnswered("a location in small letters and digits, such as westeurope, is needed")
        root = self._addresses.management
        subscription = quote(credentials.needed("subscriptionID"), safe="")
        next_page = f"{root}/subscriptions/{subscription}/providers/Microsoft.Compute/skus"
        query = {"api-version": VERSION, "$filter": f"location eq '{location}'"}
        async with web() as calls:
            headers = bearer(await self.token(calls, credentials))
            while next_page:
                if not same_origin(next_page, root):
                    raise NotAnswered("it names another host for its next page")
                page = await calls.get(next_page, headers=headers, query=query)
                yield page
                next_page, query = text_inside(page, "nextLink"), {}

    async def token(self, calls: Web, credentials: Credentials) -> str:
        tenant = quote(credentials.needed("tenantID"), safe="")
        form = {
            "grant_type": "client_credentials",
            "client_id": credentials.needed("clientID"),
            "client_secret": credentials.needed("clientSecret"),
            "scope": "https://management.azure.com/.default",
        }
        answer = await calls.post(f"{self._addresses.login}/{tenant}/oauth2/v2.0/token", form=form)
        token = text_inside(answer.body, "access_token")
        if not token:
            raise NotAnswered("its login answered without a token")
        return token
