"""Setting a quota and what is kept of it: the values that were named, and no others, on the Namespace that was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ullage.headroom import share_setting
from ullage.headroom.share_setting import ShareChange, set_shares
from ullage.headroom.shares import MAINTENANCE_QUOTA, RESOURCE_QUOTA, ShareError
from ullage.kube.backoff import Backoff
from ullage.kube.builtin.core import NAMESPACES
from ullage.kube.errors import Conflict
from ullage.kube.kinds import Kind, Meta, Object

HALF = ShareChange(
    quota={"limitsCpu": "4", "limitsMemory": "5Gi"}, maintenance={"limitsCpuPercent": 50, "limitsMemoryPercent": 50}
)


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        pytest.param(
            {},
            HALF,
            {
                RESOURCE_QUOTA: '{"limit":{"limitsCpu":"4","limitsMemory":"5Gi"}}',
                MAINTENANCE_QUOTA: '{"limit":{"limitsCpuPercent":50,"limitsMemoryPercent":50}}',
            },
            id="both, where there was nothing",
        ),
        pytest.param(
            {RESOURCE_QUOTA: '{"limit":{"pods":"10","limitsCPU":"2"},"usedLimit":{"pods":"1"}}'},
            ShareChange(quota={"limitsCpu": "4"}),
            {RESOURCE_QUOTA: '{"limit":{"pods":"10","limitsCPU":"4"},"usedLimit":{"pods":"1"}}'},
            id="what else is there stays, as it is spelled",
        ),
        pytest.param(
            {MAINTENANCE_QUOTA: '{"limit":{"limitsCPUPercent":"50","limitsMemoryPercent":25}}'},
            ShareChange(maintenance={"limitsCpuPercent": None}),
            {MAINTENANCE_QUOTA: '{"limit":{"limitsMemoryPercent":25}}'},
            id="one value is taken away",
        ),
        pytest.param(
            {MAINTENANCE_QUOTA: '{"limit":{"limitsCPUPercent":"50"}}'},
            ShareChange(maintenance={"limitsCpuPercent": None}),
            {MAINTENANCE_QUOTA: None},
            id="with the last value the annotation goes",
        ),
        pytest.param({}, ShareChange(maintenance={"limitsCpuPercent": None}), {}, id="nothing is taken away from nothing"),
        pytest.param({RESOURCE_QUOTA: '{"limit":{"limitsCpu":"4"}}'}, ShareChange(quota={"limitsCpu": "4"}), {}, id="as it is"),
    ],
)
def test_what_is_written(before: dict[str, str], change: ShareChange, after: dict[str, str | None]) -> None:
    assert change.annotations(before) == after


def test_what_cannot_be_read_is_not_overwritten() -> None:
    with pytest.raises(ShareError, match=r"metadata.annotations\[field.cattle.io/resourceQuota\]: '\{' is not JSON"):
        HALF.annotations({RESOURCE_QUOTA: "{"})


class Busy:
    """A Namespace that others change, a few times, between a read and a write."""

    def __init__(self, others: int) -> None:
        self.others = others
        self.written: Mapping[str, Any] = {}

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        assert (kind, name) == (NAMESPACES, "team-a")
        return Object(metadata=Meta(name=name, uid="u", resource_version=str(self.others)))

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        assert (given["uid"], given["field_manager"]) == ("u", "me")
        if self.others:
            assert given["resource_version"] == str(self.others)
            self.others -= 1
            raise Conflict("changed", code=409)
        self.written = given["merge"]["metadata"]["annotations"]
        return Object(metadata=Meta(name=name, annotations=dict(self.written)))


async def test_whoever_was_overtaken_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_setting, "PAUSE", Backoff(first=0.001, cap=0.001))
    busy = Busy(3)
    found = await set_shares(busy, "team-a", HALF, manager="me")
    assert found.metadata.annotations == dict(busy.written) == HALF.annotations({})
    with pytest.raises(Conflict, match="namespace team-a is changed by others all the time: 8 tries were in vain"):
        await set_shares(Busy(99), "team-a", HALF, manager="me")
