"""VirtualMachines: every way to start is caught, growth alone counts, and nobody sets a stamp."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from tests.unit.headroom.builders import ONE, ONE_COST, Json, domain, instance, machine, stamped
from tests.unit.headroom.scene import (
    DESIGNED,
    INSTANCES,
    KUBEVIRT,
    OURS,
    PERSON,
    VIRT_API,
    VIRTUAL_MACHINES,
    Scene,
    merged,
    simulated,
)
from ullage.headroom.settings import Settings
from ullage.ledger.charging.stamps import COST, STAMP
from ullage.vms.pricing import PricingChoice

COSTS = {"cpu": "1", "memory": "1222Mi"}
MARKS = {"takes": {"compute/vms": COSTS}, "cost": COSTS}
TWO = {"cpu": "2", "memory": "2560Mi"}  # room for two of them
BY_V1_6 = Settings(pricing=PricingChoice(version="v1.6"))
# The limit of 1Gi; 220Mi of processes, 32Mi of screen, 100Mi since it is guaranteed, 18Mi of vCPU, IO thread and page tables;
# and 60M of guest-console-log.
V1_6 = ((1024 + 220 + 32 + 100 + 18) << 20) + 60 * 10**6
NONE = {"cpu": "0", "memory": "0"}
STOPPED: Json = {"printable": "Stopped", "acted": "Halted"}
SMALL, LARGE = domain(memory="512Mi", guest="400Mi"), domain(cpu="2", memory="2Gi", guest="1948Mi")


async def fill(scene: Scene, count: int = 2) -> None:
    for number in range(count):
        assert (await scene.submit(VIRTUAL_MACHINES, machine(f"full-{number}", strategy="Always"))).allowed


# --- creation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        pytest.param(machine(strategy="Halted"), True, id="a halted one costs nothing"),
        pytest.param(machine(strategy="Manual"), True, id="nor one that is started by hand"),
        pytest.param(machine(strategy=None, running=False), True, id="nor one that is not to run"),
        pytest.param(machine(strategy="Always"), False, id="Always"),
        pytest.param(machine(strategy=None, running=True), False, id="running"),
        pytest.param(machine(strategy="RerunOnFailure"), False, id="RerunOnFailure"),
        pytest.param(machine(strategy="Once"), False, id="Once"),
        pytest.param(machine(strategy="Halted", printable="Running", created=True), True, id="a status is not created with it"),
    ],
)
@simulated
async def test_what_a_creation_costs_where_the_share_is_full(scene: Scene, body: Json, fits: bool) -> None:
    scene.limits(vms=TWO)
    async with scene.served():
        await fill(scene)
        decided = await scene.submit(VIRTUAL_MACHINES, body)
        assert decided.allowed is fits
        if fits:
            assert scene.marks(VIRTUAL_MACHINES, "db") == MARKS, "it is stamped for when it starts"


@simulated
async def test_a_refusal_has_every_exceeded_resource_with_numbers_and_a_next_step(scene: Scene) -> None:
    scene.limits(vms=TWO)
    async with scene.served():
        await fill(scene)
        decided = await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))
    assert (decided.code, decided.reason) == (403, "Forbidden")
    assert re.sub(r"used [^,]*, pending [^,]*", "…", decided.message) == (
        "VM available resources are insufficient: cpu: asked 1 core, …, share 2 cores; memory: asked 1.2Gi, …, share 2.5Gi."
        " Next: ullage usage -n team, then ullage vm stop NAME -n team, or have the quota raised"
    )


@simulated
async def test_exactly_full_is_allowed_and_a_thousandth_more_is_not(scene: Scene) -> None:
    scene.limits(vms={"cpu": "2"})
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine("a", strategy="Always"))).allowed
        assert not (await scene.submit(VIRTUAL_MACHINES, machine("b", strategy="Always", template=domain(cpu="1001m")))).allowed
        assert (await scene.submit(VIRTUAL_MACHINES, machine("c", strategy="Always"))).allowed


@simulated
async def test_a_share_of_nothing_starts_nothing_and_where_there_is_no_limit_everything_is_stamped(scene: Scene) -> None:
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine("before", strategy="Always"))).allowed
        assert scene.marks(VIRTUAL_MACHINES, "before") == MARKS
        scene.limits(vms=NONE)
        assert not (await scene.submit(VIRTUAL_MACHINES, machine("after", strategy="Always"))).allowed
        assert (await scene.submit(VIRTUAL_MACHINES, machine("halted"))).allowed


@simulated
async def test_a_template_that_makes_no_sense_is_refused_by_its_field(scene: Scene) -> None:
    async with scene.served():
        decided = await scene.submit(VIRTUAL_MACHINES, machine(template=domain(memory="much")))
    assert (decided.code, decided.causes[0].field) == (422, "spec.template.spec.domain.resources.limits.memory")
    assert decided.message.startswith("spec.template.spec.domain.resources.limits.memory much: ")


# --- starts ----------------------------------------------------------------------------------------------------------

START = {"stateChangeRequests": [{"action": "Start"}]}


@pytest.mark.parametrize(
    ("body", "change", "user"),
    [
        pytest.param(machine(**STOPPED), {"spec": {"runStrategy": "Always"}}, PERSON, id="runStrategy"),
        pytest.param(machine(**STOPPED), {"spec": {"runStrategy": "RerunOnFailure"}}, PERSON, id="a strategy that starts once"),
        pytest.param(machine(**STOPPED), {"spec": {"runStrategy": "Once"}}, PERSON, id="a strategy that runs once"),
        pytest.param(machine(strategy=None, running=False, **STOPPED), {"spec": {"running": True}}, PERSON, id="running"),
        pytest.param(
            machine(strategy="Manual", printable="Stopped", acted="Manual"), {"status": START}, PERSON, id="a request to start"
        ),
        pytest.param(
            machine(strategy="Manual", printable="Stopped", acted="Manual"),
            {"status": START},
            VIRT_API,
            id="KubeVirt's API asks",
        ),
        pytest.param(machine(**STOPPED), {"status": START}, VIRT_API, id="of a halted one"),
        pytest.param(
            machine(strategy="RerunOnFailure", printable="Stopped", acted="RerunOnFailure"),
            {"status": START},
            VIRT_API,
            id="of one that has ended well",
        ),
        pytest.param(
            machine(strategy="Manual", printable="Stopped", acted="Manual"),
            {"status": {"printableStatus": "Running"}},
            PERSON,
            id="a person who says that it runs",
        ),
    ],
)
@simulated
async def test_every_way_to_start_is_refused_where_it_does_not_fit_and_booked_where_it_does(
    scene: Scene, body: Json, change: dict[str, Json], user: str
) -> None:
    scene.limits(vms=TWO)
    async with scene.served():
        scene.store(VIRTUAL_MACHINES, merged(body, {"metadata": {"annotations": stamped()}}))
        await fill(scene)
        refused = await scene.change(VIRTUAL_MACHINES, "db", user=user, **change)
        assert (refused.code, refused.message.partition(":")[0]) == (403, "VM available resources are insufficient")
        scene.remove(VIRTUAL_MACHINES, "full-0")
        await settle()
        assert (await scene.change(VIRTUAL_MACHINES, "db", user=user, **change)).allowed
        await settle()
        assert scene.counted() == {"compute/vms": {"cpu": "2", "memory": "2444Mi"}}


async def settle() -> None:
    """The caches have heard."""
    await asyncio.sleep(5)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"printableStatus": "Running", "created": True}, id="it runs"),
        pytest.param({"printableStatus": "Starting"}, id="it starts"),
        pytest.param({"printableStatus": "Stopping", "created": True}, id="it stops"),
    ],
)
@simulated
async def test_what_kubevirt_says_has_happened_counts_although_it_does_not_fit(scene: Scene, status: Json) -> None:
    scene.limits(vms=TWO)
    async with scene.served():
        scene.store(VIRTUAL_MACHINES, machine(strategy="Manual", printable="Stopped", acted="Manual", annotations=stamped()))
        await fill(scene)
        assert (await scene.change(VIRTUAL_MACHINES, "db", user=KUBEVIRT, status=status)).allowed
        await settle()
        assert scene.counted() == {"compute/vms": {"cpu": "3", "memory": "3666Mi"}}
        assert not (await scene.submit(VIRTUAL_MACHINES, machine("next", strategy="Always"))).allowed


@simulated
async def test_an_account_of_such_a_name_elsewhere_is_nobody(scene: Scene) -> None:
    scene.limits(vms=NONE)
    async with scene.served():
        scene.store(VIRTUAL_MACHINES, machine(strategy="Manual", printable="Stopped", acted="Manual", annotations=stamped()))
        mine = "system:serviceaccount:team:kubevirt-controller"
        assert not (await scene.change(VIRTUAL_MACHINES, "db", user=mine, status={"printableStatus": "Running"})).allowed


@simulated
async def test_of_fifty_starts_at_once_exactly_those_that_fit_are_admitted(scene: Scene) -> None:
    """7 × 1 core = 7 cores, and 7 × 1222Mi = 8554Mi: an eighth fits neither."""
    scene.limits(vms={"cpu": "7500m", "memory": "9000Mi"})
    async with scene.served():
        for number in range(50):
            scene.store(VIRTUAL_MACHINES, machine(f"vm-{number}", **STOPPED, annotations=stamped()))
        starts = {"runStrategy": "Always"}, {"runStrategy": "RerunOnFailure"}
        decided = await asyncio.gather(
            *(scene.change(VIRTUAL_MACHINES, f"vm-{number}", spec=starts[number % 2]) for number in range(25)),
            *(scene.change(VIRTUAL_MACHINES, f"vm-{number}", user=VIRT_API, status=START) for number in range(25, 50)),
        )
        assert sum(one.allowed for one in decided) == 7
        assert {one.code for one in decided if not one.allowed} == {403}
        await settle()
        assert scene.counted() == {"compute/vms": {"cpu": "7", "memory": "8554Mi"}}


# --- growth and shrinking --------------------------------------------------------------------------------------------


@simulated
async def test_an_update_counts_its_growth_only(scene: Scene) -> None:
    """Of 3 cores 2 are taken: by one more it may grow, and not by two."""
    scene.limits(vms={"cpu": "3"})
    async with scene.served():
        await fill(scene, 1)
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        three = {"template": {"spec": {"domain": domain(cpu="3")}}}
        assert not (await scene.change(VIRTUAL_MACHINES, "db", spec=three)).allowed
        two = {"template": {"spec": {"domain": domain(cpu="2")}}}
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec=two)).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db")["takes"]["compute/vms"]["cpu"] == "2"


@simulated
async def test_a_stopped_machine_may_be_made_larger_than_there_is_room_and_then_does_not_start(scene: Scene) -> None:
    scene.limits(vms=TWO)
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine(**STOPPED))).allowed
        larger = {"template": {"spec": {"domain": domain(cpu="9")}}}
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec=larger)).allowed
        assert not (await scene.change(VIRTUAL_MACHINES, "db", spec={"runStrategy": "Always"})).allowed


@simulated
async def test_what_runs_keeps_its_cost_when_the_template_becomes_smaller(scene: Scene) -> None:
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        scene.store(INSTANCES, instance(owner=scene.uid("db"), annotations=stamped("{}", cost=ONE_COST)))
        smaller = {"template": {"spec": {"domain": SMALL}}}
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec=smaller)).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db") == {**MARKS, "cost": {"cpu": "1", "memory": "709Mi"}}, (
            "and is known to be smaller"
        )
        larger = {"template": {"spec": {"domain": LARGE}}}
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec=larger)).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db")["takes"]["compute/vms"]["cpu"] == "2"
        scene.remove(INSTANCES, "db")
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec=smaller)).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db")["takes"]["compute/vms"]["memory"] == "709Mi"


@simulated
async def test_another_s_instance_of_that_name_does_not_count_for_the_machine(scene: Scene) -> None:
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        scene.store(INSTANCES, instance(owner="another", annotations=stamped("{}", cost='{"cpu":"64"}')))
        smaller = {"template": {"spec": {"domain": SMALL}}}
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec=smaller)).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db")["takes"]["compute/vms"]["cpu"] == "1"


@simulated
async def test_a_machine_is_priced_anew_when_it_starts_as_its_instance_will_be(scene: Scene) -> None:
    """The stamp is from a time with another table."""
    async with scene.served():
        scene.store(VIRTUAL_MACHINES, machine(**STOPPED, annotations=stamped('{"compute/vms":{"cpu":"1","memory":"1Mi"}}')))
        assert (await scene.change(VIRTUAL_MACHINES, "db", metadata={"labels": {"a": "b"}})).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db")["takes"]["compute/vms"]["memory"] == "1Mi"
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec={"runStrategy": "Always"})).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db") == MARKS


@simulated
async def test_the_version_of_kubevirt_is_a_setting(scene: Scene) -> None:
    scene.settings = BY_V1_6
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine())).allowed
    assert scene.marks(VIRTUAL_MACHINES, "db")["cost"] == {"cpu": "1015m", "memory": str(V1_6)}


@pytest.mark.parametrize(("stamps", "checks"), [(DESIGNED, BY_V1_6), (BY_V1_6, DESIGNED)], ids=["to v1.6", "to the design's"])
@simulated
async def test_replicas_may_charge_by_other_formulas_while_the_setting_is_being_changed(
    scene: Scene, stamps: Settings, checks: Settings
) -> None:
    scene.settings, scene.stamped_by = checks, stamps
    costs = COSTS if stamps is DESIGNED else {"cpu": "1015m", "memory": str(V1_6)}
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db")["takes"] == {"compute/vms": costs}
        made = await scene.submit(INSTANCES, instance(owner=scene.uid("db"), phase=""), user=KUBEVIRT)
        assert made.allowed, made.message
        assert scene.marks(INSTANCES, "db") == {"takes": {}, "cost": costs}
        forged = await scene.submit(
            VIRTUAL_MACHINES, machine("more", strategy="Always"), behind={STAMP: '{"compute/vms":{"cpu":"1"}}'}
        )
        assert forged.code == 429, "no replica works that out"


# --- stops -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"spec": {"runStrategy": "Halted"}}, id="Halted"),
        pytest.param({"status": {"stateChangeRequests": [{"action": "Stop", "uid": "u"}]}}, id="a request to stop"),
        pytest.param({"metadata": {"finalizers": []}}, id="a finalizer that goes"),
    ],
)
@simulated
async def test_a_stop_always_passes_in_a_namespace_that_is_over_its_share_too(scene: Scene, change: dict[str, Any]) -> None:
    scene.limits(vms=NONE)
    scene.exceeds()
    async with scene.served():
        scene.store(VIRTUAL_MACHINES, machine(strategy="Always", printable="Running", created=True, annotations=stamped()))
        assert (await scene.change(VIRTUAL_MACHINES, "db", **change)).allowed


@simulated
async def test_a_machine_counts_until_kubevirt_says_that_it_has_stopped(scene: Scene) -> None:
    scene.limits(vms={"cpu": "1"})
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        up = {"printableStatus": "Running", "created": True, "runStrategy": "Always"}
        assert (await scene.change(VIRTUAL_MACHINES, "db", user=KUBEVIRT, status=up)).allowed
        assert (await scene.change(VIRTUAL_MACHINES, "db", spec={"runStrategy": "Halted"})).allowed
        assert (await scene.change(VIRTUAL_MACHINES, "db", user=KUBEVIRT, status={"printableStatus": "Stopping"})).allowed
        await settle()
        assert not (await scene.submit(VIRTUAL_MACHINES, machine("next", strategy="Always"))).allowed
        down = {"printableStatus": "Stopped", "created": None, "runStrategy": "Halted"}
        assert (await scene.change(VIRTUAL_MACHINES, "db", user=KUBEVIRT, status=down)).allowed
        await settle()
        assert scene.counted() == {}
        assert (await scene.submit(VIRTUAL_MACHINES, machine("next", strategy="Always"))).allowed


# --- while the quota is exceeded -------------------------------------------------------------------------------------

RUNS = machine(strategy="Always", printable="Running", created=True, annotations=stamped())


@pytest.mark.parametrize(
    ("before", "change", "allowed"),
    [
        pytest.param(RUNS, {"spec": {"runStrategy": "Halted"}}, True, id="a stop"),
        pytest.param(RUNS, {"spec": {"template": {"spec": {"domain": SMALL}}}}, True, id="a smaller one"),
        pytest.param(
            RUNS, {"spec": {"runStrategy": "Halted", "template": {"spec": {"domain": SMALL}}}}, True, id="a stop, and smaller"
        ),
        pytest.param(RUNS, {"metadata": {"labels": {"a": "b"}}}, True, id="a label"),
        pytest.param(RUNS, {"spec": {"runStrategy": "Manual"}}, False, id="another strategy, which stops nothing"),
        pytest.param(RUNS, {"spec": {"template": {"spec": {"domain": LARGE}}}}, False, id="a larger one"),
        pytest.param(
            RUNS,
            {"spec": {"runStrategy": "Halted", "template": {"spec": {"domain": LARGE}}}},
            False,
            id="a stop that makes it larger",
        ),
        pytest.param(RUNS, {"spec": {"template": {"spec": {"volumes": []}}}}, False, id="an edit that changes no amount"),
        pytest.param(
            machine(**STOPPED, annotations=stamped()),
            {"spec": {"runStrategy": "Always"}},
            False,
            id="a start, though it would fit",
        ),
        pytest.param(
            machine(**STOPPED, annotations=stamped()),
            {"spec": {"runStrategy": "Always", "template": {"spec": {"domain": SMALL}}}},
            False,
            id="a start of a smaller one",
        ),
        pytest.param(
            machine(**STOPPED, annotations=stamped()),
            {"spec": {"template": {"spec": {"domain": SMALL}}}},
            True,
            id="stopped, smaller",
        ),
    ],
)
@simulated
async def test_what_may_be_changed_while_the_quota_is_exceeded(
    scene: Scene, before: Json, change: dict[str, Any], allowed: bool
) -> None:
    scene.exceeds()
    async with scene.served():
        scene.store(VIRTUAL_MACHINES, merged(before, {}))
        decided = await scene.change(VIRTUAL_MACHINES, "db", **change)
        assert decided.allowed is allowed
        if not allowed:
            assert decided.message.startswith("namespace team exceeds its quota (harvesterhci.io/exceedsQuota): ")
            assert (await scene.change(VIRTUAL_MACHINES, "db", user=KUBEVIRT, **change)).allowed, "KubeVirt goes on"


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        pytest.param("true", False, id="exceeded"),
        pytest.param("false", True, id="not exceeded"),
        pytest.param(None, True, id="not said"),
    ],
)
@simulated
async def test_what_may_be_created_while_the_quota_is_exceeded(scene: Scene, value: str | None, allowed: bool) -> None:
    scene.exceeds(value)
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine())).allowed is allowed


# --- who tries to pay less -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({STAMP: "{}"}, id="nothing"),
        pytest.param({STAMP: '{"compute/vms":{"cpu":"1m"}}'}, id="little"),
        pytest.param({STAMP: '{"compute/maintenance":{"cpu":"1","memory":"1222Mi"}}'}, id="from the reserve"),
        pytest.param({STAMP: '{"compute/vms":{"cpu":"-9"}}'}, id="less than nothing"),
        pytest.param({STAMP: "nonsense"}, id="nonsense"),
        pytest.param({COST: '{"cpu":"1m"}'}, id="a cost"),
    ],
)
@simulated
async def test_a_person_does_not_set_what_a_machine_takes(scene: Scene, forged: dict[str, str]) -> None:
    async with scene.served():
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always", annotations=forged))).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db") == MARKS
        for user in (PERSON, KUBEVIRT):
            assert (await scene.change(VIRTUAL_MACHINES, "db", user=user, metadata={"annotations": dict(forged)})).allowed
            assert scene.marks(VIRTUAL_MACHINES, "db") == MARKS
        assert (await scene.change(VIRTUAL_MACHINES, "db", metadata={"annotations": {STAMP: None}})).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db") == MARKS, "nor takes it off"


@simulated
async def test_what_another_webhook_writes_behind_ours_is_not_admitted(scene: Scene) -> None:
    async with scene.served():
        decided = await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"), behind={STAMP: "{}"})
        assert (decided.allowed, decided.code) == (False, 429)
        assert f"metadata.annotations[{STAMP}]: it is {{}}, and Ullage had stamped {ONE}" in decided.message


@simulated
async def test_a_stamp_from_before_is_not_invented_by_an_edit_of_a_label(scene: Scene) -> None:
    """Whoever follows stamps it; a person would be refused for what runs already."""
    scene.limits(vms=NONE)
    async with scene.served():
        scene.store(VIRTUAL_MACHINES, machine(strategy="Always", printable="Running", created=True))
        forged = {"labels": {"a": "b"}, "annotations": {STAMP: "{}"}}
        assert (await scene.change(VIRTUAL_MACHINES, "db", metadata=forged)).allowed
        assert scene.marks(VIRTUAL_MACHINES, "db") == {}
        ours = {"annotations": {STAMP: ONE}}
        assert (await scene.change(VIRTUAL_MACHINES, "db", user=OURS, metadata=ours)).allowed, (
            "although it does not fit: it runs"
        )
        await settle()
        assert scene.counted() == {"compute/vms": COSTS}


@simulated
async def test_a_copy_that_we_make_is_not_made_with_the_stamp_of_the_original(scene: Scene) -> None:
    scene.limits(vms=TWO)
    async with scene.served():
        await fill(scene)
        copied = machine("copy", strategy="Always", annotations=stamped("{}"))
        assert not (await scene.submit(VIRTUAL_MACHINES, copied, user=OURS)).allowed, "nor past the limit"
        assert (await scene.submit(VIRTUAL_MACHINES, machine("copy", annotations=stamped("{}")), user=OURS)).allowed
        assert scene.marks(VIRTUAL_MACHINES, "copy") == MARKS
        larger = {"template": {"spec": {"domain": LARGE}}}
        assert (await scene.change(VIRTUAL_MACHINES, "copy", user=OURS, spec=larger)).allowed
        assert scene.marks(VIRTUAL_MACHINES, "copy")["takes"]["compute/vms"]["cpu"] == "2", (
            "a template that we put back is priced"
        )


@simulated
async def test_nobody_but_kubevirt_says_that_a_machine_has_stopped_while_its_instance_lives(scene: Scene) -> None:
    async with scene.served():
        up = machine(strategy="Manual", printable="Running", acted="Manual", created=True, annotations=stamped())
        scene.store(VIRTUAL_MACHINES, up)
        scene.store(INSTANCES, instance(owner=scene.uid("db"), annotations=stamped("{}", cost=ONE_COST)))
        lie = {"printableStatus": "Stopped"}
        refused = await scene.change(VIRTUAL_MACHINES, "db", status=lie)
        assert refused.code == 403
        assert refused.message == (
            "status.printableStatus Stopped: VM team/db has an instance, which is Running; only KubeVirt says that it has"
            " stopped. Next: ullage vm stop db -n team"
        )
        assert not (await scene.change(VIRTUAL_MACHINES, "db", status={"printableStatus": None, "created": None})).allowed
        scene.store(INSTANCES, instance(owner=scene.uid("db"), phase="Succeeded", annotations=stamped("{}", cost=ONE_COST)))
        assert (await scene.change(VIRTUAL_MACHINES, "db", status=lie)).allowed, "it has come to its end"


@simulated
async def test_an_annotation_is_not_changed_by_way_of_the_status(scene: Scene) -> None:
    scene.limits(vms=TWO)
    async with scene.served():
        await fill(scene)
        scene.store(VIRTUAL_MACHINES, machine(strategy="Manual", printable="Stopped", acted="Manual", annotations=stamped()))
        forged = merged(scene.body(VIRTUAL_MACHINES, "db"), {"metadata": {"annotations": {STAMP: "{}"}}, "status": START})
        assert not (await scene.submit(VIRTUAL_MACHINES, forged, subresource="status")).allowed


@simulated
async def test_a_forged_status_in_the_machine_itself_hides_no_start(scene: Scene) -> None:
    scene.limits(vms=TWO)
    async with scene.served():
        await fill(scene)
        scene.store(VIRTUAL_MACHINES, machine(**STOPPED, annotations=stamped(cost=ONE_COST)))
        forged = machine(strategy="RerunOnFailure", printable="Stopped", acted="RerunOnFailure", annotations=stamped())
        assert (await scene.submit(VIRTUAL_MACHINES, forged)).code == 403


@simulated
async def test_a_dry_run_is_decided_and_books_nothing(scene: Scene) -> None:
    scene.limits(vms=TWO)
    async with scene.served():
        await fill(scene, 1)
        for _ in range(3):
            assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"), dry_run=True)).allowed
        assert (await scene.submit(VIRTUAL_MACHINES, machine(strategy="Always"))).allowed
        assert not (await scene.submit(VIRTUAL_MACHINES, machine("more", strategy="Always"), dry_run=True)).allowed
