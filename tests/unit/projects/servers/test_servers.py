"""The contract of those who are asked for servers: each knows a server by the uid of its Machine, looks at all pages and all
regions, and never takes a failure for "gone". The answers are as the providers document them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import pytest
from aiohttp import web

from tests.unit.projects.sizes.providers.clouds import (
    OPENSTACK_AUTH,
    SECRET,
    TOKEN,
    Cloud,
    Json,
    _escaped,
    _services,
    refused,
    service_account,
    serving,
)
from ullage.projects.servers.alibaba import AlibabaServers
from ullage.projects.servers.azure import AzureServers
from ullage.projects.servers.contract import MOST_PAGES, ServerSource
from ullage.projects.servers.digitalocean import DigitalOceanServers
from ullage.projects.servers.equinixmetal import EquinixMetalServers
from ullage.projects.servers.gce import GoogleServers
from ullage.projects.servers.hetzner import HetznerServers
from ullage.projects.servers.openstack import OpenStackServers
from ullage.projects.servers.registry import SERVERS
from ullage.projects.sizes.lookups import Site
from ullage.projects.sizes.providers.azure import AzureAddresses
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered
from ullage.projects.sizes.providers.gce import GoogleAddresses
from ullage.projects.sizes.providers.registry import PROVIDERS

FIRST, SECOND, OTHER = "1111-uid", "2222-uid", "3333-uid"
BEARER = f"Bearer {SECRET}"


# --- the providers ---------------------------------------------------------------------------------------------------


async def digitalocean(cloud: Cloud, request: web.Request) -> web.Response:
    if request.headers.get("Authorization") != BEARER or request.path != "/v2/droplets":
        return refused()
    number = int(request.query["page"])
    more = {"next": "https://elsewhere.invalid/"} if number < cloud.count else {}
    return cloud.answer({**cloud.page(number - 1), "links": {"pages": more}, "meta": {"total": 2}})


async def hetzner(cloud: Cloud, request: web.Request) -> web.Response:
    if request.headers.get("Authorization") != BEARER or request.path != "/v1/servers":
        return refused()
    if not request.query["label_selector"].startswith("machine-uid in ("):
        return web.json_response({}, status=400)
    number = int(request.query["page"])
    following = number + 1 if number < cloud.count else None
    return cloud.answer({**cloud.page(number - 1), "meta": {"pagination": {"page": number, "next_page": following}}})


async def equinixmetal(cloud: Cloud, request: web.Request) -> web.Response:
    if request.headers.get("X-Auth-Token") != SECRET or request.path != "/metal/v1/projects/p-1/devices":
        return refused()
    number = int(request.query["page"])
    return cloud.answer({**cloud.page(number - 1), "meta": {"current_page": number, "last_page": cloud.count}})


async def azure(cloud: Cloud, request: web.Request) -> web.Response:
    if request.path == "/tenant-1/oauth2/v2.0/token":
        return cloud.answer({"access_token": TOKEN})
    where = "/subscriptions/sub-1/providers/Microsoft.Compute/virtualMachines"
    if request.headers.get("Authorization") != f"Bearer {TOKEN}" or request.path != where:
        return refused()
    number = int(request.query.get("page", "1"))
    more = {"nextLink": f"{cloud.address}{where}?page={number + 1}"} if number < cloud.count else {}
    return cloud.answer({**cloud.page(number - 1), **more})


async def gce(cloud: Cloud, request: web.Request) -> web.Response:
    if request.path == "/token":
        return cloud.answer({"access_token": TOKEN})
    where = "/compute/v1/projects/project-1/aggregated/instances"
    if request.headers.get("Authorization") != f"Bearer {TOKEN}" or request.path != where:
        return refused()
    if request.query["filter"] != "labels.machine_uid:*":
        return web.json_response({}, status=400)
    number = int(request.query.get("pageToken", "1"))
    more = {"nextPageToken": str(number + 1)} if number < cloud.count else {}
    return cloud.answer({"kind": "compute#instanceAggregatedList", **cloud.page(number - 1), **more})


async def openstack(cloud: Cloud, request: web.Request) -> web.Response:
    if request.path == "/v3/auth/tokens":
        if (await request.json())["auth"] != OPENSTACK_AUTH:
            return refused()
        return cloud.answer({"token": {"catalog": _services(cloud.address)}}, headers={"X-Subject-Token": TOKEN})
    if request.headers.get("X-Auth-Token") != TOKEN:
        return refused()
    if request.path == "/two/servers/detail":  # the other region has the last page
        return cloud.answer(cloud.pages[-1])
    number, count = int(request.query.get("marker", "0")), cloud.count - 1
    page = {"servers": [{**one, "id": str(number + 1)} for one in cloud.page(number)["servers"]]}
    more = {"servers_links": [{"rel": "next", "href": "https://elsewhere.invalid/"}]} if number + 1 < count else {}
    return cloud.answer({**page, **more})


async def alibaba(cloud: Cloud, request: web.Request) -> web.Response:
    query = dict(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True))
    given = query.pop("Signature", "")
    text = "&".join(f"{_escaped(key)}={_escaped(query[key])}" for key in sorted(query))
    wanted = hmac.new(f"{SECRET}&".encode(), f"GET&%2F&{_escaped(text)}".encode(), hashlib.sha1).digest()
    if given != base64.b64encode(wanted).decode():
        return refused()
    if query["Action"] == "DescribeRegions":
        regions = [{"RegionId": "eu-central-1"}, {"RegionId": "cn-beijing"}]
        return cloud.answer({"Regions": {"Region": regions}})
    if query["Action"] != "DescribeInstances" or query["Tag.1.Key"] != "machine_uid":
        return web.json_response({}, status=404)
    if query["RegionId"] == "cn-beijing":  # which has the last page
        return cloud.answer(cloud.pages[-1])
    number, count = int(query.get("NextToken", "page+1").removeprefix("page+")), cloud.count - 1
    return cloud.answer({**cloud.page(number - 1), "NextToken": f"page+{number + 1}" if number < count else ""})


# --- as a table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Played:
    """`pages` have a server of FIRST on the one, one of SECOND on the other, and some that are of nobody."""

    handle: Callable[[Cloud, web.Request], Any]
    make: Callable[[str], ServerSource]
    keys: Mapping[str, str]
    pages: list[Json]
    empty: Json
    at_address: bool = field(default=False)

    def credentials(self) -> Credentials:
        return Credentials("kubermatic/credential", self.keys)


EQUINIX_TAG = "kubermatic-machine-controller:machine-uid:"

PLAYED: dict[str, Played] = {
    "alibaba": Played(
        alibaba,
        AlibabaServers,
        {"accessKeyId": "key-1", "accessKeySecret": SECRET},
        [
            {
                "Instances": {
                    "Instance": [{"InstanceId": "i-1", "Tags": {"Tag": [{"TagKey": "machine_uid", "TagValue": FIRST}]}}]
                }
            },
            {
                "Instances": {
                    "Instance": [
                        {"InstanceId": "i-2", "Tags": {"Tag": [{"TagKey": "name", "TagValue": OTHER}]}},
                        {"InstanceId": "i-3", "Tags": {"Tag": [{"TagKey": "machine_uid", "TagValue": SECOND}]}},
                    ]
                }
            },
        ],
        {"Instances": {"Instance": []}},
    ),
    "azure": Played(
        azure,
        lambda address: AzureServers(AzureAddresses(login=address, management=address)),
        {"tenantID": "tenant-1", "subscriptionID": "sub-1", "clientID": "client-1", "clientSecret": SECRET},
        [
            {"value": [{"name": "web-1", "tags": {"Machine-UID": FIRST}}, {"name": "db"}]},
            {"value": [{"name": OTHER, "tags": {"owner": OTHER}}, {"name": "web-2", "tags": {"Machine-UID": SECOND}}]},
        ],
        {"value": []},
    ),
    "digitalocean": Played(
        digitalocean,
        DigitalOceanServers,
        {"token": SECRET},
        [
            {"droplets": [{"id": 1, "name": OTHER, "tags": ["kubernetes", FIRST]}]},
            {"droplets": [{"id": 2, "name": "x", "tags": []}, {"id": 3, "name": "web-2", "tags": [SECOND]}]},
        ],
        {"droplets": []},
    ),
    "equinixmetal": Played(
        equinixmetal,
        EquinixMetalServers,
        {"apiKey": SECRET, "projectID": "p-1"},
        [
            {"devices": [{"id": "d-1", "hostname": OTHER, "tags": [f"{EQUINIX_TAG}{FIRST}"]}]},
            {"devices": [{"id": "d-2", "tags": [OTHER]}, {"id": "d-3", "tags": ["a", f"{EQUINIX_TAG}{SECOND}"]}]},
        ],
        {"devices": []},
    ),
    "gce": Played(
        gce,
        lambda address: GoogleServers(GoogleAddresses(token=f"{address}/token", compute=address)),
        {"serviceAccount": service_account()},
        [
            {
                "items": {
                    "zones/a": {"instances": [{"name": "web-1", "status": "TERMINATED", "labels": {"machine_uid": FIRST}}]},
                    "zones/b": {"warning": {"code": "NO_RESULTS_ON_PAGE"}},
                }
            },
            {"items": {"zones/c": {"instances": [{"name": OTHER}, {"name": "web-2", "labels": {"machine_uid": SECOND}}]}}},
        ],
        {"items": {}},
    ),
    "hetzner": Played(
        hetzner,
        HetznerServers,
        {"token": SECRET},
        [
            {"servers": [{"id": 1, "name": OTHER, "labels": {"machine-uid": FIRST}}]},
            {"servers": [{"id": 2, "name": "web-2", "labels": {"machine-uid": SECOND}}]},
        ],
        {"servers": []},
    ),
    "openstack": Played(
        openstack,
        lambda address: OpenStackServers(),
        {"username": "user-1", "password": SECRET, "domain": "Default", "project": "project-1"},
        [
            {"servers": [{"id": "s-1", "name": "web-1", "metadata": {"machine-uid": FIRST}}]},
            {"servers": [{"id": "s-2", "name": OTHER, "metadata": {}}, {"id": "s-3", "metadata": {"machine-uid": SECOND}}]},
        ],
        {"servers": []},
        at_address=True,
    ),
}
EACH = [pytest.param(played, id=name) for name, played in PLAYED.items()]


async def asked(played: Played, cloud: Cloud, *uids: str) -> frozenset[str]:
    async with serving(cloud, played.handle):
        site = Site("kubermatic/credential", endpoint=cloud.address if played.at_address else "")
        return await played.make(cloud.address).present(uids, played.credentials(), site=site)


def test_whoever_is_asked_for_sizes_is_asked_for_servers() -> None:
    assert set(SERVERS) == set(PROVIDERS) == {*PLAYED, "aws"}


@pytest.mark.parametrize("played", EACH)
async def test_servers_are_known_by_the_uids_of_their_machines_on_all_pages_and_in_all_regions(played: Played) -> None:
    assert await asked(played, Cloud(played.pages), FIRST, SECOND, OTHER) == {FIRST, SECOND}


@pytest.mark.parametrize("played", EACH)
async def test_where_there_are_none_all_are_gone(played: Played) -> None:
    assert await asked(played, Cloud([played.empty, played.empty]), FIRST) == frozenset()


@pytest.mark.parametrize("played", EACH)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"status": 403}, id="the credential does not allow it"),
        pytest.param({"status": 500}, id="it is broken"),
        pytest.param({"raw": b"<html>"}, id="something else answers"),
        pytest.param({"raw": b"{}"}, id="an answer that is about something else"),
    ],
)
async def test_a_failure_is_never_taken_for_gone(played: Played, answer: dict[str, Any]) -> None:
    with pytest.raises(NotAnswered) as caught:
        await asked(played, Cloud(played.pages, **answer), FIRST)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["digitalocean", "hetzner", "gce", "azure", "equinixmetal"])
async def test_pages_have_an_end(name: str) -> None:
    cloud = Cloud(PLAYED[name].pages, endless=True)
    with pytest.raises(NotAnswered, match=f"more than {MOST_PAGES} pages"):
        await asked(PLAYED[name], cloud, FIRST)
    assert len(cloud.calls) <= MOST_PAGES + 3


async def test_many_machines_are_asked_about_in_several_filters() -> None:
    played = PLAYED["hetzner"]
    cloud = Cloud(played.pages[:1])
    assert await asked(played, cloud, *(f"{number:04d}" for number in range(60)), FIRST) == {FIRST}
    assert len(cloud.calls) == 3
