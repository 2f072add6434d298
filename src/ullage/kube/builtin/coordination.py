"""coordination.k8s.io: Leases."""

from __future__ import annotations

from typing import Final

from ullage.kube.kinds import Kind, Object, Value


class LeaseSpec(Value):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object):
    spec: LeaseSpec = LeaseSpec()


LEASES: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases", Lease, whole=False, status=False)
