"""What a process under measurement says on its standard output: one line of JSON for each moment that matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.engines.volumes import Scale
from bench.ledger.meters import cpu_seconds, machine_seconds

STARTED: Final = "BENCH_STARTED"  # when the process was started, on the clock that all processes of a machine share
SERVER: Final = "BENCH_SERVER"  # the processes of the API server

Json = dict[str, Any]


def tell(moment: str, **figures: object) -> None:
    """With the time since the process was started, its memory, and the CPU time of it, of the API server and of everybody."""
    rss, peak = memory()
    server = cpu_seconds({SERVER: [int(pid) for pid in os.environ[SERVER].split()]})[SERVER]
    cpu = {"cpu": time.process_time(), "server_cpu": server, "machine": machine_seconds()}
    seconds = time.monotonic() - float(os.environ[STARTED])
    print(json.dumps({"moment": moment, "seconds": seconds, **cpu, "rss": rss, "peak": peak, **figures}), flush=True)


def memory() -> tuple[float, float]:
    """Megabytes that are resident now, and that were at most."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    now, most = (int(lines[name].split()[0]) / 1000 for name in ("VmRSS", "VmHWM"))
    return now, most


class Child:
    """A stage of `bench.engines.ours` in a process of its own. It ends by itself."""

    def __init__(self, stage: str, scale: Scale, *, kubeconfig: Path, server: Sequence[int], rounds: int = 0) -> None:
        command = [sys.executable, "-m", "bench.engines.ours", stage]
        command += [str(number) for number in (scale.volumes, scale.snapshots, rounds)]
        places = {"KUBECONFIG": str(kubeconfig), SERVER: " ".join(map(str, server))}
        environ = {**os.environ, **places, STARTED: str(time.monotonic())}
        self._process = subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def moments(self) -> dict[str, Json]:
        """All that it says, once it has ended."""
        assert self._process.stdout is not None
        told = [json.loads(line) for line in self._process.stdout if line.startswith(b"{")]
        if code := self._process.wait():
            raise RuntimeError(f"a stage ended with {code}, after {[one['moment'] for one in told]}")
        return {one["moment"]: one for one in told}

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
