"""Objects that tests about projects are made of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import UNSET

from ullage.kube.kinds import Meta
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.kkp import (
    CloudSpec,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    DefaultQuota,
    KubermaticSetting,
    Project,
    SettingSpec,
)
from ullage.projects.api.quotas import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, Subject
from ullage.projects.names import DEFAULT_MARKS

NOW: Final = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
GONE_AT: Final = "2026-05-01T11:00:00Z"
BOTH: Final = dict.fromkeys(DEFAULT_MARKS, "true")


def registered_hook(name: str, **fields: Any) -> dict[str, Any]:
    """A hook about new Machines, as a user cluster has it."""
    rule = {"apiGroups": ["cluster.k8s.io"], "apiVersions": ["v1alpha1"], "resources": ["machines"], "operations": ["CREATE"]}
    return {
        "name": f"{name}.webhook.ullage.io",
        "clientConfig": {"url": f"https://seed:9443/hooks/{name}/clusters/c-1/token"},
        "rules": [{**rule, "scope": "Namespaced"}],
        "namespaceSelector": {},
        "objectSelector": {},
        "failurePolicy": "Fail",
        **fields,
    }


def details(**amounts: str | int) -> ResourceDetails:
    return ResourceDetails(
        cpu=amounts.get("cpu", UNSET), memory=amounts.get("memory", UNSET), storage=amounts.get("storage", UNSET)
    )


def usage(cpu: str = "0", memory: str = "0", storage: str = "0") -> ResourceDetails:
    return ResourceDetails(cpu=cpu, memory=memory, storage=storage)


def meta(name: str, *, deleting: bool = False, labels: Mapping[str, str] | None = None, **more: Any) -> Meta:
    given = {"uid": f"uid-of-{name}", "generation": 1, **more}
    return Meta(name=name, labels=labels or {}, deletion_timestamp=GONE_AT if deleting else None, **given)


def project(name: str = "abc", **more: Any) -> Project:
    return Project(metadata=meta(name, **more))


def quota(
    subject: str = "abc",
    limits: ResourceDetails | None = None,
    *,
    name: str = "",
    status: ResourceQuotaStatus | None = None,
    **more: Any,
) -> ResourceQuota:
    return ResourceQuota(
        metadata=meta(name or f"project-{subject}", **more),
        spec=ResourceQuotaSpec(subject=Subject(name=subject), quota=limits or ResourceDetails()),
        status=status or ResourceQuotaStatus(),
    )


def default_quota(subject: str = "abc", limits: ResourceDetails | None = None, **more: Any) -> ResourceQuota:
    return quota(subject, limits, labels=BOTH, **more)


def setting(limits: ResourceDetails | None) -> KubermaticSetting:
    found = None if limits is None else DefaultQuota(quota=limits)
    return KubermaticSetting(metadata=meta("globalsettings"), spec=SettingSpec(default_quota=found))


def cluster(name: str, used: ResourceDetails | None = None, *, of: str = "abc", provider: str = "aws", **more: Any) -> Cluster:
    labels = {**({"project-id": of} if of else {}), **more.pop("labels", {})}
    return Cluster(
        metadata=meta(name, labels=labels, **more),
        spec=ClusterSpec(cloud=CloudSpec(provider_name=provider)),
        status=ClusterStatus(resource_usage=used),
    )
