"""AWS through boto3: against moto, which plays EC2 and STS over the wire, and against a cloud that refuses."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from aiohttp import web
from moto.server import ThreadedMotoServer

from tests.unit.projects.sizes.providers.clouds import SECRET, Cloud, serving
from tests.unit.projects.sizes.recorded import ASKED
from ullage.projects.sizes.catalogue import Catalogue, Place
from ullage.projects.sizes.codec import write
from ullage.projects.sizes.providers.aws import Aws
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered

PLACE = Place("aws", "eu-central-1", "kubermatic/credential-aws")
KEYS = {"accessKeyId": "AKIAIOSFODNN7EXAMPLE", "secretAccessKey": SECRET}


def credentials(**changes: str) -> Credentials:
    return Credentials("kubermatic/credential-aws", {**KEYS, **changes})


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="with a key"),
        pytest.param({"assumeRoleARN": "arn:aws:iam::123456789012:role/kkp", "assumeRoleExternalID": "kkp-1"}, id="as a role"),
    ],
)
async def test_the_instance_types_of_a_region_are_found(moto: str, more: dict[str, str]) -> None:
    found = await Aws(moto).flavours(PLACE, credentials(**more))
    lines = write(Catalogue().refreshed(PLACE, found, source=Aws.source, at=ASKED).known(PLACE))["flavours"]
    sizes = {"t3.small": "2 2Gi -", "t3.nano": "2 512Mi -", "m5.large": "2 8Gi -", "m5d.24xlarge": "96 384Gi -"}
    assert {name: lines[name] for name in sizes} == sizes
    assert len(found) > 500


ERROR = f"<Response><Errors><Error><Code>AuthFailure</Code><Message>{SECRET}</Message></Error></Errors></Response>"


async def refusing(cloud: Cloud, request: web.Request) -> web.Response:
    return web.Response(text=ERROR, status=401, content_type="text/xml")


async def test_a_refusal_has_the_code_and_not_the_message() -> None:
    async with serving(Cloud([]), refusing) as cloud:
        with pytest.raises(NotAnswered) as caught:
            await Aws(cloud.address).flavours(PLACE, credentials())
    assert str(caught.value) == "ec2 in eu-central-1 answered AuthFailure"
    assert caught.value.__cause__ is None


async def test_nobody_there_is_told() -> None:
    async with serving(Cloud([]), refusing) as cloud:
        address = cloud.address
    with pytest.raises(NotAnswered, match=r"^ec2 in eu-central-1 cannot be asked \(EndpointConnectionError\)$"):
        await Aws(address).flavours(PLACE, credentials())


async def test_without_boto3_it_is_said_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(NotAnswered, match=r"^boto3 is not installed: pip install 'ullage\[clouds\]' brings"):
        await Aws().flavours(PLACE, credentials())


@pytest.mark.parametrize("key", KEYS)
async def test_a_key_that_the_secret_lacks_is_named(key: str) -> None:
    with pytest.raises(NotAnswered, match=f"has no {key}$"):
        await Aws().flavours(PLACE, credentials(**{key: ""}))


@pytest.mark.parametrize("region", ["", "evil.example.com", "x@y"])
async def test_a_region_makes_no_other_host(region: str) -> None:
    with pytest.raises(NotAnswered, match="a region such as"):
        await Aws().flavours(Place("aws", region, PLACE.credential), credentials())
