"""A live master from outside: quotas over REST and by the command line, what each sees of the other, and an uninstall."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ullage.app.installer.manifests import NAMESPACE
from ullage.app.installer.names import MASTER, Names
from ullage.app.installer.roles import API
from ullage.app.up.identities import Identities, Identity
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.routes.roles import ADMIN

from .apart import IS_BORROWED
from .projects_scene import Platform, eventually_is, platform
from .snapshot_scene import SOURCE, Process
from .test_rest import RBAC, Answer, Rest, Team

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(IS_BORROWED, reason="the quotas of a cluster are its owner's"),
]

Json = dict[str, Any]
NAMES = Names.of((MASTER,))
PROJECT = "abc"


class MasterRest(Rest):
    """The API of a process with the role of a master has a bundle of its own."""

    def __init__(self, kkp: Platform, port: int) -> None:
        bundles = f"/api/v1/namespaces/{NAMESPACE}/configmaps/"
        self.root, self.port = kkp.api, port
        self.context = ssl.create_default_context(cadata=kkp.api.get(bundles + NAMES.api_bundle).obj["data"]["ca.crt"])

    def send(self, method: str, path: str, body: Json | None = None, *, token: str) -> Answer:
        sent = None if body is None else json.dumps(body).encode()
        return self.call(method, path, token=token, body=sent, Content_Type="application/json")


class Cli:
    def __init__(self, kkp: Platform) -> None:
        self._kubeconfig = str(kkp.plane.kubeconfig)

    def __call__(self, *arguments: str) -> str:
        """What it prints. All goes well."""
        done = subprocess.run(
            [sys.executable, "-m", "ullage", *arguments, "--kubeconfig", self._kubeconfig],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def kkp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with platform(tmp_path_factory.mktemp("master")) as made:
        made.project(PROJECT)
        yield made


@pytest.fixture(scope="module")
def rest(kkp: Platform) -> Iterator[MasterRest]:
    async def issue() -> None:
        async with Client(Config.load(kkp.plane.kubeconfig, environ={})) as client:
            await Identities(client, [Identity(API, kkp.folder)]).issue()

    asyncio.run(issue())
    login = ["--kubeconfig", str(Identity(API, kkp.folder).kubeconfig), "--role", MASTER]
    process = Process("api", *login, "--port", "0", "--drain", "0", log=kkp.folder / "api.log")
    try:
        yield MasterRest(kkp, process.port)
    finally:
        process.end()


def member_of(project: str) -> Json:
    rule = {
        "apiGroups": [PROJECT_QUOTAS.group],
        "resources": [PROJECT_QUOTAS.plural],
        "verbs": ["get"],
        "resourceNames": [f"project-{project}"],
    }
    return {"metadata": {"name": f"member-of-{project}"}, "rules": [rule]}


def test_quotas_over_rest_and_by_the_command_line_are_the_same_and_an_uninstall_leaves_them(
    kkp: Platform, rest: MasterRest
) -> None:
    ullage, people = Cli(kkp), Team(kkp.api, "default")
    kkp.api.create(f"{RBAC}/clusterroles", member_of(PROJECT))
    admin, member, stranger = people.person(everywhere=ADMIN), people.person(everywhere=f"member-of-{PROJECT}"), people.person()

    # An administrator makes one over REST; the command line shows it.
    wanted = {"subjectName": PROJECT, "subjectKind": "project", "quota": {"cpu": 5, "memory": 10, "storage": 100}}
    assert rest.send("POST", "/api/v2/quotas", wanted, token=member).code == 403
    assert rest.send("POST", "/api/v2/quotas", wanted, token=admin).code == 201
    assert rest.send("POST", "/api/v2/quotas", wanted, token=admin).code == 409
    (listed,) = json.loads(ullage("projects", "list", "-o", "json"))["items"]
    assert (listed["project"], listed["limits"]) == (PROJECT, {"cpu": "5", "memory": "10Gi", "storage": "100Gi"})

    # What the command line changes, members see over REST, and nobody else.
    ullage("quota", "set", f"project/{PROJECT}", "--cpu", "8", "--storage", "none")
    own = f"/api/v2/projects/{PROJECT}/quota"
    assert json.loads(rest.send("GET", own, token=member).body)["quota"] == {"cpu": 8, "memory": 10.0}
    assert rest.send("GET", own, token=stranger).code == 403
    more = {"replicas": 3, "size": {"cpu": 4, "memory": 1}, "diskSizeGB": 10}
    eventually_is("somebody has counted", "0", lambda: kkp.used(PROJECT).get("cpu", "0"))
    answer = rest.send("POST", f"{own}calculation", more, token=member)
    assert (answer.code, json.loads(answer.body)["message"]) == (200, "Calculated cpu (12) exceeds resource quota (8)\n")
    assert rest.send("POST", f"{own}calculation", {"replicas": 1, "flavor": "m"}, token=member).code == 400
    assert rest.send("PUT", f"/api/v2/quotas/project-{PROJECT}", {"cpu": 9}, token=admin).code == 200
    assert "9" in ullage("quota", "get", f"project/{PROJECT}", "-o", "yaml")

    # An uninstall takes hooks and identities, and leaves quotas.
    said = ullage("uninstall", "--yes")
    assert "deleted" in said
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    assert kkp.api.get(f"{hooks}/{NAMES.registration}").code == 404
    assert kkp.api.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{API}").code == 404
    assert kkp.quota(PROJECT)["spec"]["quota"] == {"cpu": "9"}
