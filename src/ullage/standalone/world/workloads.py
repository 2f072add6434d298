"""Jobs and StatefulSets: they make pods, and write down what became of them."""

from __future__ import annotations

from typing import Any

from ullage.clock import Clock
from ullage.kube.builtin.apps import STATEFUL_SETS, StatefulSet
from ullage.kube.builtin.batch import JOBS, Job
from ullage.kube.builtin.core import CLAIMS, PODS, Pod
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.controller.controller import Controller, own, owned
from ullage.kube.events.recorder import Reason, Recorder
from ullage.kube.kinds import Kind, Object, Value
from ullage.kube.objects import controller_of, merge_patch
from ullage.kube.slices import Wiring
from ullage.standalone.world import api
from ullage.standalone.world.claims import Storage
from ullage.standalone.world.model import Json
from ullage.standalone.world.rules import jobs as job_rules
from ullage.standalone.world.rules import sets as set_rules

CREATED = Reason("SuccessfulCreate", action="Create")
DELETED = Reason("SuccessfulDelete", action="Delete")
COMPLETED = Reason("Completed")
BACKOFF_LIMIT = Reason("BackoffLimitExceeded", action="Fail", type="Warning")
BY_CONTROLLER = "controller"


class _Hand:
    """What both do to the API."""

    def __init__(self, client: Client, storage: Storage, recorder: Recorder, *, clock: Clock) -> None:
        self._client = client
        self._storage = storage
        self._recorder = recorder
        self._clock = clock

    def _pods(self, owner: Object) -> list[Pod]:
        return self._storage.pods.by(BY_CONTROLLER, owner.metadata.uid)

    async def _create_pod(self, kind: Kind[Any], owner: Object, body: Json) -> None:
        if await api.make(self._client, PODS, body):
            self._recorder.record(kind, owner, CREATED, note=f"Created pod: {body['metadata']['name']}")

    async def _delete_pod(self, kind: Kind[Any], owner: Object, pod: Pod) -> None:
        await api.remove(self._client, PODS, pod.metadata)
        self._recorder.record(kind, owner, DELETED, note=f"Deleted pod: {pod.metadata.name}")

    async def _write(self, kind: Kind[Any], obj: Job | StatefulSet, status: Value) -> bool:
        change = merge_patch(obj.status, status)
        if change is None:
            return False
        meta = obj.metadata
        await self._client.patch(
            kind,
            meta.name,
            meta.namespace,
            merge={"status": change},
            subresource="status",
            resource_version=meta.resource_version,
        )
        return True


class Jobs(_Hand):
    def __init__(self, client: Client, storage: Storage, recorder: Recorder, *, clock: Clock, jobs: Cache[Job]) -> None:
        super().__init__(client, storage, recorder, clock=clock)
        self._jobs = jobs

    async def reconcile(self, key: Key) -> None:
        job = self._jobs.get(key)
        plan = job_rules.plan_job(job, self._pods(job), now=self._clock.now()) if job else None
        if job is None or plan is None:
            return
        if await self._write(JOBS, job, plan.status):
            self._tell(job, plan)
            if plan.create or plan.delete:
                return  # what is written down first is not forgotten; the change wakes us again
        for pod in plan.delete:
            await self._delete_pod(JOBS, job, pod)
        for name in plan.create:
            await self._create_pod(JOBS, job, job_rules.pod_for(job, name))

    def _tell(self, job: Job, plan: job_rules.JobPlan) -> None:
        types = {one.get("type") for one in plan.status.conditions}
        if "Complete" in types:
            self._recorder.record(JOBS, job, COMPLETED, note="Job completed")
        elif "Failed" in types:
            self._recorder.record(JOBS, job, BACKOFF_LIMIT, note="Job has reached the specified backoff limit")


class Sets(_Hand):
    def __init__(self, client: Client, storage: Storage, recorder: Recorder, *, clock: Clock, sets: Cache[StatefulSet]) -> None:
        super().__init__(client, storage, recorder, clock=clock)
        self._sets = sets

    async def reconcile(self, key: Key) -> None:
        found = self._sets.get(key)
        if found is None:
            return
        plan = set_rules.plan_set(found, self._pods(found), claims=self._claims(found))
        if plan is None:
            return
        for body in plan.claims:
            await api.make(self._client, CLAIMS, body)
        for body in plan.pods:
            await self._create_pod(STATEFUL_SETS, found, body)
        for pod in plan.delete:
            await self._delete_pod(STATEFUL_SETS, found, pod)
        await self._write(STATEFUL_SETS, found, plan.status)

    def _claims(self, found: StatefulSet) -> set[str]:
        """Which of the set's claims exist. Asked by name: a namespace may hold thousands."""
        first = found.spec.ordinals.start
        numbers = range(first, first + found.spec.replicas)
        names = {
            set_rules.claim_name(template, found, number)
            for template in found.spec.volume_claim_templates
            for number in numbers
        }
        return {name for name in names if self._storage.claims.get(Key(found.metadata.namespace, name))}


def controllers(wiring: Wiring, storage: Storage, recorder: Recorder) -> list[Controller[Key]]:
    jobs_cache, sets_cache = wiring.cache(JOBS), wiring.cache(STATEFUL_SETS)
    storage.pods.index(BY_CONTROLLER, lambda pod: (owner.uid,) if (owner := controller_of(pod.metadata)) else ())
    jobs = Jobs(wiring.client, storage, recorder, clock=wiring.clock, jobs=jobs_cache)
    sets = Sets(wiring.client, storage, recorder, clock=wiring.clock, sets=sets_cache)
    return [
        Controller("jobs", [own(jobs_cache), owned(storage.pods, by=JOBS)], jobs.reconcile, metrics=wiring.metrics),
        Controller(
            "statefulsets", [own(sets_cache), owned(storage.pods, by=STATEFUL_SETS)], sets.reconcile, metrics=wiring.metrics
        ),
    ]
