"""Clouds on this machine: each plays the interface of one provider, in pages, from answers as the provider documents them.

A cloud checks what it is asked with as the provider would, so that an adapter that signs wrongly gets nothing.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, quote

from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.unit.projects.sizes import recorded
from ullage.projects.sizes.catalogue import Place
from ullage.projects.sizes.providers.alibaba import Alibaba
from ullage.projects.sizes.providers.azure import Azure, AzureAddresses
from ullage.projects.sizes.providers.contract import Credentials, Provider
from ullage.projects.sizes.providers.digitalocean import DigitalOcean
from ullage.projects.sizes.providers.equinixmetal import EquinixMetal
from ullage.projects.sizes.providers.gce import AUDIENCE, Google, GoogleAddresses
from ullage.projects.sizes.providers.hetzner import Hetzner
from ullage.projects.sizes.providers.openstack import OpenStack

Json = dict[str, Any]
SECRET = "hunter2-hunter2"
TOKEN = "token-of-an-hour"
ENDLESS = 10**6


@dataclass
class Cloud:
    """What a cloud answers, and what it was asked. `pages` are given one after the other; `endless` repeats the last one."""

    pages: list[Json]
    endless: bool = False
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    calls: list[str] = field(default_factory=list)
    address: str = ""

    @property
    def count(self) -> int:
        return ENDLESS if self.endless else len(self.pages)

    def page(self, number: int) -> Json:
        return self.pages[min(number, len(self.pages) - 1)]

    def answer(self, body: Json, **more: Any) -> web.Response:
        if self.raw is not None:
            return web.Response(body=self.raw, status=self.status)
        if self.status != 200:
            return web.json_response({"error": SECRET}, status=self.status, headers=self.headers)
        return web.json_response(body, **more)


Handle = Callable[[Cloud, web.Request], Any]


def refused() -> web.Response:
    return web.json_response({"message": f"{SECRET} is wrong"}, status=401)


@contextlib.asynccontextmanager
async def serving(cloud: Cloud, handle: Handle) -> AsyncIterator[Cloud]:
    async def called(request: web.Request) -> web.StreamResponse:
        cloud.calls.append(f"{request.method} {request.path}")
        found: web.StreamResponse = await handle(cloud, request)
        return found

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", called)
    async with TestServer(app, host="127.0.0.1") as server:
        cloud.address = f"http://127.0.0.1:{server.port}"
        yield cloud


# --- the providers ---------------------------------------------------------------------------------------------------


async def digitalocean(cloud: Cloud, request: web.Request) -> web.Response:
    if request.headers.get("Authorization") != f"Bearer {SECRET}" or request.path != "/v2/sizes":
        return refused()
    number = int(request.query["page"])
    more = {"next": f"https://elsewhere.invalid/v2/sizes?page={number + 1}"} if number < cloud.count else {}
    return cloud.answer({**cloud.page(number - 1), "links": {"pages": more}})


async def hetzner(cloud: Cloud, request: web.Request) -> web.Response:
    if request.headers.get("Authorization") != f"Bearer {SECRET}" or request.path != "/v1/server_types":
        return refused()
    number = int(request.query["page"])
    following = number + 1 if number < cloud.count else None
    return cloud.answer({**cloud.page(number - 1), "meta": {"pagination": {"page": number, "next_page": following}}})


async def equinixmetal(cloud: Cloud, request: web.Request) -> web.Response:
    if request.headers.get("X-Auth-Token") != SECRET or request.path != "/metal/v1/projects/p-1/plans":
        return refused()
    return cloud.answer(cloud.pages[0])


async def azure(cloud: Cloud, request: web.Request) -> web.Response:
    if request.path == "/tenant-1/oauth2/v2.0/token":
        form = await request.post()
        wanted = {
            "grant_type": "client_credentials",
            "client_id": "client-1",
            "client_secret": SECRET,
            "scope": "https://management.azure.com/.default",
        }
        return cloud.answer({"access_token": TOKEN, "expires_in": 3599}) if dict(form) == wanted else refused()
    where = "/subscriptions/sub-1/providers/Microsoft.Compute/skus"
    if request.headers.get("Authorization") != f"Bearer {TOKEN}" or request.path != where:
        return refused()
    number = int(request.query.get("page", "1"))
    if number == 1 and request.query.get("$filter") != "location eq 'westeurope'":
        return web.json_response({}, status=400)
    more = {"nextLink": f"{cloud.address}{where}?page={number + 1}"} if number < cloud.count else {}
    return cloud.answer({**cloud.page(number - 1), **more})


async def gce(cloud: Cloud, request: web.Request) -> web.Response:
    if request.path == "/token":
        form = await request.post()
        signed = form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer" and _verified(str(form["assertion"]))
        return cloud.answer({"access_token": TOKEN, "token_type": "Bearer"}) if signed else refused()
    where = "/compute/v1/projects/project-1/zones/europe-west3-a/machineTypes"
    if request.headers.get("Authorization") != f"Bearer {TOKEN}" or request.path != where:
        return refused()
    number = int(request.query.get("pageToken", "1"))
    more = {"nextPageToken": str(number + 1)} if number < cloud.count else {}
    return cloud.answer({**cloud.page(number - 1), **more})


async def alibaba(cloud: Cloud, request: web.Request) -> web.Response:
    """The signature is made anew, from the query as it came."""
    query = dict(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True))
    given = query.pop("Signature", "")
    text = "&".join(f"{_escaped(key)}={_escaped(query[key])}" for key in sorted(query))
    wanted = hmac.new(f"{SECRET}&".encode(), f"GET&%2F&{_escaped(text)}".encode(), hashlib.sha1).digest()
    if given != base64.b64encode(wanted).decode() or query["AccessKeyId"] != "key-1" or query["RegionId"] != "eu-central-1":
        return refused()
    if query["Action"] != "DescribeInstanceTypes" or query["Version"] != "2014-05-26":
        return web.json_response({"Code": "InvalidAction.NotFound"}, status=404)
    number = int(query.get("NextToken", "page+1").removeprefix("page+"))
    return cloud.answer({**cloud.page(number - 1), "NextToken": f"page+{number + 1}" if number < cloud.count else ""})


async def openstack(cloud: Cloud, request: web.Request) -> web.Response:
    if request.path == "/v3/auth/tokens":
        if (await request.json())["auth"] != OPENSTACK_AUTH:
            return refused()
        return cloud.answer({"token": {"catalog": _services(cloud.address)}}, headers={"X-Subject-Token": TOKEN})
    if request.headers.get("X-Auth-Token") != TOKEN or request.path != "/compute/v2.1/flavors/detail":
        return refused()
    number = int(request.query.get("marker", "0"))
    page = {"flavors": [{**one, "id": str(number + 1)} for one in cloud.page(number)["flavors"]]}
    more = {"flavors_links": [{"rel": "next", "href": "https://elsewhere.invalid/"}]} if number + 1 < cloud.count else {}
    return cloud.answer({**page, **more})


OPENSTACK_AUTH = {
    "identity": {
        "methods": ["password"],
        "password": {"user": {"name": "user-1", "password": SECRET, "domain": {"name": "Default"}}},
    },
    "scope": {"project": {"name": "project-1", "domain": {"name": "Default"}}},
}


def _services(address: str) -> list[Json]:
    compute = [
        {"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": f"{address}/compute/v2.1"},
        {"interface": "admin", "region": "RegionOne", "region_id": "RegionOne", "url": f"{address}/admin"},
        {"interface": "public", "region": "RegionTwo", "region_id": "RegionTwo", "url": f"{address}/two"},
    ]
    return [{"type": "identity", "endpoints": compute[:1]}, {"type": "compute", "endpoints": compute}]


@cache
def google_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def service_account() -> str:
    pem = google_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = {"type": "service_account", "project_id": "project-1", "client_email": "a@project-1", "private_key": pem}
    return json.dumps({**account, "token_uri": "https://elsewhere.invalid/token"})


def _verified(statement: str) -> bool:
    body, _, signature = statement.rpartition(".")
    try:
        google_key().public_key().verify(_unpadded(signature), body.encode(), PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    claims = json.loads(_unpadded(body.partition(".")[2]))
    valid = claims["exp"] - claims["iat"] <= 3600 and claims["iss"] == "a@project-1"
    return bool(valid and claims["aud"] == AUDIENCE and claims["scope"].endswith("compute.readonly"))


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _escaped(text: str) -> str:
    return quote(text, safe="-_.~")


# --- as a table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlayedProvider:
    """`keys` are those of its Secret; `flavours` are what its two pages say, as catalogues have it."""

    handle: Handle
    make: Callable[[str], Provider]
    region: str
    keys: Mapping[str, str]
    pages: list[Json]
    flavours: Mapping[str, str]
    paged: bool = True
    at_address: bool = False  # the place says where it is

    def place(self, provider: str, address: str) -> Place:
        return Place(provider, self.region, "kubermatic/credential", address if self.at_address else "")

    def credentials(self, **changes: str) -> Credentials:
        return Credentials("kubermatic/credential", {**self.keys, **changes})


def _split(answer: Json, *path: str) -> list[Json]:
    """One page for each entry of the list at a path."""
    if len(path) > 1:
        return [{**answer, path[0]: page} for page in _split(answer[path[0]], *path[1:])]
    return [{**answer, path[0]: [entry]} for entry in answer[path[0]]]


_ANOTHER_SIZE = {"slug": "s-2vcpu-4gb", "memory": 4096, "vcpus": 2, "disk": 80}
_ANOTHER_SERVER = {"id": 45, "name": "cax11", "cores": 2, "memory": 4.0, "disk": 40}
_ANOTHER_MACHINE = {"name": "e2-medium", "guestCpus": 2, "memoryMb": 4096}

PLAYED: dict[str, PlayedProvider] = {
    "alibaba": PlayedProvider(
        alibaba,
        lambda address: Alibaba(address),
        region="eu-central-1",
        keys={"accessKeyId": "key-1", "accessKeySecret": SECRET},
        pages=_split(recorded.ALIBABA, "InstanceTypes", "InstanceType"),
        flavours={"ecs.g6.large": "2 8Gi -", "ecs.t5-lc2m1.nano": "1 512Mi -"},
    ),
    "azure": PlayedProvider(
        azure,
        lambda address: Azure(AzureAddresses(login=address, management=address)),
        region="westeurope",
        keys={"tenantID": "tenant-1", "subscriptionID": "sub-1", "clientID": "client-1", "clientSecret": SECRET},
        pages=_split(recorded.AZURE_SKUS, "value"),
        flavours={"standard_d2s_v3": "2 8Gi -", "standard_e4-2s_v3": "2 32Gi -", "standard_a0": "1 768Mi -"},
    ),
    "digitalocean": PlayedProvider(
        digitalocean,
        lambda address: DigitalOcean(address),
        region="",
        keys={"token": f"{SECRET}\n"},
        pages=_split({"sizes": [*recorded.DIGITALOCEAN["sizes"], _ANOTHER_SIZE]}, "sizes"),
        flavours={"s-1vcpu-1gb": "1 1Gi 25Gi", "s-2vcpu-4gb": "2 4Gi 80Gi"},
    ),
    "equinixmetal": PlayedProvider(
        equinixmetal,
        lambda address: EquinixMetal(address),
        region="",
        keys={"apiKey": SECRET, "projectID": "p-1"},
        pages=[recorded.EQUINIX],
        flavours={"c3.small.x86": "8 32Gi 960G", "n3.xlarge.x86": "64 1Ti 7650G"},
        paged=False,
    ),
    "gce": PlayedProvider(
        gce,
        lambda address: Google(GoogleAddresses(token=f"{address}/token", compute=address)),
        region="europe-west3-a",
        keys={"serviceAccount": service_account()},
        pages=_split({"items": [*recorded.GCE["items"], _ANOTHER_MACHINE]}, "items"),
        flavours={"n1-standard-2": "2 7680Mi -", "e2-medium": "2 4Gi -"},
    ),
    "hetzner": PlayedProvider(
        hetzner,
        lambda address: Hetzner(address),
        region="",
        keys={"token": SECRET},
        pages=_split({"server_types": [*recorded.HETZNER["server_types"], _ANOTHER_SERVER]}, "server_types"),
        flavours={"22": "2 2Gi 40G", "45": "2 4Gi 40G", "cax11": "2 4Gi 40G", "cpx11": "2 2Gi 40G"},
    ),
    "openstack": PlayedProvider(
        openstack,
        lambda address: OpenStack(),
        region="RegionOne",
        keys={"username": "user-1", "password": SECRET, "domain": "Default", "project": "project-1"},
        pages=_split(recorded.OPENSTACK, "flavors"),
        flavours={"m1.small": "1 2Gi 20Gi", "v1.small": "2 4Gi -"},
        at_address=True,
    ),
}
