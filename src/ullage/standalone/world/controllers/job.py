"""Jobs: they make pods until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from ullage.clock import Clock
from ullage.kube.builtin.batch import JOBS, Job
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.conditional import patch_status
from ullage.kube.controller.controller import Controller, own, owned
from ullage.kube.events.reason import Reason
from ullage.kube.events.recorder import Recorder
from ullage.kube.slices import Wiring
from ullage.standalone.world.controllers import job_rules as rules
from ullage.standalone.world.lookup import StorageLookup
from ullage.standalone.world.pod_owner import PodOwner

COMPLETED = Reason("Completed")
BACKOFF_LIMIT = Reason("BackoffLimitExceeded", action="Fail", type="Warning")


class JobController(PodOwner):
    def __init__(self, client: Client, storage: StorageLookup, recorder: Recorder, *, clock: Clock, jobs: Cache[Job]) -> None:
        super().__init__(JOBS, client, storage, recorder)
        self._clock = clock
        self._jobs = jobs

    async def reconcile(self, key: Key) -> None:
        job = self._jobs.get(key)
        plan = rules.plan_job(job, self._pods(job), now=self._clock.now()) if job else None
        if job is None or plan is None:
            return
        if await patch_status(self._client, JOBS, job, old=job.status, new=plan.status) is not None:
            self._record_end(job, plan)
            if plan.create or plan.delete:
                return  # what is written down first is not forgotten; the change wakes us again
        for pod in plan.delete:
            await self._delete_pod(job, pod)
        for name in plan.create:
            await self._create_pod(job, rules.pod_for(job, name))

    def _record_end(self, job: Job, plan: rules.JobPlan) -> None:
        types = {one.get("type") for one in plan.status.conditions}
        if "Complete" in types:
            self._recorder.record(JOBS, job, COMPLETED, note="Job completed")
        elif "Failed" in types:
            self._recorder.record(JOBS, job, BACKOFF_LIMIT, note="Job has reached the specified backoff limit")


def job_controller(wiring: Wiring, storage: StorageLookup, recorder: Recorder) -> Controller[Key]:
    jobs = wiring.cache(JOBS)
    made = JobController(wiring.client, storage, recorder, clock=wiring.clock, jobs=jobs)
    return Controller("jobs", [own(jobs), owned(storage.pods, by=JOBS)], made.reconcile, metrics=wiring.metrics)
