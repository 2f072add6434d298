"""Group snapshots as the ecosystem knows them: external-snapshotter, with its feature for groups, works on kinds that we define
and on our CSI driver, and either goes on with what the other has left. What both make is the same. And we work on its kinds.

It speaks `v1` of the API, as versions from 8.6 on do; our manifests say `v1beta2`, as 8.4 does. Both are served.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.csi_driver.faults import Fault
from tests.csi_driver.running import NAME, RunningDriver, running_driver
from tools.peers.snapshotter.build import definitions, snapshotter
from ullage.snapshots.model import GUARD

from .apart import IS_BORROWED, own_plane
from .api import Api
from .built import built
from .control_plane import ControlPlane
from .snapshotters import CLASS, CONTENTS, GROUP, Snapshotters, bring_claim, bring_classes
from .test_snapshot_peers import eventually, hand_over, ullage

Json = dict[str, Any]
CLAIMS = ("data-0", "data-1", "data-2")
GROUPS = "/apis/groupsnapshot.storage.k8s.io/v1beta2"
GROUP_CONTENTS = f"{GROUPS}/volumegroupsnapshotcontents"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BOUND = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"  # on members: they put it there at a later look
RETAINING = "retaining"  # a class
FEATURE = "--feature-gates=CSIVolumeGroupSnapshot=true"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a snapshotter of its own"),
    pytest.mark.timeout(400),  # the first time includes the build
]


@pytest.fixture(scope="module")
def programs() -> Path:
    return built(snapshotter)


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Not the one of the other tests: the kinds are everybody's."""
    with own_plane(tmp_path_factory.mktemp("group-peers")) as found:
        yield found


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Api:
    """With the kinds that `ullage install` brings."""
    ullage(plane, "install")
    api = Api(plane)
    bring_all_classes(api)
    return api


def bring_all_classes(api: Api) -> None:
    bring_classes(api)
    body = {"apiVersion": "groupsnapshot.storage.k8s.io/v1beta2", "kind": "VolumeGroupSnapshotClass", "driver": NAME}
    for name, policy in ((CLASS, "Delete"), (RETAINING, "Retain")):
        made = {**body, "metadata": {"name": name}, "deletionPolicy": policy}
        api.create(f"{GROUPS}/volumegroupsnapshotclasses", made)


@pytest.fixture
def driver() -> Iterator[RunningDriver]:
    with running_driver() as running:
        yield running


@pytest.fixture
def snapshotters(plane: ControlPlane, driver: RunningDriver) -> Iterator[Snapshotters]:
    found = Snapshotters(plane.kubeconfig, driver)
    try:
        yield found
    finally:
        print(found.log())
        found.end()


class GroupShop:
    """A namespace with three claims that have a label."""

    def __init__(self, api: Api, driver: RunningDriver, namespace: str) -> None:
        self.api, self.driver, self.namespace = api, driver, namespace
        api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        for name in CLAIMS:
            files = bring_claim(api, driver, namespace=namespace, name=name)
            (files / "page").write_bytes(name.encode())
            api.merge(f"{claims}/{name}", {"metadata": {"labels": {"app": "db"}}})
        self.groups = f"{GROUPS}/namespaces/{namespace}/volumegroupsnapshots"
        self.snapshots = f"{GROUP}/namespaces/{namespace}/volumesnapshots"

    def ask(self, name: str = "one", *, class_name: str = CLASS) -> None:
        body = {"apiVersion": "groupsnapshot.storage.k8s.io/v1beta2", "kind": "VolumeGroupSnapshot", "metadata": {"name": name}}
        source = {"selector": {"matchLabels": {"app": "db"}}}
        self.api.create(self.groups, {**body, "spec": {"volumeGroupSnapshotClassName": class_name, "source": source}})

    def all(self, path: str) -> list[Json]:
        """A kube-apiserver sends whoever comes right after a kind was defined away for a moment (429)."""
        eventually(lambda: "items" in self.api.get(path).obj, lambda: f"{path}: {self.api.get(path).obj}")
        return list(self.api.get(path).obj["items"])

    def contents(self) -> list[Json]:
        return [one for one in self.all(CONTENTS) if one["spec"]["volumeSnapshotRef"]["namespace"] == self.namespace]

    def member(self, claim: str) -> Json:
        (found,) = (one for one in self.all(self.snapshots) if one["spec"]["source"].get("persistentVolumeClaimName") == claim)
        return found

    def ready(self, name: str) -> bool:
        found = self.all(self.groups) + self.all(self.snapshots)
        named = [one for one in self.all(self.snapshots) if one.get("status", {}).get("volumeGroupSnapshotName") == name]
        return len(named) == len(CLAIMS) and all(one.get("status", {}).get("readyToUse") for one in found)

    def must_be_ready(self, name: str = "one") -> None:
        eventually(lambda: self.ready(name), lambda: f"{name} is ready: {self.all(self.groups)} {self.all(self.snapshots)}")

    def drop(self, name: str = "one") -> None:
        self.api.delete(f"{self.groups}/{name}")

    def must_be_gone(self, but: Set[str] = frozenset()) -> None:
        """Groups, members, both sorts of contents, and the driver's own; `but` contents of members that may be left."""

        def left() -> list[Json]:
            whole = [
                one for one in self.all(GROUP_CONTENTS) if one["spec"]["volumeGroupSnapshotRef"]["namespace"] == self.namespace
            ]
            records = [one for one in self.contents() if one["metadata"]["name"] not in but]
            return [*self.all(self.groups), *self.all(self.snapshots), *records, *whole]

        eventually(lambda: not left(), lambda: f"all are gone: {left()}")
        eventually(lambda: self.driver.snapshots() == [], lambda: f"the driver has none: {self.driver.snapshots()}")
        assert self.driver.groups() == []


def seen(shop: GroupShop) -> Json:
    """What a group and all that belongs to it say, without names of uids, times and what only one of the two notes down."""
    (group,), (content,) = shop.all(shop.groups), shop.all(GROUP_CONTENTS)
    members = sorted(shop.all(shop.snapshots), key=lambda one: str(one["spec"]["source"]["persistentVolumeClaimName"]))
    records = {one["metadata"]["name"]: one for one in shop.all(CONTENTS)}
    uid = group["metadata"]["uid"]
    return {
        "group": {
            "finalizers": group["metadata"]["finalizers"],
            "spec": group["spec"],
            "status": _kept(group["status"], "boundVolumeGroupSnapshotContentName", "creationTime", uid=uid),
        },
        "content": {
            "name": content["metadata"]["name"].replace(uid, "UID"),
            "finalizers": content["metadata"]["finalizers"],
            "spec": {**content["spec"], "volumeGroupSnapshotRef": content["spec"]["volumeGroupSnapshotRef"]["kind"]},
            "status": sorted(content["status"]),
            "infos": [sorted(one) for one in content["status"]["volumeSnapshotInfoList"]],
        },
        "members": [_member(one, records, uid=uid) for one in members],
    }


def groups_asked_for(driver: RunningDriver) -> set[str]:
    """By name: whoever could not write down an answer asks for the same once more."""
    return {one.about for one in driver.calls("CreateVolumeGroupSnapshot")}


def lines(what: Json) -> list[str]:
    return json.dumps(what, indent=1, sort_keys=True).splitlines()


def _kept(status: Json, *unlike: str, uid: str) -> Json:
    return {key: "SET" if key in unlike else value for key, value in status.items() if value is not None}


def _member(one: Json, records: dict[str, Json], *, uid: str) -> Json:
    record = records[one["status"]["boundVolumeSnapshotContentName"]]
    (owner,) = one["metadata"]["ownerReferences"]
    return {
        "named": one["metadata"]["name"].startswith("snapshot-") and len(one["metadata"]["name"]) == 73,
        "finalizers": sorted(set(one["metadata"]["finalizers"]) - {BOUND, GUARD}),
        "owner": (owner["apiVersion"], owner["kind"], owner["name"], owner["uid"] == uid),
        "spec": one["spec"],
        "status": _kept(one["status"], "boundVolumeSnapshotContentName", "creationTime", uid=uid),
        "record": {
            "finalizers": record["metadata"]["finalizers"],
            "group handle": "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle" in record["metadata"]["annotations"],
            "spec": {**record["spec"], "volumeSnapshotRef": record["spec"]["volumeSnapshotRef"]["kind"]},
            "status": sorted(record["status"]),
        },
    }


def test_what_they_make_and_what_we_make_is_the_same_and_each_deletes_the_others(
    plane: ControlPlane, api: Api, driver: RunningDriver, programs: Path, snapshotters: Snapshotters
) -> None:
    shop = GroupShop(api, driver, "groups-same")
    snapshotters.start_theirs(programs, FEATURE)
    shop.ask()
    shop.must_be_ready()
    snapshotters.stop()
    theirs = seen(shop)
    assert len(groups_asked_for(driver)) == 1

    snapshotters.start_ours()
    shop.drop()
    shop.must_be_gone()
    shop.ask()
    shop.must_be_ready()
    ours = seen(shop)
    assert len(groups_asked_for(driver)) == 2
    unlike = [line for line in difflib.ndiff(lines(theirs), lines(ours)) if not line.startswith("  ")]
    assert unlike == []
    snapshotters.stop()
    hand_over(plane)

    # Their controller forgets the content of a group that goes while it starts: it fills its store of groups' contents from its
    # single ones, and has the right ones only once a worker has come to each. It has, once it has made a group of its own. If
    # it came to the group first, it took it for one without a content, and has given its members contents of another name.
    mine = {one["metadata"]["name"] for one in shop.contents()}
    snapshotters.start_theirs(programs, FEATURE)
    shop.ask("next")
    shop.must_be_ready("next")
    shop.drop()
    shop.drop("next")
    shop.must_be_gone(but=mine)


@pytest.mark.parametrize("class_name", [CLASS, RETAINING])
def test_where_a_driver_knows_no_groups_one_that_fails_after_others_were_cut_leaves_none(
    api: Api, plane: ControlPlane, class_name: str
) -> None:
    with running_driver("--without=GROUP_CONTROLLER_SERVICE") as driver:
        shop, snapshotters = GroupShop(api, driver, f"groups-apart-{class_name}"), Snapshotters(plane.kubeconfig, driver)
        try:
            # The driver cuts nothing until it is known what one of the three is called, and then all but that one.
            driver.set(Fault("CreateSnapshot", "UNAVAILABLE"))
            snapshotters.start_ours()
            shop.ask(class_name=class_name)
            eventually(lambda: driver.calls("CreateSnapshot") != [], lambda: "the driver is asked")
            last = shop.member("data-1")["metadata"]["uid"]
            driver.set(Fault("CreateSnapshot", "UNAVAILABLE", match=last))
            eventually(lambda: len(driver.snapshots()) == 2, lambda: f"two are cut: {driver.snapshots()}")
            driver.set(Fault("CreateSnapshot", "INVALID_ARGUMENT", match=last))
            eventually(
                lambda: "None of its snapshots is kept" in str(shop.all(shop.groups)), lambda: str(shop.all(shop.groups))
            )
            eventually(lambda: shop.all(shop.snapshots) == [], lambda: f"none is left: {shop.all(shop.snapshots)}")
            eventually(lambda: driver.snapshots() == [], lambda: "the driver has none")
            driver.set()
            shop.drop()
            shop.must_be_gone()
            shop.ask(class_name=class_name)
            shop.must_be_ready()
            kept = {one["spec"]["deletionPolicy"] for one in shop.contents()}
            assert kept == {"Delete" if class_name == CLASS else "Retain"}
            if class_name == CLASS:
                shop.drop()
                shop.must_be_gone()
        finally:
            print(snapshotters.log())
            snapshotters.end()


def test_on_their_definitions_our_controller_takes_a_group_whose_driver_a_sidecar_calls(tmp_path: Path) -> None:
    files = sorted(built(definitions).glob("*_*.yaml"))
    assert len(files) == 6, "groups and single snapshots: three kinds each"
    with own_plane(tmp_path) as plane, running_driver() as driver:
        api, snapshotters = Api(plane), Snapshotters(plane.kubeconfig, driver)
        try:
            for file in files:
                api.create(DEFINITIONS, yaml.safe_load(file.read_text()))
            ullage(plane, "install")
            theirs = api.get(f"{DEFINITIONS}/volumegroupsnapshots.groupsnapshot.storage.k8s.io").obj
            assert [one["name"] for one in theirs["spec"]["versions"]] == ["v1", "v1beta1", "v1beta2"], "it was left as it was"
            bring_all_classes(api)
            shop = GroupShop(api, driver, "groups-theirs")
            snapshotters.start_ours_apart()
            shop.ask()
            shop.must_be_ready()
            assert len(groups_asked_for(driver)) == 1
            assert driver.calls("CreateSnapshot") == []
            (content,) = shop.all(GROUP_CONTENTS)
            assert len(content["status"]["volumeSnapshotInfoList"]) == len(CLAIMS)
            shop.drop()
            shop.must_be_gone()
        finally:
            print(snapshotters.log())
            snapshotters.end()
