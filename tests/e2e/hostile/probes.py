"""What an attack does to the others: how long `/readyz` takes meanwhile, and how much memory the server takes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SLOWEST_READY: Final = 1.0  # seconds
MOST_MEMORY: Final = 150 * 1024  # KiB more than at the beginning
PATIENCE: Final = 60.0


@dataclass(slots=True)
class ReadyProbe:
    """Asks for `/readyz` all the time, from a process of its own: what the tests compute does not slow it down."""

    host: str
    port: int
    ca_file: str
    pid: int  # of the server
    times: list[float] = field(default_factory=list)  # seconds that the server took; infinite if the answer is not 200
    _process: subprocess.Popen[str] | None = None
    _reader: threading.Thread | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def start(self) -> None:
        script = Path(__file__).with_name("ready_asker.py")
        command = [sys.executable, str(script), self.host, str(self.port), self.ca_file, str(self.pid)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.settle()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.times.append(float(line))
                self._changed.notify_all()

    def settle(self) -> None:
        """Returns when a question has been answered that was asked after this call."""
        with self._changed:
            wanted = len(self.times) + 2  # the next answer may be to a question from before
            assert self._changed.wait_for(lambda: len(self.times) >= wanted, PATIENCE), "/readyz is not answered any more"

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            if self._reader is not None:
                self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


@dataclass(frozen=True, slots=True)
class MemoryProbe:
    """The memory of a process, in KiB, as the kernel counts it."""

    pid: int

    def now(self) -> int:
        return self._read("VmRSS")

    def peak(self) -> int:
        """The most since `forget_peak`."""
        return self._read("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _read(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise AssertionError(f"process {self.pid} is gone")


@dataclass(slots=True)
class Effect:
    """What happened while an attack went on."""

    slowest: float = 0.0  # seconds
    asked: int = 0
    peak: int = 0  # KiB above the beginning
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"/readyz at most {self.slowest:.3f} s in {self.asked} asks, memory +{self.peak // 1024} MiB, {self.seconds:.1f} s"
        )


@dataclass(slots=True)
class Probes:
    """Both probes, and where the memory began."""

    ready: ReadyProbe
    memory: MemoryProbe
    began: int  # KiB

    @contextlib.contextmanager
    def observe(self) -> Iterator[Effect]:
        """What is done inside shows in the effect, which is complete after the block."""
        effect = Effect()
        self.ready.settle()
        self.memory.forget_peak()
        first, began = len(self.ready.times), time.monotonic()
        try:
            yield effect
        finally:
            self.ready.settle()
            times = self.ready.times[first:]
            effect.slowest, effect.asked = max(times), len(times)
            effect.peak = self.memory.peak() - self.began
            effect.seconds = time.monotonic() - began
