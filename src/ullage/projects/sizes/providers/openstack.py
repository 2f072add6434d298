"""OpenStack: a token from Keystone (v3), the address of Nova from the catalogue that comes with it, and Nova's flavours.

Keystone's address is the datacenter's, which whoever calls has made sure of; Nova's is what that Keystone says.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from ullage.projects.sizes.catalogue import Flavour, Place
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered, collect, inside, text_inside
from ullage.projects.sizes.providers.web import Web, web

_PAGE: Final = 500
_MOST_SERVICES: Final = 500


class OpenStack:
    source = "GET /flavors/detail"

    async def flavours(self, place: Place, credentials: Credentials) -> Mapping[str, Flavour]:
        if not place.endpoint:
            raise NotAnswered("the cloud's address is needed: authURL of the datacenter")
        return await collect("openstack", self._pages(place, credentials))

    async def _pages(self, place: Place, credentials: Credentials) -> AsyncGenerator[object, None]:
        async with web() as calls:
            token, services = await login(calls, place.endpoint, credentials)
            address = f"{_compute(services, place.region)}/flavors/detail"
            marker = ""
            while True:
                query = {"limit": str(_PAGE), **({"marker": marker} if marker else {})}
                page = await calls.get(address, headers={"X-Auth-Token": token}, query=query)
                yield page
                # From the last one on, and not from the address that it names: proxies get that wrong.
                last = _last_id(page)
                if not inside(page, "flavors_links") or not last or last == marker:
                    return
                marker = last


async def login(calls: Web, endpoint: str, credentials: Credentials) -> tuple[str, object]:
    root = endpoint.rstrip("/")
    address = f"{root}/auth/tokens" if root.endswith("/v3") else f"{root}/v3/auth/tokens"
    answer = await calls.post(address, body={"auth": _auth(credentials)})
    token = answer.headers.get("X-Subject-Token", "")
    if not token:
        raise NotAnswered("its Keystone answered without a token")
    return token, inside(answer.body, "token", "catalog")


def _auth(credentials: Credentials) -> dict[str, Any]:
    """An application credential, or a token, or a user, in a project."""
    if identity := credentials.get("applicationCredentialID"):
        secret = {"id": identity, "secret": credentials.needed("applicationCredentialSecret")}
        return {"identity": {"methods": ["application_credential"], "application_credential": secret}}
    scope = _scope(credentials)
    if token := credentials.get("token"):
        return {"identity": {"methods": ["token"], "token": {"id": token}}, "scope": scope}
    user = {
        "name": credentials.needed("username"),
        "password": credentials.needed("password"),
        "domain": {"name": credentials.needed("domain")},
    }
    return {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}


def _scope(credentials: Credentials) -> dict[str, Any]:
    """KKP had other names for projects once."""
    if identity := credentials.get("projectID") or credentials.get("tenantID"):
        return {"project": {"id": identity}}
    name = credentials.get("project") or credentials.get("tenant") or credentials.needed("project")
    return {"project": {"name": name, "domain": {"name": credentials.needed("domain")}}}


def _compute(services: object, region: str) -> str:
    """Nova's public address in a region; in the only one there is, where none is said."""
    addresses = compute_addresses(services, region)
    if len(addresses) != 1:
        where = f"in region {region}" if region else "where no region is said"
        raise NotAnswered(f"its Keystone names {len(addresses) or 'no'} compute services {where}: one is needed")
    return addresses.pop()


def compute_addresses(services: object, region: str = "") -> set[str]:
    """Nova's public addresses in a region; in all of them, where none is said."""
    listed = services[:_MOST_SERVICES] if isinstance(services, Sequence) and not isinstance(services, str) else ()
    offers = [
        endpoint
        for service in listed
        if text_inside(service, "type") == "compute" and isinstance(endpoints := inside(service, "endpoints"), list)
        for endpoint in endpoints
        if text_inside(endpoint, "interface") == "public"
        and (not region or region in (text_inside(endpoint, "region"), text_inside(endpoint, "region_id")))
    ]
    return {text_inside(offer, "url").rstrip("/") for offer in offers} - {""}


def _last_id(page: object) -> str:
    found = inside(page, "flavors")
    return text_inside(found[-1], "id") if isinstance(found, list) and found else ""
