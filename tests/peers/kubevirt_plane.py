"""A control plane with KubeVirt's own virt-api and virt-controller on it, and nodes that our players keep.

KubeVirt's operator would install what its two programs need; here the same objects come from the operator's own code
(`tools/peers/kubevirt/manifests`). The programs run as processes under their own service accounts. kube-apiserver reaches
virt-api through a Service of type ExternalName, since there is no network between pods.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.e2e.api import Api
from tests.e2e.control_plane import ControlPlane
from tests.e2e.leash import Leash
from tests.e2e.real import LIFETIME, RealControlPlane, kubeconfig
from tests.e2e.snapshot_scene import eventually
from tools.peers.kube.build import programs as kube_programs
from tools.peers.kubevirt.build import manifests
from ullage.pki import Identity, Pair, issue_client, issue_serving, make_ca, save, write_private

from .binder import BINDER
from .kubevirt_handler import Handler
from .kubevirt_nodes import NAMES, Nodes

Json = dict[str, Any]
NAMESPACE: Final = "kubevirt"
VIRT_API: Final = "virt-api"
VIRT_CONTROLLER: Final = "virt-controller"
API_ACCOUNT: Final = "kubevirt-apiserver"
CONTROLLER_ACCOUNT: Final = "kubevirt-controller"
HANDLER_ACCOUNT: Final = "kubevirt-handler"
SUBRESOURCES: Final = "/apis/subresources.kubevirt.io/v1"
# Kinds of one group and version: what is appended to the API's path of their namespace, or of the cluster.
PLURALS: Final = {
    "APIService": "apiservices",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CustomResourceDefinition": "customresourcedefinitions",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "PriorityClass": "priorityclasses",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ServiceAccount": "serviceaccounts",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "VirtualMachineClusterInstancetype": "virtualmachineclusterinstancetypes",
    "VirtualMachineClusterPreference": "virtualmachineclusterpreferences",
}
_ADMITTED: Final = ("VirtualMachineClusterInstancetype", "VirtualMachineClusterPreference")
SETTINGS: Final[Json] = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "KubeVirt",
    "metadata": {"name": "kubevirt", "namespace": NAMESPACE},
    "spec": {
        "configuration": {
            "evictionStrategy": "LiveMigrate",
            "vmRolloutStrategy": "LiveUpdate",
            "migrations": {"parallelMigrationsPerCluster": 5, "parallelOutboundMigrationsPerNode": 5},
        },
        "workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate"]},
    },
}
DEPLOYED: Final[Json] = {
    "phase": "Deployed",
    "observedKubeVirtVersion": "v1.6.0",
    "operatorVersion": "v1.6.0",
    "defaultArchitecture": "amd64",
}


class AggregatingControlPlane(RealControlPlane):
    """Hands requests on to other API servers, as every cluster does."""

    def _write_files(self) -> None:
        super()._write_files()
        now, here = datetime.now(UTC), self.directory
        front = make_ca("front-proxy", now=now, lifetime=LIFETIME)
        client = issue_client(front, Identity("front-proxy-client"), now=now, lifetime=LIFETIME)
        save(front, here / "front.crt", here / "front.key")
        save(client, here / "proxy.crt", here / "proxy.key")
        self.options = (
            *self.options,
            f"--requestheader-client-ca-file={here}/front.crt",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={here}/proxy.crt",
            f"--proxy-client-key-file={here}/proxy.key",
        )


class KubeVirt:
    """virt-api and virt-controller as processes, beside a control plane that runs already."""

    def __init__(self, plane: ControlPlane, programs: Path) -> None:
        self.plane = plane
        self.api = Api(plane)
        self.directory = Path(tempfile.mkdtemp(prefix="ullage-kubevirt-"))
        self.certificates = self.directory / "certificates"  # nothing else is written there: the programs watch it
        self.certificates.mkdir(mode=0o700)
        self.nodes = Nodes(self.api)
        self._programs = programs
        self._later: tuple[Json, ...] = ()  # what is applied when virt-api answers
        self._leash = Leash(self.directory)
        self._commands: dict[str, list[str]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {name: _free_port() for name in (VIRT_API, VIRT_CONTROLLER)}
        self._authority = make_ca("kubevirt", now=datetime.now(UTC), lifetime=LIFETIME)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.callback(self._leash.end)
            self._issue()
            self._install()
            handler = stack.enter_context(Handler(self._handler_api(), self.certificates).serving())
            stack.enter_context(self.nodes.kept(self._handler_api(), handler_port=handler.port))
            self._start(handler.port)
            try:
                self._register()
                yield
            finally:
                for name in self._ports:
                    print(f"--- {name}\n{(self.directory / f'{name}.log').read_text(errors='replace')[-3000:]}")

    # --- what is there before the programs start ---

    def _issue(self) -> None:
        now = datetime.now(UTC)
        hosts = [f"virt-api.{NAMESPACE}.svc", "localhost", "127.0.0.1"]
        self._save("api", issue_serving(self._authority, hosts, now=now, lifetime=LIFETIME))
        self._save("handler", issue_serving(self._authority, ["localhost", "127.0.0.1"], now=now, lifetime=LIFETIME))
        client = Identity(f"kubevirt.io:system:client:{NAMESPACE}")
        self._save("client", issue_client(self._authority, client, now=now, lifetime=LIFETIME))

    def _save(self, name: str, pair: Pair) -> None:
        save(pair, self.certificates / f"{name}.crt", self.certificates / f"{name}.key")

    def _install(self) -> None:
        self.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        found = manifests(self._programs)
        self._later = tuple(one for one in found if _waits_for_programs(one))
        for one in found:
            if not _waits_for_programs(one):
                self._apply(one)
        eventually("KubeVirt's kinds are served", self._is_served)
        path = f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/kubevirts"
        self.api.create(path, SETTINGS)
        self.api.merge(f"{path}/kubevirt/status", {"status": DEPLOYED})
        bundle = {"ca-bundle": self._authority.certificate.decode()}
        self.api.create(f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "kubevirt-ca"}, "data": bundle})
        port = {"port": 443, "targetPort": self._ports["virt-api"]}
        service = {"type": "ExternalName", "externalName": "localhost", "ports": [port]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "virt-api"}, "spec": service}
        self.api.create(f"/api/v1/namespaces/{NAMESPACE}/services", body)

    def _is_served(self) -> bool:
        kinds = ("kubevirt.io/v1/kubevirts", "kubevirt.io/v1/virtualmachines", "clone.kubevirt.io/v1beta1/virtualmachineclones")
        return all(self.api.get(f"/apis/{kind}").code == 200 for kind in kinds)

    def _apply(self, body: Json) -> None:
        prefix = "/api/" if "/" not in body["apiVersion"] else "/apis/"
        namespace = body["metadata"].get("namespace")
        place = f"namespaces/{namespace}/" if namespace else ""
        self.api.create(f"{prefix}{body['apiVersion']}/{place}{PLURALS[body['kind']]}", body)

    # --- the programs ---

    def _start(self, handler_port: int) -> None:
        here = self.certificates
        self._run(
            VIRT_API,
            API_ACCOUNT,
            "--subresources-only",
            "--externally-managed",  # any name will do in a certificate
            f"--console-server-port={handler_port}",
            f"--tls-cert-file={here}/api.crt",
            f"--tls-key-file={here}/api.key",
            f"--handler-cert-file={here}/client.crt",
            f"--handler-key-file={here}/client.key",
        )
        self._run(
            VIRT_CONTROLLER,
            CONTROLLER_ACCOUNT,
            "--launcher-image=example.com/virt-launcher:v1.6.0",
            "--exporter-image=example.com/virt-exportserver:v1.6.0",
            f"--prom-cert-file={here}/api.crt",
            f"--prom-key-file={here}/api.key",
        )

    def _run(self, name: str, account: str, *options: str) -> None:
        login = self.directory / f"{name}.kubeconfig"
        authority = Path(self.plane.ca_file).read_bytes() if self.plane.ca_file else b""
        write_private(login, json.dumps(kubeconfig(self.plane.url, authority, self._token(account))).encode())
        command = [str(self._programs / name), f"--kubeconfig={login}", "--listen=127.0.0.1", f"--port={self._ports[name]}"]
        self._commands[name] = [*command, *options]
        self._begin(name)

    def _begin(self, name: str) -> None:
        self._processes[name] = self._leash.start(self._commands[name], log=self.directory / f"{name}.log")

    def kill(self, name: str) -> None:
        """Ends a program with -9, and starts the next."""
        self._processes[name].kill()
        self._processes[name].wait()
        self._begin(name)

    def _token(self, account: str) -> str:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        return str(self.api.create(path, asked)["status"]["token"])

    def _handler_api(self) -> Api:
        return Api(self.plane, token=self._token(HANDLER_ACCOUNT))

    def _register(self) -> None:
        """The webhooks and the aggregated API, once virt-api answers; then the instance types, which it must admit."""
        port, bundle = self._ports["virt-api"], base64.b64encode(self._authority.certificate).decode()
        eventually("virt-api listens", lambda: _listens(port))
        for one in self._later:
            for hook in one.get("webhooks", ()):
                hook["clientConfig"]["caBundle"] = bundle
                hook["clientConfig"]["service"]["port"] = port
            if one["kind"] == "APIService":
                one["spec"]["caBundle"] = bundle
                one["spec"]["service"]["port"] = port
                one.pop("status", None)
            self._apply(one)
        eventually("virt-api serves its subresources", lambda: self.api.get(SUBRESOURCES).code == 200)
        leader = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/virt-controller"
        eventually("virt-controller leads", lambda: self.api.get(leader).obj.get("spec", {}).get("holderIdentity"))


def _waits_for_programs(body: Json) -> bool:
    """Requests of these kinds go to virt-api, or make the API server send it some."""
    kind = body["kind"]
    return kind in ("APIService", *_ADMITTED) or kind.endswith("WebhookConfiguration")


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def kubevirt_plane(programs: Path) -> Iterator[KubeVirt]:
    """kube-apiserver, etcd, kube-controller-manager, and KubeVirt on them."""
    plane = AggregatingControlPlane(kube_programs(os.environ), controllers=[BINDER])
    plane.start()
    try:
        found = KubeVirt(plane.control_plane(), programs)
        try:
            with found.running():
                yield found
        finally:
            shutil.rmtree(found.directory, ignore_errors=True)
    finally:
        plane.stop()


__all__ = ["NAMES", "KubeVirt", "kubevirt_plane"]
