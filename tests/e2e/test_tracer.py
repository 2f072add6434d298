"""`python -m tools.tracer` on the processes of `ullage up`: what it prints is what a reader of the code follows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "E2E_KUBECONFIG" in os.environ, reason="the tracer starts `ullage up`, which brings the embedded server"
    ),
]


def test_the_tracer_prints_the_files_and_controllers_of_each_story() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.tracer", "--files"], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    _, _, snapshot = done.stdout.partition("a VolumeSnapshot under a limit")
    snapshot, _, start = snapshot.partition("a scheduled VolumeSnapshot")
    assert "    snapshots/controllers/snapshot_bind.py\n" in snapshot
    assert "    ledger/book.py\n" in snapshot
    assert " reconciles in snapshots/controllers/snapshot_bind.py\n" in snapshot
    _, _, start = start.partition("a VM starts")
    assert "    headroom/webhook/machines.py\n" in start
    assert "snapshots/controllers/snapshot_bind.py" not in start
