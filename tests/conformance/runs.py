"""Runs of the conformance program: which specs go together, and what they are told."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.control_plane import ControlPlane
from tests.e2e.leash import Leash

from .specs import CutOff, Result, results

PROCESSES = 4  # most specs wait for something most of the time
TIMEOUT_MINUTES = 20
SERIAL = "[Serial]"  # must not run beside others, says Kubernetes
_FLAGS = (
    "--provider=skeleton",
    "--e2e-verify-service-account=false",
    "--allowed-not-ready-nodes=-1",
    "--minStartupPods=0",
    "--system-pods-startup-timeout=1s",
    "--dump-logs-on-failure=false",
    "--ginkgo.v",
    "--ginkgo.no-color",
    "--ginkgo.seed=1",
    f"--ginkgo.timeout={TIMEOUT_MINUTES}m",
)


@dataclass(frozen=True, slots=True)
class Runner:
    program: Path
    plane: ControlPlane
    folder: Path  # for reports and logs

    def run(self, names: Sequence[str]) -> dict[str, Result]:
        """What came of each spec: those that may, side by side; the others after them, one by one."""
        serial = [name for name in names if SERIAL in name]
        others = [name for name in names if SERIAL not in name]
        found = self._side_by_side([others[first::PROCESSES] for first in range(PROCESSES)], "parallel")
        return found | self._side_by_side([serial], "serial")

    def _side_by_side(self, shares: Sequence[Sequence[str]], what: str) -> dict[str, Result]:
        leash = Leash(self.folder / f"{what}-work")
        leash.directory.mkdir(exist_ok=True)
        try:
            started = []
            for number, share in enumerate(shares):
                if share:
                    stem = f"{what}-{number}"
                    started.append((stem, leash.start(self._command(share, stem), log=self.folder / f"{stem}.log")))
            found: dict[str, Result] = {}
            for stem, process in started:
                process.wait()
                found |= self._report(stem)
            return found
        finally:
            leash.end()

    def _command(self, share: Sequence[str], stem: str) -> list[str]:
        focus = [f"--ginkgo.focus={re.escape(name)}$" for name in share]
        where = [f"--kubeconfig={self.plane.kubeconfig}", f"--kubectl-path={self.plane.kubectl}"]
        return [str(self.program), *_FLAGS, *where, f"--ginkgo.json-report={self.folder / stem}.json", *focus]

    def _report(self, stem: str) -> dict[str, Result]:
        path = self.folder / f"{stem}.json"
        if not path.exists():
            tail = (self.folder / f"{stem}.log").read_text(errors="replace")[-3000:]
            raise CutOff(f"{self.program.name} ended without a report; the end of its log:\n{tail}")
        return results(path.read_bytes())


def since(start: float) -> str:
    return f"{(time.monotonic() - start) / 60:.1f} minutes"
