"""From quota objects to limits in ledgers, and back to nothing: whatever goes, and whoever dies in between."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping

import pytest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.snapshots.memory_api import Fuse
from tests.unit.space.builders import GI, quota, takes
from tests.unit.space.controllers.quota.scene import TEAM, QuotaScene
from ullage.kube.builtin.core import NAMESPACES
from ullage.ledger.api import LEDGERS
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.space.api import ALLOW_ZERO, HARVESTER_QUOTAS, NAME, KnownVM
from ullage.space.controllers.quota_limits import remember, removal_note
from ullage.vms.api.machines import VIRTUAL_MACHINES

WHOLE = "snapshots/namespace"
DB = "snapshots/vm/db"
LIMITS = "space-limits"


def simulated(test: Callable[[QuotaScene], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        scene = QuotaScene()
        scene.namespace()
        await test(scene)

    @functools.wraps(test)
    def wrapped() -> None:
        in_virtual_time(run())

    del wrapped.__wrapped__  # else pytest looks for a fixture called scene
    return wrapped


# --- limits ----------------------------------------------------------------------------------------------------------


@simulated
async def test_a_ledger_has_the_limits_of_the_quota_as_they_change(scene: QuotaScene) -> None:
    async with scene.running(LIMITS):
        scene.quota(10 * GI, {"db": 3})
        await scene.until(lambda: scene.limits() == {WHOLE: "10Gi", DB: "3"})
        scene.edit({"namespaceTotalSnapshotSizeQuota": 5 * GI, "vmTotalSnapshotSizeQuota": {"db": None, "web": 7}})
        await scene.until(lambda: scene.limits() == {WHOLE: "5Gi", "snapshots/vm/web": "7"})
        scene.edit({"namespaceTotalSnapshotSizeQuota": 0})
        await scene.until(lambda: scene.limits() == {"snapshots/vm/web": "7"})
        scene.api.edit(HARVESTER_QUOTAS, NAME, TEAM, merge={"metadata": {"annotations": {ALLOW_ZERO: "true"}}})
        await scene.until(lambda: scene.limits() == {WHOLE: "0", "snapshots/vm/web": "7"})
        scene.api.remove(HARVESTER_QUOTAS, NAME, TEAM)
        await scene.until(lambda: scene.limits() == {})


@simulated
async def test_a_quota_without_limits_has_a_ledger_since_it_counts(scene: QuotaScene) -> None:
    async with scene.running(LIMITS):
        scene.quota()
        await scene.until(lambda: scene.limits() == {})


@simulated
async def test_a_quota_of_another_name_limits_nothing(scene: QuotaScene) -> None:
    scene.quota(5, name="another")
    async with scene.running(LIMITS):
        await scene.quiet()
        assert scene.ledger() is None


@simulated
async def test_limits_that_are_about_something_else_stay(scene: QuotaScene) -> None:
    limits = {"machines": {"cpu": "4"}, WHOLE: {"storage": "1"}}
    body = {"metadata": {"name": f"ns-{TEAM}", "namespace": LEDGER_NAMESPACE}, "spec": {"change": 4, "limits": limits}}
    scene.api.put(LEDGERS, body)
    async with scene.running(LIMITS):
        await scene.until(lambda: WHOLE not in _accounts(scene))
    assert _accounts(scene) == {"machines"}


@simulated
async def test_limits_that_somebody_changed_in_the_ledger_come_back(scene: QuotaScene) -> None:
    scene.quota(5)
    async with scene.running(LIMITS):
        await scene.until(lambda: scene.limits() == {WHOLE: "5"})
        found = scene.ledger()
        assert found is not None
        more = {"change": found.spec.change + 1, "limits": {WHOLE: {"storage": "999"}}}
        scene.api.edit(LEDGERS, f"ns-{TEAM}", LEDGER_NAMESPACE, merge={"spec": more})
        await scene.until(lambda: scene.limits() == {WHOLE: "5"})
        scene.api.remove(LEDGERS, f"ns-{TEAM}", LEDGER_NAMESPACE)
        await scene.until(lambda: scene.limits() == {WHOLE: "5"})


@simulated
async def test_bookings_cost_no_look_at_the_api(scene: QuotaScene) -> None:
    scene.quota(5)
    async with scene.running():
        await scene.until(lambda: scene.limits() == {WHOLE: "5"})
        await scene.quiet()
        scene.api.calls.clear()
        for size in range(50):
            scene.count(takes(size))
            await scene.quiet(0.1)
        assert scene.api.count("patch resourcequotas/status") > 3, "the quota changes, too"
        assert [call for call in scene.api.calls if not call.startswith("patch resourcequotas/status")] == []


@simulated
async def test_two_at_once_do_the_same_twice(scene: QuotaScene) -> None:
    other = QuotaScene()
    other.api = scene.api
    scene.machine("db")
    async with scene.running(), other.running():
        scene.quota(5, {"db": 3})
        await scene.until(lambda: scene.limits() == {WHOLE: "5", DB: "3"} and scene.known() == {"db": "uid-db"})
        scene.api.remove(VIRTUAL_MACHINES, "db", TEAM)
        await scene.until(lambda: scene.vm_limits() == {} and scene.limits() == {WHOLE: "5"})
        scene.edit({"namespaceTotalSnapshotSizeQuota": 6})
        await scene.until(lambda: scene.limits() == {WHOLE: "6"})
        await scene.quiet()
        assert scene.limits() == {WHOLE: "6"}


# --- namespaces ------------------------------------------------------------------------------------------------------


@simulated
async def test_a_ledger_goes_with_its_namespace_and_another_of_its_name_begins_anew(scene: QuotaScene) -> None:
    async with scene.running(LIMITS):
        scene.quota(5)
        await scene.until(lambda: scene.limits() == {WHOLE: "5"})
        scene.api.remove(HARVESTER_QUOTAS, NAME, TEAM)
        scene.api.remove(NAMESPACES, TEAM)
        await scene.until(lambda: scene.ledger() is None)
        scene.namespace()
        await scene.quiet()
        assert scene.ledger() is None
        scene.quota(7)
        await scene.until(lambda: scene.limits() == {WHOLE: "7"})


@simulated
async def test_a_namespace_that_went_while_nobody_looked_takes_its_ledger_along(scene: QuotaScene) -> None:
    scene.api.put(LEDGERS, {"metadata": {"name": "ns-old", "namespace": LEDGER_NAMESPACE}})
    scene.api.put(LEDGERS, {"metadata": {"name": "project-x", "namespace": LEDGER_NAMESPACE}})
    async with scene.running(LIMITS):
        await scene.until(lambda: scene.ledger("old") is None)
        await scene.quiet()
    assert scene.api.body(LEDGERS, "project-x", LEDGER_NAMESPACE) is not None, "it is of no namespace"


@simulated
async def test_a_namespace_that_the_cache_does_not_show_yet_keeps_its_ledger(scene: QuotaScene) -> None:
    scene.api.put(LEDGERS, {"metadata": {"name": "ns-new", "namespace": LEDGER_NAMESPACE}})
    find = scene.api.find

    async def live(kind: object, name: str, namespace: str = "") -> object:
        return object() if kind is NAMESPACES else await find(kind, name, namespace)  # type: ignore[arg-type]

    scene.api.find = live  # type: ignore[method-assign]
    async with scene.running(LIMITS):
        await scene.quiet()
        assert scene.ledger("new") is not None


# --- virtual machines ------------------------------------------------------------------------------------------------

SEEN = {"db": KnownVM(uid="u-1", limit=5)}


@pytest.mark.parametrize(
    ("vms", "before", "there", "known", "gone"),
    [
        pytest.param({"db": 5}, {}, {}, {}, (), id="a limit that is set ahead of its VM stays"),
        pytest.param({"db": 5}, {}, {"db": "u-1"}, SEEN, (), id="a VM is seen"),
        pytest.param({"db": 5}, SEEN, {"db": "u-1"}, SEEN, (), id="it is still there"),
        pytest.param({"db": 6}, SEEN, {"db": "u-1"}, {"db": KnownVM(uid="u-1", limit=6)}, (), id="it has another limit"),
        pytest.param({"db": 5}, SEEN, {}, SEEN, ("db",), id="it is gone, and so is its limit"),
        pytest.param({"db": 5}, SEEN, {"db": "u-2"}, SEEN, ("db",), id="another one of its name does not inherit"),
        pytest.param({"db": 6}, SEEN, {"db": "u-2"}, {"db": KnownVM(uid="u-2", limit=6)}, (), id="but may get one of its own"),
        pytest.param({"db": 6}, SEEN, {}, {}, (), id="a limit that was set since is ahead of the next"),
        pytest.param({}, SEEN, {"db": "u-1"}, {}, (), id="a limit that was taken away is forgotten"),
        pytest.param({}, {}, {"db": "u-1"}, {}, (), id="a VM without a limit is none of our business"),
    ],
)
def test_what_is_remembered_of_vms(
    vms: dict[str, int],
    before: Mapping[str, KnownVM],
    there: dict[str, str],
    known: Mapping[str, KnownVM],
    gone: tuple[str, ...],
) -> None:
    found = remember(quota(None, vms), before, lambda vm: there.get(vm, ""))
    assert (found.known, found.gone) == (known, gone)


@simulated
async def test_a_deleted_vm_takes_its_limit_along_and_leaves_the_others(scene: QuotaScene) -> None:
    scene.machine("db")
    scene.quota(None, {"db": 5, "web": 6})
    async with scene.running(LIMITS):
        await scene.until(lambda: scene.known() == {"db": "uid-db"})
        scene.api.remove(VIRTUAL_MACHINES, "db", TEAM)
        await scene.until(lambda: scene.vm_limits() == {"web": 6})
        await scene.until(lambda: scene.limits() == {"snapshots/vm/web": "6"} and scene.known() == {})
        assert scene.told.events == [("Normal", "LimitRemoved", "VM db (5 bytes) is deleted, and its limit with it.")]
        scene.machine("db", uid="another")
        await scene.quiet()
        assert scene.vm_limits() == {"web": 6}


@simulated
async def test_a_vm_that_was_made_anew_while_nobody_looked_does_not_inherit(scene: QuotaScene) -> None:
    scene.machine("db")
    scene.quota(None, {"db": 5})
    async with scene.running(LIMITS):
        await scene.until(lambda: scene.known() == {"db": "uid-db"})
    scene.api.remove(VIRTUAL_MACHINES, "db", TEAM)
    scene.machine("db", uid="another")
    async with scene.running(LIMITS):
        await scene.until(lambda: scene.vm_limits() == {} and scene.limits() == {})


@simulated
async def test_without_kubevirt_no_limit_is_taken_away(scene: QuotaScene) -> None:
    scene.quota(None, {"db": 5}, status={"knownVMs": {"db": {"uid": "u-1", "limit": 5}}})
    scene.api.machines = False
    async with scene.running(LIMITS):
        await scene.until(lambda: scene.limits() == {DB: "5"})
        await scene.quiet()
        assert scene.vm_limits() == {"db": 5}


@simulated
async def test_a_vm_that_only_the_cache_has_lost_keeps_its_limit(scene: QuotaScene) -> None:
    scene.quota(None, {"db": 5}, status={"knownVMs": {"db": {"uid": "u-1", "limit": 5}}})
    find = scene.api.find

    async def live(kind: object, name: str, namespace: str = "") -> object:
        if kind is VIRTUAL_MACHINES:
            return VIRTUAL_MACHINES.type(metadata=VIRTUAL_MACHINES.type().metadata.__class__(name=name, uid="u-1"))
        return await find(kind, name, namespace)  # type: ignore[arg-type]

    scene.api.find = live  # type: ignore[method-assign]
    async with scene.running(LIMITS):
        await scene.quiet()
        assert scene.vm_limits() == {"db": 5}


@simulated
async def test_a_vm_that_the_api_still_shows_is_looked_up_again(scene: QuotaScene) -> None:
    """No event tells the controller when the API stops showing it: the cache has lost it already."""
    scene.quota(None, {"db": 5}, status={"knownVMs": {"db": {"uid": "u-1", "limit": 5}}})
    find, shown = scene.api.find, True

    async def live(kind: object, name: str, namespace: str = "") -> object:
        if kind is VIRTUAL_MACHINES and shown:
            return VIRTUAL_MACHINES.type(metadata=VIRTUAL_MACHINES.type().metadata.__class__(name=name, uid="u-1"))
        return await find(kind, name, namespace)  # type: ignore[arg-type]

    scene.api.find = live  # type: ignore[method-assign]
    async with scene.running(LIMITS):
        await scene.quiet()
        assert scene.vm_limits() == {"db": 5}
        shown = False
        await scene.until(lambda: scene.vm_limits() == {}, seconds=3.0)


@simulated
async def test_where_the_definition_has_no_place_for_it_vms_are_remembered_all_the_same(scene: QuotaScene) -> None:
    scene.api.drops = ("knownVMs",)
    scene.machine("db")
    scene.quota(None, {"db": 5})
    async with scene.running(LIMITS):
        await scene.until(lambda: scene.limits() == {DB: "5"})
        await scene.quiet()
        assert scene.api.count("patch resourcequotas/status") == 1, "what is dropped is not written again and again"
        scene.api.remove(VIRTUAL_MACHINES, "db", TEAM)
        await scene.until(lambda: scene.vm_limits() == {})


def test_whoever_dies_at_any_moment_another_one_brings_it_to_its_end() -> None:
    async def one_life(blows_at: int) -> int:
        scene = QuotaScene()
        scene.namespace()
        scene.machine("db")
        scene.quota(9, {"db": 5, "web": 6})
        scene.api.fuse = Fuse(blows_at)
        await scene.live(
            lambda: scene.known() == {"db": "uid-db"} and scene.limits() == {WHOLE: "9", DB: "5", f"{DB[:-2]}web": "6"}
        )
        scene.api.remove(VIRTUAL_MACHINES, "db", TEAM)
        await scene.live(lambda: scene.vm_limits() == {"web": 6} and scene.limits() == {WHOLE: "9", f"{DB[:-2]}web": "6"})
        assert blows_at == -1 or scene.api.fuse.passed >= blows_at, "the last moment has passed"
        return scene.api.fuse.passed

    moments = in_virtual_time(one_life(-1))
    assert moments >= 10
    for moment in range(1, moments + 1):
        in_virtual_time(one_life(moment))


def test_what_is_told_of_many_limits() -> None:
    said = removal_note({f"vm-{n}": n * GI for n in range(1, 9)})
    assert said == (
        "VMs vm-1 (1Gi), vm-2 (2Gi), vm-3 (3Gi), vm-4 (4Gi), vm-5 (5Gi) and 3 more are deleted, and their limits with them."
    )


def _accounts(scene: QuotaScene) -> set[str]:
    found = scene.ledger()
    return set(found.spec.limits) if found is not None else set()
