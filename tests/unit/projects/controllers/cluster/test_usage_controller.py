"""Machines of user clusters come, change and go; what the Clusters on the seed say of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest

from tests.unit.kube.client.test_foreign import kubeconfig
from tests.unit.kube.virtual_time import VirtualClock, in_virtual_time
from tests.unit.projects.builders import cluster as cluster_object
from tests.unit.projects.builders import usage
from tests.unit.projects.controllers.seed_server import SeedServer, Told, UserCluster
from tests.unit.projects.machines.builders import KEYS, NOW, SPEC, size
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.kube.clusters.clusters import Clusters
from ullage.kube.clusters.waking import ReachWatch
from ullage.kube.kinds import Meta
from ullage.kube.objects import Condition, find_condition
from ullage.projects.api.kkp import CLUSTERS, Cluster
from ullage.projects.api.machines import MACHINES, Machine, MachineSpec, MachineStatus, NodeReference, ProviderSpec
from ullage.projects.api.records import MACHINE_RECORDS, MachineRecord, MachineRecordStatus, VanishedMachine
from ullage.projects.controllers.cluster_usage import ClusterUsages, UsageCaches
from ullage.projects.machines.counting import Remembered
from ullage.projects.machines.facts import MachineFacts
from ullage.projects.machines.reading import machine_facts
from ullage.projects.machines.signatures import SigningKeys, Verdict, sign_bound, verify
from ullage.projects.names import CLUSTER_UID
from ullage.times import read_time, timestamp

FAILED = "ClusterResourceUsageReconcileFailed"
OTHER_KEYS = SigningKeys(b"o" * 32)


def unstamped(name: str, *, namespace: str = "kube-system", uid: str = "") -> Machine:
    meta = Meta(name=name, namespace=namespace, uid=uid or f"uid-{name}", creation_timestamp=timestamp(NOW))
    return Machine(metadata=meta, spec=MachineSpec(provider_spec=ProviderSpec(value=SPEC)))


def machine(
    name: str, cpu: str = "1", memory: str = "1Gi", *, of: str = "c-1", keys: SigningKeys = KEYS, **more: Any
) -> Machine:
    made = unstamped(name, **more)
    signed = sign_bound(machine_facts(of, made), size(cpu, memory, "10Gi"), keys, now=NOW)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=signed.marks()))


class Scene:
    def __init__(self) -> None:
        self.seed = SeedServer()
        self.clock = VirtualClock()
        self.users: dict[str, UserCluster] = {}
        self.told = Told()
        self.keys: SigningKeys | None = KEYS
        self.remembered: dict[tuple[str, str], Remembered] = {}
        self.secrets: Cache[Secret] = self.cache(SECRETS)
        self.objects: Cache[Cluster] = self.cache(CLUSTERS)
        self.records: Cache[MachineRecord] = self.cache(MACHINE_RECORDS)
        self.clusters = Clusters(self.open, clock=self.clock)
        self.clusters.watch(MACHINES)
        self.reaches = ReachWatch(self.clusters)
        self.usages = ClusterUsages(
            self.seed,
            UsageCaches(clusters=self.objects, records=self.records),
            self.clusters,
            lambda: self.keys,
            remembered=lambda cluster, uid: self.remembered.get((cluster, uid)),
            recorder=self.told,
            clock=self.clock,
        )
        self.controller = self.usages.controller(self.reaches)

    def cache(self, kind: Any) -> Cache[Any]:
        return Cache(self.seed, kind, clock=self.clock, jitter=lambda: 0.5)

    def open(self, config: Config) -> Client:
        return cast(Client, self.users[str(config.token)])

    def cluster(self, name: str, *machines: Machine, followed: bool = True, **given: Any) -> UserCluster:
        """A cluster on the seed, and the machines that it has."""
        made = self.users.setdefault(name, UserCluster())
        for one in machines:
            made.put(MACHINES, one)
        self.seed.put(CLUSTERS, cluster_object(name, **given))
        if followed:
            self.credentials(name)
            self.clusters.follow(name, self.secrets, Key(f"cluster-{name}", "admin-kubeconfig"))
        return made

    def credentials(self, name: str, *, token: str = "") -> None:
        data = secret_data({"kubeconfig": kubeconfig(user={"token": token or name})})
        meta = Meta(name="admin-kubeconfig", namespace=f"cluster-{name}", uid=f"uid-secret-{name}")
        self.seed.put(SECRETS, Secret(metadata=meta, data=data))

    def record(self, name: str = "c-1", *, uid: str = "") -> None:
        """What is recorded of a cluster, or of an earlier one of the name."""
        named = {CLUSTER_UID: uid or f"uid-of-{name}"}
        self.seed.put(MACHINE_RECORDS, MachineRecord(metadata=Meta(name=name, uid=f"uid-record-{name}", annotations=named)))

    def fresh(self, name: str = "c-1") -> Any:
        """What the record says about the figures; None: nothing."""
        found = find_condition(self.seed.get(MACHINE_RECORDS, Key("", name)).status.conditions, "UsageFresh")
        return None if found is None else (found.status, found.reason, found.message)

    def used(self, name: str = "c-1") -> Any:
        return self.seed.get(CLUSTERS, Key("", name)).status.resource_usage

    def writes(self, name: str = "c-1") -> int:
        return sum(one == name for one, _ in self.seed.patched)


def scene(test: Callable[[Scene], Awaitable[None]]) -> Any:
    def run() -> None:
        async def main() -> None:
            found = Scene()
            caches = (found.secrets, found.objects, found.records)
            tasks = [asyncio.create_task(one.run()) for one in (*caches, found.controller)]
            async with found.clusters, found.reaches:
                await test(found)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        in_virtual_time(main())

    run.__name__ = test.__name__
    return run


# --- what is counted -------------------------------------------------------------------------------------------------


@scene
async def test_usage_follows_the_machines_as_they_come_and_go(found: Scene) -> None:
    user = found.cluster("c-1", machine("a"), machine("b", "2", "4Gi"))
    await asyncio.sleep(3)
    assert found.used() == usage("3", "5Gi", "20Gi")
    user.put(MACHINES, machine("c"))
    await asyncio.sleep(3)
    assert found.used() == usage("4", "6Gi", "30Gi")
    user.drop(MACHINES, Key("kube-system", "b"))
    await asyncio.sleep(3)
    assert found.used() == usage("2", "2Gi", "20Gi")
    assert found.told.events == []


@scene
async def test_who_puts_an_earlier_stamp_back_lowers_no_usage(found: Scene) -> None:
    user = found.cluster("c-1", machine("a", "4", "8Gi"))
    await asyncio.sleep(3)
    found.remembered["c-1", "uid-a"] = Remembered("uid-a", size("4", "8Gi", "10Gi"))
    user.put(MACHINES, machine("a", "1", "1Gi"))
    await asyncio.sleep(40)
    assert found.used() == usage("4", "8Gi", "10Gi")
    assert ["an earlier one was put back" in note for _, _, note in found.told.events] == [True]


@scene
async def test_a_machine_without_a_stamp_counts_as_the_record_holds_against_it(found: Scene) -> None:
    user = found.cluster("c-1", machine("a", "4", "8Gi"))
    await asyncio.sleep(3)
    user.put(MACHINES, unstamped("a"))
    found.remembered["c-1", "uid-a"] = Remembered("uid-a", size("6", "8Gi", "10Gi"), held=True)
    found.usages.recorded("c-1", {Key("kube-system", "a"): None})
    await asyncio.sleep(40)
    assert found.used() == usage("6", "8Gi", "10Gi")
    assert found.told.events == []


@scene
async def test_an_earlier_stamp_that_was_read_before_the_record_lowers_no_usage(found: Scene) -> None:
    found.cluster("c-1", machine("a", "1", "1Gi"))
    await asyncio.sleep(3)
    least = size("4", "8Gi", "10Gi")
    found.remembered["c-1", "uid-a"] = Remembered("uid-a", least, held=True)
    found.usages.recorded("c-1", {Key("kube-system", "a"): least, Key("kube-system", "b"): least})
    await asyncio.sleep(3)
    assert found.used() == usage("4", "8Gi", "10Gi")


@scene
async def test_without_machines_it_is_zero_and_not_absent(found: Scene) -> None:
    user = found.cluster("c-1")
    await asyncio.sleep(3)
    assert found.used() == usage("0", "0", "0")
    user.put(MACHINES, machine("a"))
    await asyncio.sleep(3)
    user.drop(MACHINES, Key("kube-system", "a"))
    await asyncio.sleep(3)
    assert found.used() == usage("0", "0", "0")


@scene
async def test_a_machine_that_is_made_anew_under_its_name_counts_once(found: Scene) -> None:
    user = found.cluster("c-1", machine("a"))
    await asyncio.sleep(3)
    user.drop(MACHINES, Key("kube-system", "a"))
    user.put(MACHINES, machine("a", "4", uid="another"))
    await asyncio.sleep(3)
    assert found.used() == usage("4", "1Gi", "10Gi")


@scene
async def test_clusters_do_not_mix_and_machines_of_one_name_in_two_namespaces_are_two(found: Scene) -> None:
    found.cluster("c-1", machine("a"), machine("a", namespace="other", uid="u-2"))
    found.cluster("c-2", machine("a", "8", of="c-2"), of="xyz")
    await asyncio.sleep(3)
    assert (found.used("c-1"), found.used("c-2")) == (usage("2", "2Gi", "20Gi"), usage("8", "1Gi", "10Gi"))


@scene
async def test_what_went_and_may_still_run_counts_on(found: Scene) -> None:
    found.cluster("c-1", machine("a"))
    gone = VanishedMachine(key="k", cpu="4", memory="2Gi", storage="0", since=timestamp(NOW))
    record = MachineRecord(metadata=Meta(name="c-1", uid="r"), status=MachineRecordStatus(vanished=(gone,)))
    found.seed.put(MACHINE_RECORDS, record)
    await asyncio.sleep(3)
    assert found.used() == usage("5", "3Gi", "10Gi")
    found.seed.put(MACHINE_RECORDS, msgspec.structs.replace(record, status=MachineRecordStatus()))
    await asyncio.sleep(3)
    assert found.used() == usage("1", "1Gi", "10Gi")


@scene
async def test_neither_clusters_that_others_run_nor_those_of_no_project_are_counted_or_told_of(found: Scene) -> None:
    found.cluster("c-1", machine("a"), of="")
    found.cluster("c-2", machine("a", of="c-2"), provider="gke")
    await asyncio.sleep(120)
    assert (found.seed.patched, found.told.events) == ([], [])


# --- how often -------------------------------------------------------------------------------------------------------


@scene
async def test_a_cluster_that_changes_all_the_time_is_written_once_a_second(found: Scene) -> None:
    user = found.cluster("c-1")
    await asyncio.sleep(3)
    before = found.writes()
    for number in range(500):
        user.put(MACHINES, machine(f"m-{number}"))
        await asyncio.sleep(0.02)
    assert 8 <= found.writes() - before <= 11, "ten seconds"
    await asyncio.sleep(3)
    assert found.used() == usage("500", "500Gi", "5000Gi"), "and the last is what is there"


@scene
async def test_who_writes_other_figures_is_corrected_later_and_later(found: Scene) -> None:
    found.cluster("c-1", machine("a"))
    await asyncio.sleep(3)
    before, right = found.writes(), found.used()
    for _ in range(60):
        there = found.seed.get(CLUSTERS, Key("", "c-1"))
        wrong = msgspec.structs.replace(there.status, resource_usage=usage("9"))
        found.seed.put(CLUSTERS, msgspec.structs.replace(there, status=wrong))
        await asyncio.sleep(5)
    assert 3 <= found.writes() - before <= 12, "in five minutes"
    await asyncio.sleep(600)
    assert found.used() == right


async def counting(number: int, changed: Callable[[str], Machine]) -> list[int]:
    """How often a stamp is verified while ten of so many machines change."""
    calls: list[int] = []

    def counted(facts: MachineFacts, keys: SigningKeys) -> Verdict:
        calls.append(1)
        return verify(facts, keys)

    found = Scene()
    reading = asyncio.create_task(found.secrets.run())
    objects = asyncio.create_task(found.objects.run())
    user = found.cluster("c-1", *(machine(f"m-{one}") for one in range(number)))
    async with found.clusters:
        await asyncio.sleep(5)
        with pytest.MonkeyPatch.context() as patched:
            module = "ullage.projects.controllers.cluster_usage_sums.verify"
            patched.setattr(module, counted)
            for one in range(10):
                user.put(MACHINES, changed(f"m-{one}"))
            await asyncio.sleep(5)
    for task in (reading, objects):
        task.cancel()
    await asyncio.gather(reading, objects, return_exceptions=True)
    return calls


@pytest.mark.parametrize("number", [10, 400])
def test_a_change_costs_the_same_however_many_machines_there_are(number: int) -> None:
    assert len(in_virtual_time(counting(number, lambda name: machine(name, "2")))) == 10


def test_how_machines_do_costs_nothing() -> None:
    ready = MachineStatus(node_ref=NodeReference(name="node"))
    assert in_virtual_time(counting(10, lambda name: msgspec.structs.replace(machine(name), status=ready))) == []


# --- what cannot be counted ------------------------------------------------------------------------------------------


@scene
async def test_a_machine_without_a_good_stamp_is_named_and_the_figures_stay(found: Scene) -> None:
    user = found.cluster("c-1", machine("a"))
    await asyncio.sleep(3)
    user.put(MACHINES, unstamped("bad"))
    user.put(MACHINES, machine("copied", of="another"))
    user.put(MACHINES, machine("good", "7"))
    await asyncio.sleep(20)
    assert (found.used(), found.told.events) == (usage("1", "1Gi", "10Gi"), []), "it may be stamped soon"
    await asyncio.sleep(600)
    assert found.used() == usage("1", "1Gi", "10Gi")
    [(name, reason, note)] = found.told.events
    assert (name, reason) == ("c-1", FAILED)
    assert note.startswith(
        "these machines cannot be counted, and the usage is that of before: kube-system/bad: "
        "metadata.annotations[ullage.io/takes]: it is missing; kube-system/copied: "
    )
    user.put(MACHINES, machine("bad", "2"))
    user.drop(MACHINES, Key("kube-system", "copied"))
    await asyncio.sleep(10)
    assert found.used() == usage("10", "3Gi", "30Gi")


@scene
async def test_machines_that_are_stamped_soon_are_no_news(found: Scene) -> None:
    user = found.cluster("c-1", *(unstamped(f"m-{one}") for one in range(100)))
    await asyncio.sleep(10)
    assert found.used() is None, "nobody has counted yet"
    for one in range(100):
        user.put(MACHINES, machine(f"m-{one}"))
    await asyncio.sleep(60)
    assert (found.used(), found.told.events) == (usage("100", "100Gi", "1000Gi"), [])


@scene
async def test_another_trouble_is_told_of_and_the_same_is_not(found: Scene) -> None:
    user = found.cluster("c-1", unstamped("bad"))
    await asyncio.sleep(100)
    user.put(MACHINES, unstamped("worse"))
    await asyncio.sleep(300)
    assert len(found.told.events) == 2
    assert "kube-system/worse" in found.told.events[1][2]


@scene
async def test_a_cluster_that_is_out_of_reach_keeps_its_figures_and_is_counted_when_it_is_back(found: Scene) -> None:
    user = found.cluster("c-1", machine("a"))
    await asyncio.sleep(3)
    user.cut_off()
    user.put(MACHINES, machine("b"))
    await asyncio.sleep(600)
    assert found.used() == usage("1", "1Gi", "10Gi")
    assert {(name, reason) for name, reason, _ in found.told.events} == {("c-1", FAILED)}
    assert "its machines cannot be read, and the usage is that of before" in found.told.events[0][2]
    user.come_back()
    await asyncio.sleep(120)
    assert found.used() == usage("2", "2Gi", "20Gi")


@scene
async def test_one_whose_kubeconfig_is_not_there_is_told_of_after_a_moment(found: Scene) -> None:
    found.cluster("c-1", machine("a"), followed=False)
    found.clusters.follow("c-1", found.secrets, Key("cluster-c-1", "admin-kubeconfig"))
    await asyncio.sleep(20)
    assert found.told.events == [], "it is being made"
    await asyncio.sleep(60)
    [(name, reason, note)] = found.told.events
    assert (name, reason) == ("c-1", FAILED)
    assert "there is no such Secret" in note
    found.credentials("c-1")
    await asyncio.sleep(60)
    assert found.used() == usage("1", "1Gi", "10Gi")


@scene
async def test_new_credentials_are_of_another_reading(found: Scene) -> None:
    found.cluster("c-1", machine("a"), machine("b"))
    await asyncio.sleep(3)
    found.users["renewed"] = UserCluster()
    found.users["renewed"].put(MACHINES, machine("only", "5"))
    found.credentials("c-1", token="renewed")
    await asyncio.sleep(10)
    assert found.used() == usage("5", "1Gi", "10Gi")
    found.users["c-1"].put(MACHINES, machine("late"))
    await asyncio.sleep(10)
    assert found.used() == usage("5", "1Gi", "10Gi"), "nobody listens to the one of before"


@scene
async def test_a_key_that_comes_late_or_is_changed_has_everything_looked_at_again(found: Scene) -> None:
    found.keys = None
    found.cluster("c-1", machine("a"), machine("b", keys=OTHER_KEYS))
    await asyncio.sleep(10)
    assert found.used() is None
    found.keys = KEYS
    found.usages.renew()
    await asyncio.sleep(10)
    assert found.used() is None, "one of them is signed by another"
    found.keys = replace(KEYS, accepted=OTHER_KEYS.signs)
    found.usages.renew()
    await asyncio.sleep(10)
    assert found.used() == usage("2", "2Gi", "20Gi")


@scene
async def test_a_record_that_cannot_be_read_keeps_the_figures(found: Scene) -> None:
    found.cluster("c-1", machine("a"))
    await asyncio.sleep(3)
    gone = VanishedMachine(key="k", cpu="many", since=timestamp(NOW))
    found.seed.put(
        MACHINE_RECORDS, MachineRecord(metadata=Meta(name="c-1", uid="r"), status=MachineRecordStatus(vanished=(gone,)))
    )
    await asyncio.sleep(100)
    assert found.used() == usage("1", "1Gi", "10Gi")
    assert "machinerecord c-1" in found.told.events[0][2]


# --- figures that are not of now -------------------------------------------------------------------------------------


@scene
async def test_the_record_of_a_cluster_that_cannot_be_read_says_so_until_it_can(found: Scene) -> None:
    user = found.cluster("c-1", machine("a"))
    found.record()
    await asyncio.sleep(10)
    assert found.fresh() is None, "it was always well: nothing is written"
    began = found.clock.now()
    user.cut_off()
    await asyncio.sleep(20)
    assert found.fresh() is None, "it may be over in a moment"
    await asyncio.sleep(60)
    status, reason, message = found.fresh()
    assert (status, reason) == ("False", "MachinesNotRead")
    assert message.startswith("its machines cannot be read, and the usage is that of before: ")
    since = read_time(found.seed.get(MACHINE_RECORDS, Key("", "c-1")).status.conditions[0].last_transition_time)
    assert since is not None
    assert timedelta(seconds=-1) <= since - began <= timedelta(seconds=10), "since when it is so, not since when it is told"
    before = found.writes()
    await asyncio.sleep(3600)
    assert found.writes() == before, "one that stays away is not written again and again"
    user.come_back()
    await asyncio.sleep(120)
    assert found.fresh() == ("True", "Fresh", "what its machines take is of now")
    before = found.writes()
    await asyncio.sleep(600)
    assert found.writes() == before


@scene
async def test_the_record_of_a_cluster_with_one_machine_that_cannot_be_counted_says_so(found: Scene) -> None:
    user = found.cluster("c-1", machine("a"))
    found.record()
    user.put(MACHINES, unstamped("bad"))
    await asyncio.sleep(60)
    status, reason, message = found.fresh()
    assert (status, reason) == ("False", "MachinesNotCounted")
    assert message.startswith("this machine cannot be counted, and the usage is that of before: kube-system/bad: ")
    user.put(MACHINES, machine("bad"))
    await asyncio.sleep(10)
    assert found.fresh()[0] == "True"


@scene
async def test_what_another_process_found_stale_is_fresh_once_it_is_read(found: Scene) -> None:
    old = Condition(
        type="UsageFresh", status="False", reason="MachinesNotRead", message="x", last_transition_time=timestamp(NOW)
    )
    found.record()
    there = found.seed.get(MACHINE_RECORDS, Key("", "c-1"))
    found.seed.put(MACHINE_RECORDS, msgspec.structs.replace(there, status=MachineRecordStatus(conditions=(old,))))
    found.cluster("c-1", machine("a"))
    await asyncio.sleep(10)
    assert found.fresh()[:2] == ("True", "Fresh")


@scene
async def test_the_record_of_an_earlier_cluster_of_the_name_is_left_alone(found: Scene) -> None:
    found.record(uid="earlier")
    found.cluster("c-1", machine("a")).cut_off()
    await asyncio.sleep(100)
    assert found.fresh() is None
