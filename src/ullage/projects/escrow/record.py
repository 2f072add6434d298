"""Where the master's records are kept: on the quota's own object, so that one resourceVersion guards all. Pure.

There is one of what machines may take, and one of how many clusters there may be: each an annotation.

Nobody raises a grant for a quota that was lowered since, and a record that cannot be read is never taken for an empty one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ullage.errors import BadInput
from ullage.kube.kinds import Meta
from ullage.kube.objects import Json, is_deleting
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import ResourceQuota, ResourceQuotaSpec
from ullage.projects.escrow.terms import Escrow
from ullage.projects.names import CLUSTER_ESCROW, ESCROW, quota_name
from ullage.projects.quota import limits_of

RECORDS: Final = (ESCROW, CLUSTER_ESCROW)
SHOWN: Final = 80  # characters of a record that cannot be read


def record_field(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"


def has_record(meta: Meta, annotation: str = ESCROW) -> bool:
    return annotation in meta.annotations


def has_any_record(meta: Meta) -> bool:
    return any(has_record(meta, one) for one in RECORDS)


def read_record(meta: Meta, annotation: str = ESCROW) -> Escrow:
    """What is granted of a quota. Raises `BadInput` for a record that cannot be read; none is an empty one."""
    if not has_record(meta, annotation):
        return Escrow()
    text = meta.annotations[annotation]
    try:
        stored = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        raise BadInput(record_field(annotation), repr(shown), "it is not JSON") from None
    return Escrow.parse(stored, field=record_field(annotation))


def record_patch(escrow: Escrow | None, annotation: str = ESCROW) -> Json:
    """What writes a record; None takes it away."""
    text = None if escrow is None else msgspec.json.encode(escrow.written(), order="deterministic").decode()
    return {"metadata": {"annotations": {annotation: text}}}


def leading(quotas: Iterable[ResourceQuota]) -> ResourceQuota | None:
    """Of all quotas of a project the one that is in force: the one with a record, since nobody else knows what is granted;
    before there is one, that with the right name. None where there is no quota."""

    def rank(quota: ResourceQuota) -> tuple[bool, bool, str]:
        meta = quota.metadata
        return not has_any_record(meta), meta.name != quota_name(quota.spec.subject.name), meta.name

    return min(quotas, key=rank, default=None)


def heir(quota: ResourceQuota, quotas: Iterable[ResourceQuota], default: ResourceDetails | None) -> ResourceQuota | None:
    """Whose limits hold while a quota is being deleted, until every seed has heard of them: another quota's of the project
    (`quotas` are all that it has), or those of the default, which is empty where there is none. Its own where nobody can tell
    what the default is. None: nobody's, and the seeds are told that there is no limit."""
    stays = [one for one in quotas if one.metadata.uid != quota.metadata.uid and not is_deleting(one.metadata)]
    if default is None and not stays:
        return quota
    if stays or not limits_of(default or ResourceDetails()):
        return leading(stays)
    assert default is not None
    name = quota_name(quota.spec.subject.name)
    return ResourceQuota(metadata=Meta(name=name), spec=ResourceQuotaSpec(subject=quota.spec.subject, quota=default))
