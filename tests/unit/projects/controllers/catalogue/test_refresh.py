"""Sizes are looked up in the background and stay known when nobody answers; users cannot have us ask anybody else."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from tests.unit.projects.controllers.catalogue.scene import AWS, LARGE, SMALL, SeedScene, down, simulated
from ullage.ledger.amounts import Amounts
from ullage.projects.api.catalogues import CATALOGUES, WANTED
from ullage.projects.api.kkp import CLUSTERS
from ullage.projects.sizes.catalogue import MOST_UNANSWERED, Place
from ullage.projects.sizes.store import MOST_EMPTY, MOST_NOTES_EACH
from ullage.projects.sizes.stored import catalogue_name
from ullage.times import read_time

SIZE = Amounts.parse({"cpu": "2", "memory": "2Gi", "storage": "25G"})
CLOUD = "https://keystone.example.com:5000/v3"


@simulated
async def test_an_unknown_flavour_is_looked_up_and_the_retry_passes(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.running():
        assert scene.unknown() == "the size of t3.small of aws in eu-central-1 is not known yet"
        await scene.until(lambda: scene.size() == SIZE, seconds=5)
    assert scene.provider.tokens == ["token-of-a"]
    found = scene.found()
    assert found is not None
    assert found.data.source == "DescribeInstanceTypes"
    assert dict(found.data.flavours) == {"t3.small": "2 2Gi -"}
    assert found.shown.flavours == 1


@simulated
async def test_a_credential_without_a_namespace_is_read_where_kkp_is_said_to_be(scene: SeedScene) -> None:
    scene.namespace = "kkp"
    scene.cluster(named=False)
    async with scene.running():
        scene.unknown()
        await scene.until(lambda: scene.size() == SIZE, seconds=5)
    assert (set(scene.api.read), scene.provider.tokens) == ({"kkp/credential-a"}, ["token-of-a"])


@simulated
async def test_a_flavour_that_came_out_since_is_looked_up_after_a_minute_at_most(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.running():
        scene.size()
        await scene.until(lambda: scene.size() == SIZE)
        scene.provider.found = {"t3.small": SMALL, "t9.new": LARGE}
        assert "has no t9.new, as of 2026" in scene.unknown(instanceType="t9.new")
        await scene.passes(seconds=90)
        assert scene.size(instanceType="t9.new") == Amounts.parse({"cpu": "8", "memory": "32Gi", "storage": "25G"})
    assert len(scene.provider.times()) == 2


@simulated
async def test_a_flavour_that_nobody_has_is_asked_for_once_a_minute_however_often_it_is_named(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.running():
        for number in range(600):
            scene.size(instanceType=f"x{number}.huge")
            await scene.passes(seconds=1)
    assert len(scene.provider.times()) <= 11


@simulated
async def test_sizes_are_refreshed_every_six_hours(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.running():
        scene.size()
        await scene.passes(hours=25)
    assert len(scene.provider.times()) == 5


@simulated
async def test_a_refresh_that_fails_leaves_the_sizes_and_shows_their_age(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.running():
        scene.size()
        await scene.until(lambda: scene.size() == SIZE)
        before = scene.found()
        scene.provider.found = down()
        await scene.passes(hours=24)
        assert scene.size() == SIZE
        said = scene.unknown(instanceType="t9.new")
    found = scene.found()
    assert before is not None
    assert found is not None
    assert found.data.flavours == before.data.flavours
    assert found.data.refreshed == before.data.refreshed
    assert found.data.failure is not None
    assert found.data.failure.reason == "timed out"
    since, refreshed = read_time(found.data.failure.since), read_time(found.data.refreshed)
    assert since is not None
    assert refreshed is not None
    assert since - refreshed == timedelta(hours=6)
    assert f"as of {found.data.refreshed[:19]}Z; refreshing fails since {found.data.failure.since[:19]}Z: timed out" in said
    assert 18 <= len(scene.provider.times()) <= 30  # less and less often, and once an hour at least


@simulated
async def test_what_failed_succeeds_again_and_says_no_more_of_it(scene: SeedScene) -> None:
    scene.cluster()
    scene.provider.found = down()
    async with scene.running():
        scene.size()
        await scene.until(lambda: scene.reason() == "timed out")
        scene.provider.found = {"t3.small": SMALL}
        await scene.until(lambda: scene.size() == SIZE, seconds=120)
    assert scene.reason() == ""


@simulated
async def test_a_provider_that_never_answers_is_given_up(scene: SeedScene) -> None:
    scene.cluster()
    scene.provider.slow = 10_000
    async with scene.running():
        scene.size()
        await scene.until(lambda: scene.reason() == "it did not answer within 90 s", seconds=200)


@simulated
async def test_a_bug_in_an_adapter_is_a_failure_without_its_text(scene: SeedScene) -> None:
    scene.cluster()
    scene.provider.found = RuntimeError("token-of-a is bad")
    async with scene.running():
        scene.size()
        await scene.until(lambda: scene.reason() == "an error of Ullage (RuntimeError), which its log shows")


@simulated
async def test_one_slow_credential_holds_up_nobody_else(scene: SeedScene) -> None:
    scene.cluster("a")
    scene.cluster("b")
    scene.provider.slow = 60
    async with scene.running():
        for number in range(15):
            scene.size("a", region=f"made-up-{number}")
            await scene.passes(seconds=1)
        at = scene.clock.monotonic()
        scene.size("b")
        place = Place("aws", "eu-central-1", "kubermatic/credential-b")
        await scene.until(lambda: bool(scene.provider.times(place)))
        assert scene.clock.monotonic() - at < 5
    assert scene.provider.most <= 3


# --- what a user makes up --------------------------------------------------------------------------------------------


@simulated
async def test_made_up_regions_are_bounded(scene: SeedScene) -> None:
    scene.cluster()
    scene.provider.found = down("no such region")
    async with scene.running():
        for number in range(2_000):
            scene.size(region=f"made-up-{number}")
            await scene.passes(seconds=1)
            assert len(scene.places()) <= MOST_EMPTY
        await scene.passes(minutes=5)
        assert len(scene.places()) <= MOST_UNANSWERED + 1
        scene.provider.found = {"t3.small": SMALL}
        scene.size()
        await scene.until(lambda: scene.size() == SIZE, seconds=200)


@simulated
async def test_made_up_regions_are_bounded_while_nobody_leads(scene: SeedScene) -> None:
    scene.cluster("a")
    scene.cluster("b")
    async with scene.running(leader=False):
        for number in range(500):
            scene.size("a", region=f"made-up-{number}")
            await scene.passes(seconds=1)
        assert len(scene.places()) == MOST_EMPTY
        scene.size("b", region="of-b")
        await scene.until(lambda: "of-b" in scene.places(), seconds=3)


@simulated
async def test_a_flood_of_look_ups_holds_up_no_other_credential(scene: SeedScene) -> None:
    scene.cluster("a")
    scene.cluster("b")
    async with scene.running(leader=False):
        for number in range(5_000):
            scene.size("a", region=f"made-up-{number}")
        scene.size("b", region="of-b")
        await scene.until(lambda: "of-b" in scene.places(), seconds=3)
        await scene.passes(minutes=10)
    assert len(scene.places()) == MOST_NOTES_EACH + 1


@simulated
async def test_all_that_is_not_used_goes_after_a_week(scene: SeedScene) -> None:
    scene.cluster()
    scene.provider.missing = {"made-up"}
    async with scene.running():
        scene.size(region="made-up")
        scene.size()
        await scene.passes(hours=24 * 7 + 3)
        assert scene.places() == ["eu-central-1"]
        scene.api.remove(CLUSTERS, "a")
        await scene.passes(hours=24 * 6)
        assert scene.places() == ["eu-central-1"]
        await scene.passes(hours=26)
        assert scene.places() == []


@simulated
async def test_a_credential_is_read_only_where_a_cluster_names_it(scene: SeedScene) -> None:
    """The place comes from the seed's own Cluster; an object that somebody forged names another Secret."""
    scene.cluster()
    scene.secret("somebody-else-s", token="stolen")
    spec = {"provider": "aws", "region": "eu-central-1", "credential": "kubermatic/somebody-else-s"}
    place = Place("aws", "eu-central-1", "kubermatic/somebody-else-s")
    scene.api.put(
        CATALOGUES, {"metadata": {"name": catalogue_name(place), "annotations": {WANTED: "2026-01-01T00:00:00Z"}}, "spec": spec}
    )
    async with scene.running():
        await scene.until(lambda: bool(scene.reason(place)))
        assert scene.reason(place) == "no Cluster of this seed has Secret kubermatic/somebody-else-s as its credential for aws"
    assert scene.api.read == []


@simulated
async def test_a_credential_goes_to_its_own_provider_only(scene: SeedScene) -> None:
    """A machine of a cluster at AWS says that it is of OpenStack: the Secret of AWS is not tried there."""
    scene.cluster()
    async with scene.running():
        scene.unknown(provider="openstack", flavor="m1.small", identityEndpoint="https://evil.example.com", region="r")
        place = Place("openstack", "r", "kubermatic/credential-a", "https://evil.example.com")
        await scene.until(lambda: "as its credential for openstack" in scene.reason(place))
    assert scene.api.read == []


@simulated
async def test_a_credential_goes_to_the_address_of_the_datacenter_only(scene: SeedScene) -> None:
    scene.cluster("o", "openstack", dc="dc-1")
    async with scene.running():
        scene.unknown("o", "openstack", flavor="m1.small", identityEndpoint="https://evil.example.com", region="r")
        place = Place("openstack", "r", "kubermatic/credential-o", "https://evil.example.com")
        await scene.until(lambda: "is not the address of a datacenter" in scene.reason(place))
        assert scene.api.read == []
        scene.datacenter("dc-1", f"{CLOUD}/")
        await scene.passes(seconds=1)
        scene.unknown("o", "openstack", flavor="m1.small", identityEndpoint=CLOUD, region="r")
        await scene.until(lambda: bool(scene.provider.asked))
    assert [place for place, _ in scene.provider.asked] == [Place("openstack", "r", "kubermatic/credential-o", CLOUD)]


@simulated
async def test_a_credential_that_a_user_names_himself_is_not_looked_at(scene: SeedScene) -> None:
    reference = {"secretKeyRef": {"namespace": "kube-system", "name": "mine", "key": "token"}}
    scene.api.put(CLUSTERS, {"metadata": {"name": "a"}, "spec": {"cloud": {"providerName": "aws"}}})
    async with scene.running():
        scene.unknown(accessKeyId=reference)
        place = Place("aws", "eu-central-1", "none")
        await scene.until(lambda: "no Cluster names a Secret" in scene.reason(place))
    assert scene.api.read == []


# --- credentials -----------------------------------------------------------------------------------------------------


@simulated
async def test_a_secret_that_is_missing_or_forbidden_is_told(scene: SeedScene) -> None:
    scene.cluster(secret="gone")
    place = Place("aws", "eu-central-1", "kubermatic/gone")
    async with scene.running():
        scene.api.forbidden = True
        scene.size()
        await scene.until(lambda: scene.reason(place) == "Secret kubermatic/gone may not be read by Ullage")
        scene.api.forbidden = False
        scene.api._objects = {key: one for key, one in scene.api._objects.items() if key.name != "gone"}
        await scene.until(lambda: scene.reason(place) == "Secret kubermatic/gone does not exist", seconds=120)
        scene.secret("gone", token="new")
        await scene.until(lambda: scene.size() == SIZE, seconds=600)
    assert scene.provider.tokens == ["new"]


# --- what people write -----------------------------------------------------------------------------------------------


@simulated
async def test_what_people_write_counts_and_is_never_changed(scene: SeedScene) -> None:
    scene.cluster("v", "vsphere")
    scene.manual("our-templates", {"provider": "vsphere"}, {"template ubuntu": "- - 20Gi", "template broken": "- - 9999Ei"})
    async with scene.running():
        spec = {"cpus": 2, "memoryMB": 2000, "templateVMName": "ubuntu"}
        assert scene.size("v", "vsphere", **spec) == Amounts.parse({"cpu": "2", "memory": "2G", "storage": "20Gi"})
        said = scene.unknown("v", "vsphere", **{**spec, "templateVMName": "other"})
        assert "the size of template other of vsphere is not known yet" in said
        await scene.until(lambda: bool((scene.api.body(CATALOGUES, "our-templates") or {}).get("shown")))
        await scene.passes(hours=30)
    body = scene.api.body(CATALOGUES, "our-templates")
    assert body is not None
    assert body["data"] == {"source": "manual", "flavours": {"template ubuntu": "- - 20Gi", "template broken": "- - 9999Ei"}}
    assert body["shown"]["flavours"] == 2
    assert "data.flavours[template broken]" in body["shown"]["problem"]


@simulated
async def test_a_provider_that_cannot_be_asked_says_what_to_do(scene: SeedScene) -> None:
    scene.cluster("v", "vsphere")
    async with scene.running():
        scene.unknown("v", "vsphere", cpus=2, memoryMB=2000, templateVMName="ubuntu")
        await scene.passes(seconds=5)
        said = scene.unknown("v", "vsphere", cpus=2, memoryMB=2000, templateVMName="ubuntu")
    assert "vsphere is not asked for sizes: an administrator can write a MachineCatalogue with source: manual" in said


@simulated
async def test_a_catalogue_that_people_take_over_meanwhile_stays_theirs(scene: SeedScene) -> None:
    scene.cluster()
    scene.provider.slow = 5
    async with scene.running():
        scene.size()
        await scene.until(lambda: bool(scene.provider.asked))
        mine = {"source": "manual", "flavours": {"t3.small": "3 3Gi -"}}
        scene.api.edit(CATALOGUES, catalogue_name(AWS), merge={"data": mine})
        await scene.passes(hours=7)
        assert scene.size() == Amounts.parse({"cpu": "3", "memory": "3Gi", "storage": "25G"})
    assert len(scene.provider.asked) == 1


# --- interruptions ---------------------------------------------------------------------------------------------------


@simulated
async def test_without_a_leader_what_is_wanted_waits_for_one(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.running(leader=False):
        scene.size()
        await scene.passes(minutes=10)
        assert scene.places() == ["eu-central-1"]
    async with scene.running():
        await scene.until(lambda: scene.size() == SIZE, seconds=5)


@simulated
async def test_a_new_leader_does_not_ask_what_the_last_one_has_just_been_told(scene: SeedScene) -> None:
    scene.cluster()
    async with scene.running():
        scene.size()
        await scene.until(lambda: scene.size() == SIZE)
    async with scene.running():
        assert scene.size() == SIZE
        await scene.passes(hours=1)
    assert len(scene.provider.asked) == 1


@simulated
async def test_a_write_that_is_refused_is_tried_again(scene: SeedScene) -> None:
    from ullage.kube.errors import Unavailable

    scene.cluster()
    failures = [3]

    def refuse(what: str) -> None:
        if failures[0] and not what.startswith("delete"):
            failures[0] -= 1
            raise Unavailable("no leader", code=503)

    scene.api.refuse = refuse
    async with scene.running():
        for _ in range(100):
            if scene.size() == SIZE:
                break
            await asyncio.sleep(5)
        assert scene.size() == SIZE
