"""How long copying takes, by what the instance and KubeVirt's settings say, and when it is given up."""

from __future__ import annotations

from typing import Any

import pytest

from ullage.standalone.world.controllers.migration_copying import Copied, Copying, GivenUp, copying, guest_memory
from ullage.vms.migration_settings import MigrationSettings

GI = 1 << 30
MI = 1 << 20


def late(seconds: int) -> GivenUp:
    return GivenUp(seconds, f"live migration is not completed after {seconds} seconds and has been aborted")


def stuck(seconds: int) -> GivenUp:
    return GivenUp(seconds, f"live migration made no progress for {seconds} seconds and has been aborted")


@pytest.mark.parametrize(
    ("text", "memory", "settings", "expected"),
    [
        pytest.param(None, GI, {}, Copied(2.0), id="as long as is usual"),
        pytest.param("90s", GI, {}, Copied(90.0), id="as long as the instance says"),
        pytest.param("0.5", GI, {}, Copied(0.5), id="seconds need no unit"),
        pytest.param("soon", GI, {}, Copied(2.0), id="what cannot be read says nothing"),
        pytest.param(None, GI, {"bandwidth": 64 * MI}, Copied(16.0), id="no faster than the bandwidth"),
        pytest.param("90s", GI, {"bandwidth": 64 * MI}, Copied(90.0), id="a wide network does not make it faster"),
        pytest.param("150s", GI, {}, Copied(150.0), id="exactly in time"),
        pytest.param("151s", GI, {}, late(150), id="a second late"),
        pytest.param("151s", GI + 1, {}, Copied(151.0), id="more memory has more time"),
        pytest.param("151s", GI, {"completion_timeout": 0}, Copied(151.0), id="without a limit it takes its time"),
        pytest.param("151s", GI, {"post_copy": True}, Copied(150.0, "PostCopy"), id="it runs there before all is copied"),
        pytest.param("never", GI, {"completion_timeout": 800}, stuck(150), id="no progress is made"),
        pytest.param("never", GI, {"progress_timeout": 0}, late(150), id="no progress, and nobody minds until it is late"),
        pytest.param("never", GI, {"post_copy": True}, Copied(150.0, "PostCopy"), id="post-copy needs no progress"),
        pytest.param(
            "never", GI, {"post_copy": True, "progress_timeout": 60}, stuck(60), id="given up before post-copy may begin"
        ),
        pytest.param("never", GI, {"auto_converge": True}, Copied(4.0), id="a guest that is slowed down comes to an end"),
        pytest.param(
            "never", GI, {"progress_timeout": 0, "completion_timeout": 0}, None, id="it goes on until somebody ends it"
        ),
    ],
)
def test_copying(text: str | None, memory: int, settings: dict[str, Any], expected: Copying) -> None:
    assert copying(text, usual=2.0, memory=memory, settings=MigrationSettings(**settings)) == expected


@pytest.mark.parametrize(
    ("domain", "memory"),
    [
        pytest.param({"memory": {"guest": "924Mi"}, "resources": {"limits": {"memory": "1Gi"}}}, 924 * MI, id="the guest's"),
        pytest.param({"resources": {"requests": {"memory": "512Mi"}, "limits": {"memory": "1Gi"}}}, 512 * MI, id="the request"),
        pytest.param({"resources": {"limits": {"memory": "1Gi"}}}, GI, id="the limit"),
        pytest.param({"memory": {"guest": "much"}}, 0, id="what cannot be read"),
        pytest.param({}, 0, id="nothing said"),
    ],
)
def test_the_memory_of_a_guest(domain: dict[str, Any], memory: int) -> None:
    assert guest_memory({"domain": domain}) == memory
