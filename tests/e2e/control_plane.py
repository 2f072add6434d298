"""The control plane under test: a cluster that is already there, or an embedded server of our own.

Tests see only `ControlPlane`; whether kube-apiserver or the embedded server is behind it shows in nothing but `embedded`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

KUBECTL = Path(sys.executable).parent / "kubectl"
START_SECONDS = 60.0
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Where the API is and who we are there. `ca_file` is None where the kubeconfig says not to verify."""

    url: str
    ca_file: str | None
    admin_token: str
    kubeconfig: Path
    embedded: bool
    kubectl: Path = KUBECTL

    @classmethod
    def from_kubeconfig(cls, path: Path, *, embedded: bool, workdir: Path) -> Self:
        """Reads the current context; kubectl does the reading, so that YAML and JSON files will do."""
        command = [str(KUBECTL), "--kubeconfig", str(path), "config", "view", "--raw", "--minify", "--flatten", "-o", "json"]
        config = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=30).stdout)
        cluster = config["clusters"][0]["cluster"]
        token = config["users"][0]["user"].get("token")
        if token is None:
            raise RuntimeError(f"{path}: the suite needs a user with a bearer token")
        return cls(
            url=cluster["server"].rstrip("/"),
            ca_file=_write_ca(cluster, workdir),
            admin_token=token,
            kubeconfig=path,
            embedded=embedded,
        )


def _write_ca(cluster: Mapping[str, Any], workdir: Path) -> str | None:
    encoded = cluster.get("certificate-authority-data")
    if encoded is None:
        return None
    path = workdir / "ca.crt"
    path.write_bytes(base64.b64decode(encoded))
    return str(path)


class EmbeddedServer:
    """`python -m ullage.standalone.apiserver` as a child process that can be stopped, killed and started again."""

    def __init__(self, data_dir: Path, *, ephemeral: bool = True, options: Sequence[str] = ()) -> None:
        self.data_dir = data_dir
        self.options = [*options, *(["--ephemeral"] if ephemeral else [])]
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._parent_end: int | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process.pid

    def start(self) -> None:
        """Returns when the server serves. After the first time it takes the port that it had."""
        ready, ready_child = os.pipe()
        parent_child, parent = os.pipe()  # the server ends when this pipe does: a killed test run leaves nothing behind
        command = [sys.executable, "-m", "ullage.standalone.apiserver", "--data-dir", str(self.data_dir)]
        command += ["--port", str(self.port), "--ready-fd", str(ready_child), "--parent-fd", str(parent_child)]
        command += self.options
        log = (self.data_dir.parent / f"{self.data_dir.name}.log").open("ab")
        with log:
            self._process = subprocess.Popen(command, pass_fds=(ready_child, parent_child), stdout=log, stderr=log)
        os.close(ready_child)
        os.close(parent_child)
        self._parent_end = parent
        try:
            self.port = int(json.loads(self._ready_line(ready))["port"])
        except BaseException:
            self.kill()
            raise
        finally:
            os.close(ready)

    def _ready_line(self, fd: int) -> bytes:
        deadline = time.monotonic() + START_SECONDS
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"the embedded server did not serve within {START_SECONDS:.0f} s:\n{self.log_tail()}")
            chunk = os.read(fd, 4096)
            if not chunk:
                raise RuntimeError(f"the embedded server ended before it served:\n{self.log_tail()}")
            line += chunk
        return line

    def log_tail(self) -> str:
        path = self.data_dir.parent / f"{self.data_dir.name}.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: what a power cut looks like to the process."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM and the exit code; SIGKILL where that does not help."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process = self._process
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            self._process = None
            if self._parent_end is not None:
                os.close(self._parent_end)
                self._parent_end = None

    def back_up(self) -> None:
        """Keeps what the server has now, while it does not run."""
        self.kill()
        shutil.rmtree(self._backup, ignore_errors=True)
        shutil.copytree(self.data_dir, self._backup)
        self.start()

    def restore(self) -> None:
        """Puts what was kept in the place of what is there."""
        self.kill()
        shutil.rmtree(self.data_dir)
        shutil.copytree(self._backup, self.data_dir)
        self.start()

    @property
    def _backup(self) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}-backup")

    def control_plane(self) -> ControlPlane:
        return ControlPlane.from_kubeconfig(self.kubeconfig, embedded=True, workdir=self.data_dir.parent)


@contextlib.contextmanager
def running_control_plane(workdir: Path, environ: Mapping[str, str]) -> Iterator[ControlPlane]:
    """The cluster that the environment names, or else an embedded server for the length of the block."""
    given = environ.get("E2E_KUBECONFIG")
    if given:
        yield ControlPlane.from_kubeconfig(Path(given), embedded=False, workdir=workdir)
        return
    server = EmbeddedServer(workdir / "data")
    server.data_dir.mkdir(parents=True, exist_ok=True)
    server.start()
    try:
        yield server.control_plane()
    finally:
        server.stop()
