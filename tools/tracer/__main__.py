"""`python -m tools.tracer` prints how many files, functions and reconciles one request passes.

The tracer starts `ullage up` on a data directory of its own, prepares a namespace, and then traces one story after the other:
it counts all calls in the webhook, the controllers and the world from the request until its result, and compares with a
time of the same length in which nothing was asked.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import ullage

SOURCE = f"{Path(ullage.__file__).parent}/"
PROCESSES = ("controller", "webhook")  # what a reader of the product follows; the world plays other programs
PATIENCE = 120.0  # seconds

PREPARED = """
apiVersion: v1
kind: Namespace
metadata:
  name: traced
  annotations: {field.cattle.io/resourceQuota: '{"limit":{"limitsCpu":"8","limitsMemory":"16Gi"}}'}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: traced, labels: {app: traced}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 64Mi}}}
---
apiVersion: harvesterhci.io/v1beta1
kind: ResourceQuota
metadata: {name: default-resource-quota, namespace: traced}
spec: {snapshotLimit: {namespaceTotalSnapshotSizeQuota: 1073741824}}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: machine, namespace: traced}
spec:
  runStrategy: Halted
  template: {spec: {domain: {resources: {limits: {cpu: "1", memory: 512Mi}}}}}
"""
SNAPSHOT = """
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: one, namespace: traced}
spec: {source: {persistentVolumeClaimName: data}}
"""
SCHEDULE = """
apiVersion: ullage.io/v1alpha1
kind: SnapshotSchedule
metadata: {name: nightly, namespace: traced}
spec:
  schedule: "0 3 1 1 *"
  claimSelector: {matchLabels: {app: traced}}
  retention: {count: 2}
"""


@dataclass(slots=True)
class Trace:
    """The calls of one story, by file and function, of the processes that belong to the product."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def files(self) -> set[str]:
        return {file for file, _function in self.calls}

    def reconciles(self) -> Counter[str]:
        """How often each controller ran, by the path of its module."""
        return Counter(
            {
                file: count
                for (file, name), count in self.calls.items()
                if name.endswith(".reconcile") and "/controllers/" in file
            }
        )


class Traced:
    """`ullage up` with a counter in each of its processes."""

    def __init__(self, directory: Path, options: tuple[str, ...]) -> None:
        self._counts = directory / "counts"
        self._counts.mkdir()
        inside = Path(__file__).parent / "inside"
        environ = {**os.environ, "PYTHONPATH": str(inside), "TRACER_DIRECTORY": str(self._counts), "TRACER_SOURCE": SOURCE}
        command = [sys.executable, "-m", "ullage", "up", "--ephemeral", "--no-demo", "--port", "0", *options]
        self._process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        self.kubectl: list[str] = []
        for line in self._process.stdout:
            if line.startswith("  try "):
                self.kubectl = shlex.split(line.removeprefix("  try "))[:3]
            if line.startswith("Ctrl-C stops it"):
                return
        raise SystemExit(f"`ullage up` ended with exit code {self._process.wait()} before it served")

    def run(self, *arguments: str, given: str = "") -> str:
        return subprocess.run([*self.kubectl, *arguments], input=given, capture_output=True, text=True, check=True).stdout

    def trace(self, story: Callable[[], None]) -> Trace:
        """Counts the calls of the product's processes while the story goes on."""
        pids = self._pids()
        self._tell(pids, signal.SIGUSR1)
        story()
        self._tell(pids, signal.SIGUSR2)
        trace = Trace()
        for pid in pids:
            path = self._counts / f"{pid}.json"
            wait_for(path.exists, f"the counts of process {pid}")
            for file, function, count in json.loads(path.read_text())["calls"]:
                trace.calls[file, function] += count
            path.unlink()
        return trace

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE)

    def _tell(self, pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            os.kill(pid, number)

    def _pids(self) -> list[int]:
        """The controllers and the webhook, below the supervisor."""
        pid = self._process.pid
        children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        named = {child: Path(f"/proc/{child}/cmdline").read_text().split("\0") for child in children}
        return [child for child, words in named.items() if any(name in words for name in PROCESSES)]


def wait_for(met: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not met():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not seen within {PATIENCE:.0f} s")
        time.sleep(0.05)


@contextmanager
def started(*options: str) -> Iterator[Traced]:
    with tempfile.TemporaryDirectory(prefix="ullage-tracer-") as directory:
        traced = Traced(Path(directory), options)
        try:
            yield traced
        finally:
            traced.stop()


def stories(up: Traced) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each request with the wait for its result."""

    def ready(name: str) -> None:
        up.run("wait", "-n", "traced", "--for=jsonpath={.status.readyToUse}=true", f"volumesnapshot/{name}", "--timeout=60s")

    def names() -> list[str]:
        return up.run("get", "-n", "traced", "volumesnapshots", "-o", "jsonpath={.items[*].metadata.name}").split()

    def snapshot() -> None:
        up.run("create", "-f", "-", given=SNAPSHOT)
        ready("one")

    def scheduled() -> None:
        known = set(names())
        command = [sys.executable, "-m", "ullage", "schedule", "run-now", "nightly", "-n", "traced"]
        subprocess.run([*command, *up.kubectl[1:]], check=True, capture_output=True)
        wait_for(lambda: set(names()) > known, "a snapshot of the schedule")
        ready(min(set(names()) - known))

    def start() -> None:
        up.run("patch", "-n", "traced", "vm/machine", "--type=merge", "-p", '{"spec":{"runStrategy":"Always"}}')
        up.run("wait", "-n", "traced", "--for=condition=Ready", "vm/machine", "--timeout=60s")

    yield "idle for 5 s", lambda: time.sleep(5)
    yield "a VolumeSnapshot under a limit", snapshot
    yield "a scheduled VolumeSnapshot", scheduled
    yield "a VM starts", start


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.tracer", description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the files of each story, and what was called there most")
    asked = parser.parse_args()
    with started() as up:
        up.run("create", "-f", "-", given=PREPARED + "---" + SCHEDULE)
        up.run("wait", "-n", "traced", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=60s")
        up.run("wait", "-n", "traced", "--for=condition=Ready", "hrq/default-resource-quota", "--timeout=60s")
        print(f"{'story':32} {'files':>6} {'functions':>10} {'calls':>8} {'reconciles':>11} {'controllers':>12}")
        for name, story in stories(up):
            trace = up.trace(story)
            runs = trace.reconciles()
            numbers = (len(trace.files), len(trace.calls), trace.calls.total(), runs.total(), len(runs))
            print("{:32} {:6} {:10} {:8} {:11} {:12}".format(name, *numbers))
            if asked.files:
                for file in sorted(trace.files):
                    print(f"    {file}")
                for file, count in runs.most_common():
                    print(f"    {count:4} reconciles in {file}")


if __name__ == "__main__":
    main()
