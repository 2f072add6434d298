"""The contract of providers: what every one of them does, whoever answers. `PLAYED` is the table; AWS has tests of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from tests.unit.projects.sizes.providers.clouds import PLAYED, SECRET, Cloud, Json, PlayedProvider, serving
from tests.unit.projects.sizes.recorded import ASKED
from ullage.projects.sizes.catalogue import Catalogue, Place
from ullage.projects.sizes.codec import write
from ullage.projects.sizes.machine import READERS
from ullage.projects.sizes.providers.contract import MOST_PAGES, Credentials, NotAnswered
from ullage.projects.sizes.providers.gce import ServiceAccountKey
from ullage.projects.sizes.providers.registry import PROVIDERS

EACH = [pytest.param(name, played, id=name) for name, played in PLAYED.items()]
PAGED = [pytest.param(name, played, id=name) for name, played in PLAYED.items() if played.paged]


async def ask(name: str, played: PlayedProvider, cloud: Cloud, **changes: str) -> Json:
    """What comes of asking, as a catalogue has it."""
    async with serving(cloud, played.handle):
        provider, place = played.make(cloud.address), played.place(name, cloud.address)
        found = await provider.flavours(place, played.credentials(**changes))
        known = Catalogue().refreshed(place, found, source=provider.source, at=ASKED).known(place)
        flavours: Json = write(known)["flavours"]
        return flavours


async def why_not(name: str, played: PlayedProvider, cloud: Cloud, **changes: str) -> str:
    with pytest.raises(NotAnswered) as caught:
        await ask(name, played, cloud, **changes)
    assert SECRET not in "".join(map(str, _chain(caught.value)))
    return str(caught.value)


def _chain(error: BaseException | None) -> list[BaseException]:
    return [] if error is None else [error, *_chain(error.__cause__)]


def test_every_provider_whose_machines_name_flavours_is_asked() -> None:
    stated = {"external", "fake", "kubevirt", "nutanix", "vsphere"}  # their machines say how large they are
    assert set(PROVIDERS) == set(READERS) - stated
    assert set(PROVIDERS) == {*PLAYED, "aws"}


@pytest.mark.parametrize(("name", "played"), EACH)
async def test_the_flavours_of_all_pages_are_found(name: str, played: PlayedProvider) -> None:
    assert await ask(name, played, Cloud(played.pages)) == played.flavours


@pytest.mark.parametrize(("name", "played"), EACH)
async def test_a_refused_credential_is_told_without_a_word_of_the_answer(name: str, played: PlayedProvider) -> None:
    said = await why_not(name, played, Cloud(played.pages, status=403))
    assert said.startswith("127.0.0.1 answered 403: it does not accept the credential")


@pytest.mark.parametrize(("name", "played"), EACH)
async def test_a_wrong_secret_gets_nothing(name: str, played: PlayedProvider) -> None:
    """That the clouds here check what they are asked with, and so that every other test shows how it is signed."""
    secret = next(key for key, value in played.keys.items() if SECRET in value or key == "serviceAccount")
    wrong = other_account() if secret == "serviceAccount" else "wrong"
    assert "401" in await why_not(name, played, Cloud(played.pages), **{secret: wrong})


def other_account() -> str:
    """The right account with a key that is not its own."""
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return json.dumps({"project_id": "project-1", "client_email": "a@project-1", "private_key": pem})


@pytest.mark.parametrize(("name", "played"), EACH)
async def test_a_redirect_is_not_followed(name: str, played: PlayedProvider) -> None:
    other = Cloud(played.pages)
    async with serving(other, played.handle):
        cloud = Cloud(played.pages, status=307, headers={"Location": f"{other.address}/stolen"})
        assert "redirects are not followed" in await why_not(name, played, cloud)
    assert other.calls == []


@pytest.mark.parametrize(("name", "played"), EACH)
async def test_an_answer_that_is_no_json_is_told(name: str, played: PlayedProvider) -> None:
    assert "no JSON" in await why_not(name, played, Cloud(played.pages, raw=b"<html>busy</html>"))


@pytest.mark.parametrize(("name", "played"), EACH)
async def test_json_that_has_no_end_of_depth_is_told(name: str, played: PlayedProvider) -> None:
    assert "no JSON" in await why_not(name, played, Cloud(played.pages, raw=b"[" * 200_000))


@pytest.mark.parametrize(("name", "played"), PAGED)
async def test_pages_without_an_end_are_given_up(name: str, played: PlayedProvider) -> None:
    cloud = Cloud(played.pages, endless=True)
    assert f"more than {MOST_PAGES} pages" in await why_not(name, played, cloud)
    assert len(cloud.calls) <= MOST_PAGES + 2


@pytest.mark.parametrize(("name", "played"), EACH)
async def test_a_place_without_flavours_is_no_answer(name: str, played: PlayedProvider) -> None:
    """Else a region that somebody made up would be known, and nothing in it."""
    nothing: Any = json.loads(json.dumps(played.pages[0]), object_hook=_emptied)
    assert "no flavours" in await why_not(name, played, Cloud([nothing]))


def _emptied(found: Json) -> Json:
    lists = ("InstanceType", "value", "sizes", "plans", "items", "server_types", "flavors")
    return {key: [] if key in lists and isinstance(one, list) else one for key, one in found.items()}


@pytest.mark.parametrize(("name", "played"), EACH)
async def test_a_key_that_the_secret_lacks_is_named(name: str, played: PlayedProvider) -> None:
    missing = "project" if name == "openstack" else next(key for key in played.keys if key != "projectID")
    said = await why_not(name, played, Cloud(played.pages), **{missing: ""})
    assert said == f"Secret kubermatic/credential has no {missing}"


@pytest.mark.parametrize(("name", "played"), EACH)
async def test_nobody_there_is_told(name: str, played: PlayedProvider) -> None:
    async with serving(Cloud([]), played.handle) as gone:
        address = gone.address
    with pytest.raises(NotAnswered, match=r"^127\.0\.0\.1 cannot be reached \(Client\w+Error\)$"):
        await played.make(address).flavours(played.place(name, address), played.credentials())


def test_credentials_do_not_show_what_they_are() -> None:
    assert SECRET not in repr(Credentials("kubermatic/x", {"token": SECRET}))


# --- one by one ------------------------------------------------------------------------------------------------------


async def test_azure_is_not_followed_to_another_host() -> None:
    other = Cloud([])
    played = PLAYED["azure"]
    async with serving(other, played.handle):
        page = {**played.pages[0], "nextLink": f"{other.address}/subscriptions/sub-1/providers/Microsoft.Compute/skus?page=2"}
        assert "names another host" in await why_not("azure", played, Cloud([page]))
    assert other.calls == []


@pytest.mark.parametrize("region", ["", "west'europe", "a/b"])
async def test_azure_is_asked_for_a_word_only(region: str) -> None:
    played = replace(PLAYED["azure"], region=region)
    assert "a location in small letters" in await why_not("azure", played, Cloud(played.pages))


@pytest.mark.parametrize("region", ["", "evil.example.com/", "x@evil", "a..b"])
async def test_alibaba_s_region_makes_no_other_host(region: str) -> None:
    played = replace(PLAYED["alibaba"], region=region)
    assert "a region such as eu-central-1" in await why_not("alibaba", played, Cloud(played.pages))


async def test_equinix_is_asked_without_a_project() -> None:
    async def plans(cloud: Cloud, request: web.Request) -> web.Response:
        return cloud.answer(cloud.pages[0]) if request.path == "/metal/v1/plans" else web.json_response({}, status=404)

    played = replace(PLAYED["equinixmetal"], handle=plans)
    assert await ask("equinixmetal", played, Cloud(played.pages), projectID="") == played.flavours


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("not base64 {", "neither JSON nor", id="neither JSON nor base64"),
        pytest.param("eyJh", "neither JSON nor", id="base64 of something else"),
        pytest.param('{"private_key": "none"}', "no private_key that can be read", id="a key that is none"),
        pytest.param("{}", "no private_key that can be read", id="nothing in it"),
    ],
)
def test_what_is_no_service_account_is_told_without_a_word_of_it(text: str, said: str) -> None:
    with pytest.raises(NotAnswered, match=said) as caught:
        ServiceAccountKey(text)
    assert caught.value.__cause__ is None


async def test_a_service_account_may_be_in_base64() -> None:
    import base64

    played = PLAYED["gce"]
    packed = base64.b64encode(played.keys["serviceAccount"].encode()).decode()
    assert await ask("gce", played, Cloud(played.pages), serviceAccount=packed) == played.flavours


@pytest.mark.parametrize(
    ("keys", "auth"),
    [
        pytest.param(
            {"applicationCredentialID": "app-1", "applicationCredentialSecret": SECRET},
            {
                "identity": {
                    "methods": ["application_credential"],
                    "application_credential": {"id": "app-1", "secret": SECRET},
                }
            },
            id="an application credential has its project",
        ),
        pytest.param(
            {"token": SECRET, "projectID": "p-1"},
            {"identity": {"methods": ["token"], "token": {"id": SECRET}}, "scope": {"project": {"id": "p-1"}}},
            id="a token, in a project",
        ),
        pytest.param(
            {"username": "u", "password": SECRET, "domain": "D", "tenant": "t"},
            {
                "identity": {
                    "methods": ["password"],
                    "password": {"user": {"name": "u", "password": SECRET, "domain": {"name": "D"}}},
                },
                "scope": {"project": {"name": "t", "domain": {"name": "D"}}},
            },
            id="a user, in a tenant as projects were called",
        ),
    ],
)
async def test_how_openstack_is_logged_in(keys: dict[str, str], auth: Json) -> None:
    seen: list[Json] = []

    async def login(cloud: Cloud, request: web.Request) -> web.Response:
        seen.append((await request.json())["auth"])
        return web.json_response({}, status=401)

    played = replace(PLAYED["openstack"], handle=login, keys=keys)
    await why_not("openstack", played, Cloud([]))
    assert seen == [auth]


async def test_openstack_needs_one_compute_service_in_the_region() -> None:
    played = PLAYED["openstack"]
    assert "no compute services in region Mars" in await why_not(
        "openstack", replace(played, region="Mars"), Cloud(played.pages)
    )
    assert "2 compute services where no region" in await why_not("openstack", replace(played, region=""), Cloud(played.pages))


async def test_openstack_without_an_address_is_not_asked() -> None:
    with pytest.raises(NotAnswered, match="authURL"):
        await PROVIDERS["openstack"].flavours(Place("openstack", "RegionOne"), PLAYED["openstack"].credentials())
