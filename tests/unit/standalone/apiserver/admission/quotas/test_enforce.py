"""Quotas on the way of a write: what they cost whoever they are not about, and that they and the object are stored together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standalone.apiserver.server_kit import Kit, running_kit
from ullage.standalone.apiserver.admission.quotas import check, enforce
from ullage.standalone.apiserver.settings import Limits
from ullage.standalone.apiserver.status import ApiError

Json = dict[str, Any]


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    """Its controllers do not work: quotas are not counted before a write does it."""
    async with running_kit(tmp_path, work=False) as found:
        yield found


async def pod(kit: Kit, name: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    await kit.create("pods", name, namespace="default", spec={"containers": [container]})


async def quota(kit: Kit, name: str = "q", **hard: str) -> None:
    await kit.create("resourcequotas", name, namespace="default", spec={"hard": hard})


def used(kit: Kit, name: str = "q") -> Json:
    found = kit.get("resourcequotas", name, namespace="default") or {}
    return dict(found.get("status", {}).get("used", {}))


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The quotas for which the whole namespace was counted, one after the other."""
    counted: list[str] = []

    def recount(quota: Json, objects: Iterable[Any], now: Any) -> Any:
        counted.append(quota["metadata"]["name"])
        return check.recount(quota, objects, now)

    monkeypatch.setattr(enforce, "recount", recount)
    return counted


async def test_quotas_that_are_not_about_a_kind_are_not_counted_for_it(kit: Kit, counts: list[str]) -> None:
    await quota(kit, "pods-alone", pods="5")
    await kit.create("configmaps", "a", namespace="default")
    assert counts == []
    await quota(kit, "maps-too", configmaps="5")
    await kit.create("configmaps", "b", namespace="default")
    assert counts == ["maps-too"]
    assert used(kit, "maps-too") == {"configmaps": "2"}
    await pod(kit, "a")
    assert counts == ["maps-too", "pods-alone"]


async def test_where_there_is_no_room_for_what_the_quota_says_the_object_is_not_stored_either(kit: Kit) -> None:
    before = kit.store.size
    await pod(kit, "a")
    one = kit.store.size - before
    await quota(kit, pods="5", **{"requests.cpu": "5"})
    kit.store._limits = Limits(live=kit.store.size + one + 10)  # the pod fits, with some change; the quota's status does not
    with pytest.raises(ApiError, match="database space exceeded"):
        await pod(kit, "b")
    kit.store._limits = Limits()
    await kit.create("configmaps", "c", namespace="default")  # whatever was staged is on the disk now
    assert kit.get("pods", "b", namespace="default") is None
    await pod(kit, "b")
    assert used(kit) == {"pods": "2", "requests.cpu": "2"}
