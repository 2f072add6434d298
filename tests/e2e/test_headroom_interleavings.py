"""Six VMs that start, stop, restart, pause, move, grow, shrink, are restored and deleted, one upon the other without a wait.

At every moment what runs fits into the share for VMs, and what moves into the share for migrations. When it has calmed down
exactly that is counted which runs, and nothing once all is stopped.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from ullage.clock import SystemClock
from ullage.ledger.accounts import accounts
from ullage.ledger.api import Ledger
from ullage.ledger.codec import book_of
from ullage.vms.api.machines import VirtualMachine, VirtualMachineInstance
from ullage.vms.lifecycle import ACTIONS, NotPossible

from .apart import IS_BORROWED
from .api import Answer
from .engine_scene import eventually
from .headroom_scene import MERGE, HeadroomScene, Tenant, headroom_scene, watched

pytestmark = [
    pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster has a world of its own"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
Json = dict[str, Any]
MI = 1 << 20
COSTS = {"1Gi": 1222 * MI, "2Gi": 2248 * MI}  # by the limit on memory: that, 180Mi, twice 8Mi, and a 512th of it
GUESTS = {"1Gi": "924Mi", "2Gi": "1948Mi"}
QUOTA, PERCENT = 4 * COSTS["1Gi"], 37  # room for two small VMs and a half, and for nearly one and a half that move
RESERVE = QUOTA * PERCENT // 100
SHARE = QUOTA - RESERVE
WALKS = 20
OVER = ("Succeeded", "Failed")
REFUSALS = ("VM available resources are insufficient", "maintenance resource is insufficient")
EXPECTED = {200, 201, 202, 404, 409, 422, 429}  # it was done, it is not there, others were quicker, or it makes no sense now
LEDGERS = "/apis/ullage.io/v1alpha1/namespaces/ullage-system/ledgers"

NAMES = st.sampled_from([f"vm-{number}" for number in range(6)])
SIZES = st.sampled_from(sorted(COSTS))
STRATEGIES = st.sampled_from(["Always", "Halted", "Manual", "RerunOnFailure"])
DEEDS = (
    *("start",) * 8,
    *("create",) * 2,
    *("stop",) * 3,
    *("migrate",) * 4,
    *("resize",) * 2,
    *("restart", "pause", "unpause", "abort", "restore", "delete", "calm down"),
)
SECONDS = 180.0  # longer than a ledger holds room for a request that came to nothing


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadroomScene]:
    with headroom_scene(tmp_path_factory.mktemp("interleavings")) as made:
        yield made


def test_whatever_comes_upon_whatever_nothing_takes_more_than_its_share(scene: HeadroomScene) -> None:
    """One namespace for all walks: each ends with nothing in it."""
    tenant = Tenant(scene, cpu="100", memory=str(QUOTA), percent=PERCENT)
    answers = Counter[str]()

    class Walk(Interleavings):
        def __init__(self) -> None:
            super().__init__(tenant, answers)

    run_state_machine_as_test(
        Walk,
        settings=settings(
            max_examples=WALKS,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=(Phase.generate,),  # what happens depends on time, so there is nothing to shrink
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert answers["done"] > WALKS, "hardly anything was done"
    assert answers[REFUSALS[0]] > 0, "it was never tight"


class Interleavings(RuleBasedStateMachine):
    def __init__(self, tenant: Tenant, answers: Counter[str]) -> None:
        super().__init__()
        self.tenant, self.api, self.answers = tenant, tenant.api, answers
        harvester = f"/apis/harvesterhci.io/v1beta1/namespaces/{tenant.namespace}"
        self.backups, self.restores = f"{harvester}/virtualmachinebackups", f"{harvester}/virtualmachinerestores"
        self.stack = contextlib.ExitStack()
        self.count = 0

    @initialize()
    def begin(self) -> None:
        self.create("origin", "1Gi", "Halted")
        for number, strategy in enumerate(("Manual", "Halted", "RerunOnFailure", "Manual", "Halted", "Always")):
            self.create(f"vm-{number}", "1Gi", strategy)
        source = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "origin"}
        self.post(
            self.backups, "VirtualMachineBackup", "harvesterhci.io/v1beta1", "kept", {"source": source, "type": "snapshot"}
        )
        eventually("the backup is ready", lambda: self.api.get(f"{self.backups}/kept").obj.get("status", {}).get("readyToUse"))
        self.stack.enter_context(watched(self.look))

    # --- what people do ---

    @rule(what=st.sampled_from(DEEDS), name=NAMES, size=SIZES, strategy=STRATEGIES)
    def do(self, what: str, name: str, size: str, strategy: str) -> None:
        """One rule, so that all of it is mixed in every walk."""
        match what:
            case "create":
                self.create(name, size, strategy)
            case "resize":
                self.merge(f"{self.tenant.machines}/{name}", {"spec": {"template": {"spec": {"domain": domain(size)}}}})
            case "migrate" if self.tenant.instance(name):
                self.expect(self.tenant.ask_migration(name, self.fresh("move")))
            case "abort":
                for migration in self.tenant.unfinished()[:1]:
                    self.expect(self.api.call("DELETE", f"{self.tenant.migrations}/{migration}"))
            case "restore":
                self.restore(name, start=strategy != "Halted")
            case "delete":
                self.expect(self.api.call("DELETE", f"{self.tenant.machines}/{name}"))
            case "calm down":
                self.settle()
            case action if action in ACTIONS:
                self.act(action, name)

    def create(self, name: str, size: str, strategy: str) -> None:
        """Not of a name that is there: room would be held for it until nobody can make it any more, which takes a minute."""
        if self.machine(name) is None:
            spec = {"runStrategy": strategy, "template": {"spec": {"domain": domain(size)}}}
            self.post(self.tenant.machines, "VirtualMachine", "kubevirt.io/v1", name, spec)

    def act(self, action: str, name: str) -> None:
        """As `ullage vm` does it: by the spec, by a request in the status, or on the instance."""
        found, instance = self.machine(name), self.tenant.instance(name)
        if found is None:
            return
        running = msgspec.convert(instance, VirtualMachineInstance) if instance else None
        try:
            change = ACTIONS[action](msgspec.convert(found, VirtualMachine), running)
        except NotPossible:
            return
        if change.machine is not None:
            self.merge(f"{self.tenant.machines}/{name}", change.machine)
        if change.status is not None:
            self.merge(f"{self.tenant.machines}/{name}/status", {"status": change.status})
        if change.instance is not None:
            self.merge(f"{self.tenant.instances}/{name}", change.instance)

    def restore(self, name: str, *, start: bool) -> None:
        if self.machine(name) is not None:
            return
        target = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": name}
        kept = {"virtualMachineBackupName": "kept", "virtualMachineBackupNamespace": self.tenant.namespace}
        spec = {"target": target, "newVM": True, **kept, "start": start}
        self.post(self.restores, "VirtualMachineRestore", "harvesterhci.io/v1beta1", self.fresh("back"), spec)

    # --- how ---

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count}"

    def post(self, path: str, kind: str, version: str, name: str, spec: Json) -> None:
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.expect(self.api.call("POST", path, body))

    def merge(self, path: str, change: Json) -> None:
        self.expect(self.api.call("PATCH", path, change, headers=MERGE))

    def expect(self, answer: Answer) -> None:
        refused = [text for text in REFUSALS if answer.code == 403 and text in answer.message]
        assert refused or answer.code in EXPECTED, answer.raw
        self.answers.update(refused or (["done"] if answer.code < 300 else []))

    def machine(self, name: str) -> Json | None:
        answer = self.api.get(f"{self.tenant.machines}/{name}")
        return answer.obj if answer.code == 200 else None

    def listed(self, path: str) -> list[Json]:
        return list(self.api.get(path).obj["items"])

    # --- what holds ---

    def look(self) -> str:
        """At every moment. What ends between two lists was still there in the first: the sums are never too small."""
        running = {one["metadata"]["name"]: cost(one["spec"]) for one in self.listed(self.tenant.instances) if not over(one)}
        if (used := sum(running.values())) > SHARE:
            return f"{used} of {SHARE} run: {running}"
        moving = [running.get(one["spec"]["vmiName"], 0) for one in self.listed(self.tenant.migrations) if not over(one)]
        if sum(moving) > RESERVE:
            return f"{moving} move, and {RESERVE} are kept for that"
        return ""

    def settle(self) -> None:
        """Waits until what is counted is what is there, by sums of our own."""
        self.counts("what is counted is what is there", self.there)

    def counts(self, what: str, wanted: Callable[[], tuple[int, int]]) -> None:
        try:
            eventually(what, lambda: self.counted() == wanted(), seconds=SECONDS)
        except AssertionError as error:
            ledger = self.api.get(f"{LEDGERS}/ns-{self.tenant.namespace}").obj
            raise AssertionError(f"{self.counted()} and not {wanted()}: {ledger}") from error

    def there(self) -> tuple[int, int]:
        instances = {one["metadata"]["name"]: one for one in self.listed(self.tenant.instances) if not over(one)}
        machines = {one["metadata"]["name"]: one for one in self.listed(self.tenant.machines)}
        vms = sum(max(cost(one["spec"]), self.of_template(machines.get(name))) for name, one in instances.items())
        moving = [one for one in self.listed(self.tenant.migrations) if not over(one)]
        return vms, sum(
            cost(instances[one["spec"]["vmiName"]]["spec"]) for one in moving if one["spec"]["vmiName"] in instances
        )

    def of_template(self, machine: Json | None) -> int:
        return cost(machine["spec"]["template"]["spec"]) if machine else 0

    def counted(self) -> tuple[int, int]:
        """Used and reserved, by the ledger."""
        found = msgspec.convert(self.api.get(f"{LEDGERS}/ns-{self.tenant.namespace}").obj, Ledger)
        memory = [one for one in accounts(book_of(found, now=SystemClock().now())) if one.resource == "memory"]
        sums = {one.name: (one.used + one.reserved).value() for one in memory}
        return sums.get("compute/vms", 0), sums.get("compute/maintenance", 0)

    def teardown(self) -> None:
        with self.stack:
            for one in self.listed(self.restores):
                self.api.call("DELETE", f"{self.restores}/{one['metadata']['name']}")
            eventually("no restore goes on", lambda: not self.listed(self.restores))
            for one in self.listed(self.tenant.machines):
                self.merge(f"{self.tenant.machines}/{one['metadata']['name']}", {"spec": {"runStrategy": "Halted"}})
            eventually("all have stopped", lambda: not self.listed(self.tenant.instances))
            self.counts("nothing is counted", lambda: (0, 0))
        for one in self.listed(self.tenant.machines):
            self.api.call("DELETE", f"{self.tenant.machines}/{one['metadata']['name']}")
        eventually("all are gone", lambda: not self.listed(self.tenant.machines))


def domain(size: str) -> Json:
    return {
        "cpu": {"cores": 1},
        "memory": {"guest": GUESTS[size]},
        "resources": {"limits": {"cpu": "1", "memory": size}},
    }


def cost(spec: Json) -> int:
    return COSTS[spec["domain"]["resources"]["limits"]["memory"]]


def over(one: Json) -> bool:
    return one.get("status", {}).get("phase") in OVER
