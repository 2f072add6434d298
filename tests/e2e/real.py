"""A control plane of real etcd, kube-apiserver and kube-controller-manager, as a child of the tests.

Every start takes free ports and a directory of its own, so that suites run side by side. The ports are bound here and shared
with the programs (SO_REUSEPORT): nobody can take one between the choice and the start, nor while a program is restarted.
"""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ullage.pki import Identity, issue_client, issue_serving, make_ca, save, write_private

from .control_plane import ControlPlane
from .leash import Leash

Json = dict[str, Any]
START_SECONDS = 90.0
LIFETIME = timedelta(days=2)
# kube-apiserver forgets what is older than one to two of these. The default of 5 minutes would leave 410 untested.
COMPACTION_SECONDS = 20
CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "resourcequota-controller",
    "clusterrole-aggregation-controller",
    "root-ca-certificate-publisher-controller",
)
# These count on controllers that are not among those: pods would want a ServiceAccount, deleted claims would never go.
DISABLED_PLUGINS = ("ServiceAccount", "StorageObjectInUseProtection")
# All that a cluster has, but for those that would give up a node without a kubelet.
EVERY_CONTROLLER = ("*", "-node-lifecycle-controller", "-taint-eviction-controller")


class RealControlPlane:
    """etcd, kube-apiserver and kube-controller-manager on loopback. For benchmarks, `durable` lets etcd wait for the disk;
    `options` are further ones for kube-apiserver, `controllers` of kube-controller-manager; `whole` is a control plane with
    every controller and admission plugin."""

    def __init__(
        self,
        programs: Path,
        *,
        durable: bool = False,
        options: Sequence[str] = (),
        controllers: Sequence[str] = (),
        whole: bool = False,
    ) -> None:
        self.programs = programs
        self.controllers = EVERY_CONTROLLER if whole else (*CONTROLLERS, *controllers)
        self.disabled_plugins = () if whole else DISABLED_PLUGINS
        self.durable = durable
        self.options = tuple(options)
        self.directory = Path(tempfile.mkdtemp(prefix="ullage-kube-"))
        self.token = secrets.token_urlsafe(24)
        self._stack = ExitStack()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._leash = Leash(self.directory)
        self._stack.callback(self._leash.end)
        self.port, self._etcd_port, self._peer_port, self._manager_port = (self._reserve() for _ in range(4))

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def pids(self) -> dict[str, int]:
        """The process of each program by name: benchmarks read their memory."""
        return {name: process.pid for name, process in self._processes.items()}

    def start(self) -> None:
        """Returns when the API is served and the controllers work."""
        try:
            self._write_files()
            self._serve()
            self._run("kube-controller-manager", self._manager_options())
            self._wait("kube-controller-manager", f"https://127.0.0.1:{self._manager_port}/healthz")
        except BaseException:
            self.stop()
            raise

    def _serve(self) -> None:
        self._run("etcd", self._etcd_options())
        self._run("kube-apiserver", self._apiserver_options())
        self._wait("kube-apiserver", f"{self.url}/readyz")
        self._wait("kube-apiserver", f"{self.url}/api/v1/namespaces/default")  # it makes that a moment after it is ready

    def stop(self) -> None:
        """Leaves no process and no file."""
        self._stack.close()

    def back_up(self) -> None:
        """Keeps what etcd has now, while nothing runs that would change it."""
        with self._halted():
            shutil.rmtree(self.directory / "backup", ignore_errors=True)
            shutil.copytree(self.directory / "etcd", self.directory / "backup")

    def restore(self) -> None:
        """Puts what was kept in the place of what is there."""
        with self._halted():
            shutil.rmtree(self.directory / "etcd")
            shutil.copytree(self.directory / "backup", self.directory / "etcd")

    @contextmanager
    def _halted(self) -> Iterator[None]:
        for name in ("kube-apiserver", "etcd"):
            process = self._processes[name]
            process.kill()
            process.wait()
        yield
        self._serve()

    def control_plane(self) -> ControlPlane:
        return ControlPlane.from_kubeconfig(self.kubeconfig, embedded=False, workdir=self.directory)

    def _reserve(self) -> int:
        held = self._stack.enter_context(socket.socket())
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))  # and never listens: connections go to the program
        return int(held.getsockname()[1])

    def _write_files(self) -> None:
        now = datetime.now(UTC)
        ca = make_ca("ullage-e2e", now=now, lifetime=LIFETIME)
        here = self.directory
        save(ca, here / "ca.crt", here / "ca.key")
        for name in ("apiserver", "manager"):
            pair = issue_serving(ca, ["127.0.0.1", "localhost"], now=now, lifetime=LIFETIME)
            save(pair, here / f"{name}.crt", here / f"{name}.key")
        admin = issue_client(ca, Identity("admin", ("system:masters",)), now=now, lifetime=LIFETIME)
        save(admin, here / "admin.crt", here / "admin.key")
        kubelets = issue_client(ca, Identity("kube-apiserver-kubelet-client"), now=now, lifetime=LIFETIME)
        save(kubelets, here / "kubelets.crt", here / "kubelets.key")
        accounts = make_ca("service-accounts", now=now, lifetime=LIFETIME)  # only its key pair counts
        save(accounts, here / "accounts.crt", here / "accounts.key")
        write_private(here / "tokens.csv", f'{self.token},admin,admin-uid,"system:masters"\n'.encode())
        write_private(self.kubeconfig, json.dumps(kubeconfig(self.url, ca.certificate, self.token)).encode())

    def _etcd_options(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            f"--data-dir={self.directory}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--socket-reuse-port",
            "--log-level=warn",
            *([] if self.durable else ["--unsafe-no-fsync"]),
        ]

    def _apiserver_options(self) -> list[str]:
        here = self.directory
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--etcd-compaction-interval={COMPACTION_SECONDS}s",
            f"--disable-admission-plugins={','.join(self.disabled_plugins)}",
            "--authorization-mode=RBAC",
            f"--client-ca-file={here}/ca.crt",
            f"--token-auth-file={here}/tokens.csv",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={here}/accounts.crt",
            f"--service-account-signing-key-file={here}/accounts.key",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--kubelet-client-certificate={here}/kubelets.crt",
            f"--kubelet-client-key={here}/kubelets.key",
            "--kubelet-preferred-address-types=InternalIP",
            *self._serving(self.port, "apiserver"),
            *self.options,
        ]

    def _manager_options(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(self.controllers)}",
            f"--root-ca-file={self.directory}/ca.crt",
            f"--service-account-private-key-file={self.directory}/accounts.key",
            "--leader-elect=false",
            "--kube-api-qps=1000",  # every test ends with a namespace to empty; at the default of 20/s they would pile up
            "--kube-api-burst=1000",
            *self._serving(self._manager_port, "manager"),
        ]

    def _serving(self, port: int, name: str) -> list[str]:
        files = [f"--tls-cert-file={self.directory}/{name}.crt", f"--tls-private-key-file={self.directory}/{name}.key"]
        return ["--bind-address=127.0.0.1", f"--secure-port={port}", "--permit-port-sharing", *files]

    def _run(self, name: str, options: Sequence[str]) -> None:
        command = [str(self.programs / name), *options]
        self._processes[name] = self._leash.start(command, log=self.directory / f"{name}.log")

    def _wait(self, name: str, url: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        context = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        while True:
            try:
                with opener.open(request, timeout=5):
                    return
            except OSError as problem:  # refused, reset, or an HTTP error: all are OSError
                self._give_up(name, url, late=time.monotonic() > deadline, problem=problem)
            time.sleep(0.05)

    def _give_up(self, name: str, url: str, *, late: bool, problem: OSError) -> None:
        ended = [other for other, process in self._processes.items() if process.poll() is not None]
        if not ended and not late:
            return
        blamed = ended[0] if ended else name
        tail = (self.directory / f"{blamed}.log").read_text(errors="replace")[-3000:]
        fault = "ended before it served" if ended else f"did not answer {url} within {START_SECONDS:.0f} s ({problem})"
        raise RuntimeError(f"{blamed} {fault}; the end of its log:\n{tail}")


def kubeconfig(url: str, ca: bytes, token: str) -> Json:
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
        "current-context": "e2e",
    }
