"""Servers at AWS, against moto: by tag, in all regions, and those that are terminated are gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.server import ThreadedMotoServer

from tests.unit.projects.sizes.providers.clouds import SECRET
from ullage.projects.servers.aws import AwsServers
from ullage.projects.sizes.lookups import Site
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered

IMAGE = "ami-12c6146b"
KEYS = {"accessKeyId": "AKIAIOSFODNN7EXAMPLE", "secretAccessKey": SECRET}


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # in each region some hundred
        few = [one for one in RegionsAndZonesBackend.regions if one.name in ("eu-central-1", "us-east-1", "us-west-2")]
        patched.setattr(RegionsAndZonesBackend, "regions", few)
        yield from served()


def served() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def ec2(address: str, region: str) -> Any:
    session = boto3.session.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name=region)
    return session.client("ec2", endpoint_url=address)


def made(client: Any, uid: str) -> str:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "web"}, {"Key": "Machine-UID", "Value": uid}]}]
    answer = client.run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1, TagSpecifications=tags)
    return str(answer["Instances"][0]["InstanceId"])


async def test_instances_of_all_regions_are_found_by_the_uid_and_terminated_ones_are_gone(moto: str) -> None:
    here, elsewhere = ec2(moto, "eu-central-1"), ec2(moto, "us-west-2")
    made(here, "u-runs")
    made(elsewhere, "u-elsewhere")
    here.stop_instances(InstanceIds=[made(here, "u-stopped")])
    here.terminate_instances(InstanceIds=[made(here, "u-terminated")])
    found = await AwsServers(moto).present(
        ["u-runs", "u-elsewhere", "u-stopped", "u-terminated", "u-never"],
        Credentials("kubermatic/credential-aws", KEYS),
        site=Site("kubermatic/credential-aws", region="eu-central-1"),
    )
    assert found == {"u-runs", "u-elsewhere", "u-stopped"}


async def test_without_a_key_nobody_is_asked() -> None:
    with pytest.raises(NotAnswered, match="Secret kubermatic/credential-aws has no accessKeyId"):
        await AwsServers("http://127.0.0.1:9").present(["u"], Credentials("kubermatic/credential-aws", {}))
