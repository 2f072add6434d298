"""batch: Jobs and CronJobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ullage.kube.builtin.core import Workload
from ullage.kube.kinds import Kind, Object, Value


class JobSpec(Value):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    suspend: bool = False
    managed_by: str = ""
    template: Mapping[str, Any] = {}


class JobStatus(Value):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()


class Job(Object):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def is_over(self) -> bool:
        over = ("Complete", "Failed")
        return any(one.get("type") in over and one.get("status") == "True" for one in self.status.conditions)


JOBS: Final = Kind("batch", "v1", "Job", "jobs", Job, whole=False)
CRON_JOBS: Final = Kind("batch", "v1", "CronJob", "cronjobs", Workload, whole=False)
