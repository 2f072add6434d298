"""Our CSI driver is one by the judgement of csi-sanity, so what is tested on it holds for drivers in general.

It speaks the published interface through the stubs of our own csi.proto: a wrong number there would show here.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.csi_driver.running import RunningDriver, running_driver
from tools.peers.csi.build import sanity

from .built import built

pytestmark = pytest.mark.slow

# csi-sanity skips what the driver does not claim to have: VolumeAttributesClasses.
PASSED, SKIPPED = 83, 8


@pytest.fixture
def driver() -> Iterator[RunningDriver]:
    with running_driver() as running:
        yield running


@pytest.fixture(scope="module")
def program() -> Path:
    return built(sanity)


@pytest.mark.timeout(400)  # the first time includes the build
def test_csi_sanity_passes_and_leaves_nothing(program: Path, driver: RunningDriver) -> None:
    here = driver.state.parent
    options = [f"--csi.endpoint={driver.endpoint}", f"--csi.mountdir={here}/mount", f"--csi.stagingdir={here}/staging"]
    options.append("--csi.testnodevolumeattachlimit")
    done = subprocess.run([program, "--ginkgo.no-color", *options], capture_output=True, text=True, timeout=120, cwd=here)
    counts = re.search(r"(\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped", done.stdout)
    assert done.returncode == 0, done.stdout[-8000:]
    assert counts is not None, done.stdout[-8000:]
    # The pending one is pending in csi-sanity itself.
    assert tuple(map(int, counts.groups())) == (PASSED, 0, 1, SKIPPED), done.stdout[-8000:]
    assert driver.volumes() == []
    assert driver.snapshots() == []
    assert driver.groups() == []
