"""Which version the world says that it plays, in the status of the KubeVirt object."""

from __future__ import annotations

import pytest

from ullage.standalone.world.controllers.kubevirt import PLAYED, status_of
from ullage.vms.api.kubevirts import KubeVirtStatus


@pytest.mark.parametrize(
    ("has", "chosen", "version"),
    [
        pytest.param("", "auto", PLAYED, id="the usual one"),
        pytest.param("v1.4.0", "auto", "v1.4.0", id="one that an administrator wrote stays"),
        pytest.param("v1.6.0", "v1.4.0", "v1.4.0", id="one that was chosen goes first"),
        pytest.param("", "seed", "", id="the formula of the design is that of no version"),
    ],
)
def test_the_version_that_is_played(has: str, chosen: str, version: str) -> None:
    status = status_of(KubeVirtStatus(observed_version=has), chosen)
    assert (status.phase, status.observed_version) == ("Deployed", version)
