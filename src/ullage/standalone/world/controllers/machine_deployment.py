"""MachineDeployments: a MachineSet for each template, and machines that are replaced step by step."""

from __future__ import annotations

from typing import Any, Final

from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_seen, patch_status
from ullage.kube.controller.controller import Controller, Source, own, owned
from ullage.kube.errors import NotFound
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.slices import Wiring
from ullage.projects.api.machines import MACHINE_DEPLOYMENTS, MACHINE_SETS, MachineDeployment, MachineSet
from ullage.projects.machines.reading import REVISION, controller_uid
from ullage.standalone.world import calls
from ullage.standalone.world.controllers import machine_deployment_rules as rules

BY_DEPLOYMENT: Final = "deployment"
UNSUPPORTED: Final = Reason("UnsupportedStrategy", action="Replace", type="Warning")


class MachineDeploymentController:
    def __init__(
        self, client: Client, *, deployments: Cache[MachineDeployment], sets: Cache[MachineSet], recorder: Recorder
    ) -> None:
        self._client = client
        self._deployments = deployments
        self._sets = sets
        self._recorder = recorder

    async def reconcile(self, key: Key) -> None:
        found = self._deployments.get(key)
        if found is None:
            return
        try:
            whole = await calls.read(self._client, MACHINE_DEPLOYMENTS, key.name, key.namespace)
            meta = whole["metadata"]
            if meta["uid"] != found.metadata.uid or meta.get("generation", 0) != found.metadata.generation:
                return  # the cache is behind: what it will show brings us back
            sets = self._sets.by(BY_DEPLOYMENT, found.metadata.uid)
            plan = rules.plan_deployment(found, whole["spec"].get("template") or {}, sets)
            if plan is not None:
                await self._act(found, sets, plan)
        except NotFound:  # it went meanwhile
            return

    async def _act(self, found: MachineDeployment, sets: list[MachineSet], plan: rules.DeploymentPlan) -> None:
        """Each set is changed only as it was seen, so that what is decided on old figures is decided again."""
        if plan.create is not None:
            await calls.create(self._client, MACHINE_SETS, plan.create)
        if plan.revision is not None:
            newest, revision = plan.revision
            await patch_seen(self._client, MACHINE_SETS, newest, {"metadata": {"annotations": {REVISION: revision}}})
        for one in sets:
            replicas = (plan.scale or {}).get(one.metadata.name)
            if replicas is not None:
                await patch_seen(self._client, MACHINE_SETS, one, {"spec": {"replicas": replicas}})
        for one in plan.delete:
            await calls.delete(self._client, MACHINE_SETS, one.metadata)
        if plan.unsupported:
            note = f"spec.strategy.type {plan.unsupported}: machines are replaced here with RollingUpdate alone"
            self._recorder.record(MACHINE_DEPLOYMENTS, found, UNSUPPORTED, note=note)
        await patch_status(self._client, MACHINE_DEPLOYMENTS, found, old=found.status, new=plan.status)


def machine_deployment_controller(wiring: Wiring, *, recorder: Recorder) -> Controller[Key]:
    deployments, sets = wiring.cache(MACHINE_DEPLOYMENTS), wiring.cache(MACHINE_SETS)
    sets.index(BY_DEPLOYMENT, lambda one: (uid,) if (uid := controller_uid(one.metadata, MACHINE_DEPLOYMENTS.kind)) else ())
    made = MachineDeploymentController(wiring.client, deployments=deployments, sets=sets, recorder=recorder)
    sources: list[Source[Any, Key]] = [own(deployments), owned(sets, by=MACHINE_DEPLOYMENTS)]
    return Controller("machinedeployments", sources, made.reconcile, clock=wiring.clock, metrics=wiring.metrics)
