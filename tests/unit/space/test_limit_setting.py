"""One limit is set or removed, and nothing else: also where others write at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from ullage.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from ullage.kube.kinds import Kind
from ullage.space.api import ALLOW_ZERO, HARVESTER_QUOTAS, NAME, ResourceQuota
from ullage.space.limit_setting import Limited, below_usage, remove_limit, set_limit

GIB = 2**30
NAMESPACE, VM = Limited("team-a"), Limited("team-a", "db")
Json = dict[str, Any]


def quota(namespace: int | None = None, *, usage: Json | None = None, zero: bool = False, **vms: int) -> Json:
    limits: Json = {"vmTotalSnapshotSizeQuota": vms} if vms else {}
    if namespace is not None:
        limits["namespaceTotalSnapshotSizeQuota"] = namespace
    annotations = {"annotations": {ALLOW_ZERO: "true"}} if zero else {}
    status = {"status": {"snapshotLimitStatus": usage}} if usage is not None else {}
    return {"metadata": {"name": NAME, "namespace": "team-a", **annotations}, "spec": {"snapshotLimit": limits}, **status}


def gone() -> NotFound:
    details = {"group": HARVESTER_QUOTAS.group, "kind": HARVESTER_QUOTAS.plural, "name": NAME}
    return NotFound("gone", code=404, reason="NotFound", details=details)


class Api:
    """One quota object. `before` is done before the next write: what somebody else does at the same moment."""

    def __init__(self, stored: Json | None = None, *before: Callable[[Api], ApiError | None]) -> None:
        self.stored = stored
        self.before = list(before)
        self.writes: list[str] = []
        self.managers: set[str] = set()

    def _somebody_else(self) -> None:
        if self.before and (error := self.before.pop(0)(self)) is not None:
            raise error

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        assert (kind, name, namespace) == (HARVESTER_QUOTAS, NAME, "team-a")
        return None if self.stored is None else msgspec.convert(self.stored, ResourceQuota)

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        self._somebody_else()
        if self.stored is not None:
            raise AlreadyExists("taken", code=409)
        self.writes.append("create")
        self.stored = msgspec.to_builtins(obj)
        return obj

    async def patch(
        self, kind: Kind[Any], name: str, namespace: str = "", *, merge: Mapping[str, Any] | None = None, field_manager: str
    ) -> Any:
        self._somebody_else()
        if self.stored is None:
            raise gone()
        self.writes.append("patch")
        self.managers.add(field_manager)
        self.stored = merged(self.stored, merge)
        return msgspec.convert(self.stored, ResourceQuota)

    @property
    def limits(self) -> Json | None:
        return None if self.stored is None else self.stored["spec"]["snapshotLimit"]


def merged(old: Any, change: Any) -> Any:
    """RFC 7396."""
    if not isinstance(change, Mapping):
        return change
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def limits(namespace: int | None = None, **vms: Any) -> Json:
    found: Json = quota(namespace, **vms)["spec"]["snapshotLimit"]
    return found


@pytest.mark.parametrize(
    ("stored", "limited", "size", "after", "writes"),
    [
        pytest.param(None, NAMESPACE, GIB, limits(GIB), ["create"], id="the first limit of a namespace makes the object"),
        pytest.param(None, VM, GIB, limits(db=GIB), ["create"], id="and so does that of a virtual machine"),
        pytest.param(None, NAMESPACE, 0, None, [], id="no limit needs no object"),
        pytest.param(None, VM, 0, None, [], id="no limit of a virtual machine needs none either"),
        pytest.param(quota(), VM, 0, limits(), [], id="0 where nothing is: nothing to do"),
        pytest.param(quota(zero=True), VM, 0, limits(db=0), ["patch"], id="0 counts where the annotation says so"),
        pytest.param(quota(zero=True), NAMESPACE, 0, limits(0), ["patch"], id="and of the namespace"),
        pytest.param(quota(GIB, db=5), NAMESPACE, GIB, limits(GIB, db=5), [], id="as it is: nothing to do"),
        pytest.param(quota(GIB, db=5), NAMESPACE, 7, limits(7, db=5), ["patch"], id="only the namespace's own key changes"),
        pytest.param(quota(GIB, web=5), VM, 7, limits(GIB, web=5, db=7), ["patch"], id="only the virtual machine's own key"),
        pytest.param(quota(GIB), NAMESPACE, 0, limits(0), ["patch"], id="a limit is set to 0"),
    ],
)
async def test_a_limit_is_set(stored: Json | None, limited: Limited, size: int, after: Json | None, writes: list[str]) -> None:
    api = Api(stored)
    found = await set_limit(api, limited, size, manager="me")
    assert (api.limits, api.writes) == (after, writes)
    assert (found is None) == (after is None)
    assert api.managers <= {"me"}


@pytest.mark.parametrize(
    ("stored", "limited", "after", "writes"),
    [
        pytest.param(None, NAMESPACE, None, [], id="there is no quota"),
        pytest.param(quota(db=5), NAMESPACE, limits(db=5), [], id="there is no such limit"),
        pytest.param(
            quota(GIB, db=5), VM, {**limits(GIB), "vmTotalSnapshotSizeQuota": {}}, ["patch"], id="a virtual machine's"
        ),
        pytest.param(
            quota(GIB, db=5), NAMESPACE, limits(db=5), ["patch"], id="the namespace's: the key goes, 0 could mean none"
        ),
        pytest.param(quota(0, zero=True), NAMESPACE, limits(), ["patch"], id="a limit of none"),
    ],
)
async def test_a_limit_is_removed_and_no_other(
    stored: Json | None, limited: Limited, after: Json | None, writes: list[str]
) -> None:
    api = Api(stored)
    assert await remove_limit(api, limited, manager="me") is bool(writes)
    assert (api.limits, api.writes) == (after, writes)


def creates(api: Api) -> None:
    api.stored = quota(web=1)


def deletes(api: Api) -> None:
    api.stored = None


def conflicts(api: Api) -> ApiError:
    return Conflict("somebody else wrote first", code=409)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(seconds: float) -> None:
        assert seconds <= 1

    monkeypatch.setattr(asyncio, "sleep", sleep)


@pytest.mark.parametrize(
    ("stored", "before", "after"),
    [
        pytest.param(None, [creates], limits(web=1, db=GIB), id="another one makes the object: both limits stand"),
        pytest.param(quota(web=1), [deletes], limits(db=GIB), id="another one deletes the object: it is made anew"),
        pytest.param(quota(web=1), [conflicts] * 3, limits(web=1, db=GIB), id="conflicts are tried again"),
        pytest.param(None, [creates, deletes, creates], limits(web=1, db=GIB), id="one after the other"),
    ],
)
async def test_others_who_write_at_the_same_moment_are_lived_with(stored: Json | None, before: list[Any], after: Json) -> None:
    api = Api(stored, *before)
    await set_limit(api, VM, GIB, manager="me")
    assert api.limits == after


async def test_who_never_gets_through_is_told() -> None:
    with pytest.raises(Conflict, match="was changed by others each of 8 times"):
        await set_limit(Api(quota(), *[conflicts] * 100), VM, GIB, manager="me")
    with pytest.raises(Conflict, match="was changed by others each of 8 times"):
        await remove_limit(Api(quota(db=1), *[conflicts] * 100), VM, manager="me")


async def test_a_quota_that_goes_while_its_limit_is_removed_is_no_error() -> None:
    assert await remove_limit(Api(quota(db=1), deletes), VM, manager="me") is False


USED = {"namespaceTotalSnapshotSizeUsage": 2 * GIB, "vmTotalSnapshotSizeUsage": {"db": 2 * GIB}}


@pytest.mark.parametrize(
    ("stored", "limited", "warning"),
    [
        pytest.param(
            quota(GIB, usage=USED),
            NAMESPACE,
            "the limit of 1Gi is below the 2Gi that snapshots of namespace team-a take now: none is deleted, and no new one is "
            "admitted until they fit",
            id="a namespace",
        ),
        pytest.param(quota(db=GIB, usage=USED), VM, "of virtual machine team-a/db take now", id="a virtual machine"),
        pytest.param(quota(0, usage=USED, zero=True), NAMESPACE, "the limit of 0 is below", id="none are allowed"),
        pytest.param(quota(2 * GIB, usage=USED), NAMESPACE, None, id="exactly full"),
        pytest.param(quota(0, usage=USED), NAMESPACE, None, id="0 is no limit"),
        pytest.param(quota(GIB), NAMESPACE, None, id="nobody has counted"),
        pytest.param(quota(web=1, usage=USED), Limited("team-a", "web"), None, id="its usage is not known"),
    ],
)
def test_a_limit_below_present_use_is_told(stored: Json, limited: Limited, warning: str | None) -> None:
    found = below_usage(msgspec.convert(stored, ResourceQuota), limited)
    assert (warning or "") in (found or "")
    assert (found is None) == (warning is None)
