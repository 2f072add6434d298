"""The fixtures of every end-to-end test: a control plane for each worker, a namespace for each test."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from .api import Api
from .choice import DISPOSABLE, NoControlPlane, provide
from .control_plane import ControlPlane, running_control_plane
from .kinds import GAUGES, GROUP, ROOT_CA, TANKS, Json

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def pytest_configure(config: pytest.Config) -> None:
    """The process that starts the workers chooses the control plane; they find the choice in their environment."""
    if not hasattr(config, "workerinput"):
        try:
            config.add_cleanup(provide(os.environ))
        except NoControlPlane as problem:
            raise pytest.UsageError(str(problem)) from None
    if os.environ.get("E2E_KUBECONFIG"):  # a kubeconfig may say that nothing is to be verified, and the suite obeys
        config.addinivalue_line("filterwarnings", "ignore::urllib3.exceptions.InsecureRequestWarning")


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with running_control_plane(tmp_path_factory.mktemp("control-plane"), os.environ) as plane:
        yield plane


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Api:
    return Api(control_plane)


@pytest.fixture(scope="session")
def api(admin: Api) -> Api:
    """The admin's client, on a server that serves the suite's custom kinds. Workers on one cluster share the kinds."""
    for definition, probe in ((GAUGES, "gauges"), (TANKS, "tanks")):
        answer = admin.call("POST", DEFINITIONS, definition)
        assert answer.code in {201, 409}, answer.raw
        wait_served(admin, f"/apis/{GROUP}/v1/{probe}")
    wait_published(admin)
    return admin


def wait_served(api: Api, path: str, *, seconds: float = 20.0) -> None:
    """A kind is served a moment after its definition is accepted, on every server."""
    deadline = time.monotonic() + seconds
    while api.get(path).code != 200:
        assert time.monotonic() < deadline, f"{path} is not served after {seconds} s"
        time.sleep(0.05)


def wait_published(api: Api, *, seconds: float = 20.0) -> None:
    """kubectl finds the kinds in documents that kube-apiserver writes anew a moment after it serves a kind."""
    deadline = time.monotonic() + seconds
    for path, headers in ((f"/openapi/v3/apis/{GROUP}/v1", {}), ("/apis", {"Accept": AGGREGATED})):
        while not all(word in api.call("GET", path, headers=headers).raw for word in (b"Gauge", b"Tank")):
            assert time.monotonic() < deadline, f"{path} does not name both kinds after {seconds} s"
            time.sleep(0.05)


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """A namespace of the test's own; it goes in the background. To empty hundreds would keep a real control plane busy for
    longer than all tests take: one that is thrown away keeps them."""
    name = f"e2e-{uuid.uuid4().hex[:10]}"
    body: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.create("/api/v1/namespaces", body)
    wait_served(api, f"/api/v1/namespaces/{name}/configmaps/{ROOT_CA}")  # else it would come in the middle of a watch
    yield name
    if not os.environ.get(DISPOSABLE):
        api.call("DELETE", f"/api/v1/namespaces/{name}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Takes the custom kinds off a shared cluster, once all workers are done."""
    given = os.environ.get("E2E_KUBECONFIG")
    if not given or os.environ.get(DISPOSABLE) or hasattr(session.config, "workerinput"):
        return
    with tempfile.TemporaryDirectory() as workdir:
        api = Api(ControlPlane.from_kubeconfig(Path(given), embedded=False, workdir=Path(workdir)))
        for definition in (GAUGES, TANKS):
            api.call("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}")
