"""When a Volume of Longhorn is attached."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ullage.engines.api import AttachmentTicket, CloneStatus, Volume, VolumeSpec, VolumeStatus
from ullage.kube.kinds import Meta
from ullage.standalone.world.controllers import longhorn_volume as rules

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TICKET = AttachmentTicket(until="2026-01-01T00:00:10Z")
OVER = AttachmentTicket(until="2025-12-31T23:59:59Z")


@pytest.mark.parametrize(
    ("spec", "clone", "used", "wanted"),
    [
        pytest.param({}, "", False, False, id="nobody uses it"),
        pytest.param({}, "", True, True, id="a pod uses it"),
        pytest.param({"node_id": "ullage"}, "", False, True, id="it names a node"),
        pytest.param({"attachment_tickets": {"a": TICKET}}, "", False, True, id="a ticket"),
        pytest.param({"attachment_tickets": {"a": OVER}}, "", False, False, id="a ticket that ran out"),
        pytest.param({"attachment_tickets": {"a": OVER, "b": TICKET}}, "", False, True, id="one of two tickets ran out"),
        pytest.param({"data_source": "snap://a/b"}, "initiated", True, False, id="it has no data yet"),
        pytest.param({"data_source": "snap://a/b"}, "failed", True, False, id="it will never have data"),
        pytest.param({"data_source": "snap://a/b"}, "completed", True, True, id="it has its data"),
    ],
)
def test_when_a_volume_is_attached(spec: dict[str, Any], clone: str, used: bool, wanted: bool) -> None:
    status = VolumeStatus(clone_status=CloneStatus(state=clone) if clone else None)
    volume = Volume(metadata=Meta(name="v"), spec=VolumeSpec(**spec), status=status)
    assert rules.wants_attached(volume, used=used, now=NOW) is wanted
