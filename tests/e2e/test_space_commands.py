"""`ullage quota` and `ullage check` as a person runs them: what they say, what they change, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ullage.app.commands import root
from ullage.app.composition import compose
from ullage.app.drivers import ONE_MACHINE
from ullage.app.installer.installer import Installer
from ullage.app.installer.manifests import manifests
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config

from .apart import IS_BORROWED, own_plane
from .api import Api
from .control_plane import ControlPlane

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster is not installed into")

Json = dict[str, Any]
GIB = 2**30


@dataclass(frozen=True)
class Ran:
    """A finished command."""

    code: int
    out: str
    err: str


class Here:
    """A namespace, and the command in it."""

    def __init__(self, plane: ControlPlane, api: Api, namespace: str) -> None:
        self.plane = plane
        self.api = api
        self.namespace = namespace

    def run(self, *arguments: str, given: str = "") -> Ran:
        """In this process: the start of one takes longer than all that is asked here."""
        out, err, before = io.StringIO(), io.StringIO(), (sys.argv, sys.stdin)
        sys.argv = ["ullage", *arguments, "--kubeconfig", str(self.plane.kubeconfig)]
        sys.stdin = io.StringIO(given)
        code: object = 0
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                root.main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.argv, sys.stdin = before
        assert isinstance(code, int)
        return Ran(code, out.getvalue(), err.getvalue())

    @property
    def limits(self) -> Json | None:
        path = f"/apis/harvesterhci.io/v1beta1/namespaces/{self.namespace}/resourcequotas/default-resource-quota"
        answer = self.api.get(path)
        return answer.obj["spec"]["snapshotLimit"] if answer.code == 200 else None


async def install(plane: ControlPlane) -> None:
    async with Client(Config.load(plane.kubeconfig, environ={})) as client:
        outcomes = await Installer(client).install(manifests(compose(ONE_MACHINE), foreign=True), tell=lambda outcome: None)
        assert not [outcome for outcome in outcomes if outcome.verb == "problem"]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory.mktemp("space")) as found:
        asyncio.run(install(found))
        yield found


@pytest.fixture
def here(plane: ControlPlane) -> Here:
    api, name = Api(plane), f"e2e-{uuid.uuid4().hex[:10]}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return Here(plane, api, name)


def test_limits_are_set_shown_and_removed_one_by_one(here: Here) -> None:
    whole, vm = f"ns/{here.namespace}", f"vm/{here.namespace}/db"
    done = here.run("quota", "set", whole, "--snapshots", "10Gi", "--dry-run")
    assert (done.code, done.out) == (0, f"snapshots of namespace {here.namespace} would be limited to 10Gi\n")
    assert here.limits is None
    assert here.run("quota", "set", whole, "--snapshots", "10Gi").code == 0
    done = here.run("quota", "set", vm, "--snapshots", "1.5Gi")
    assert (done.code, done.out) == (0, f"snapshots of virtual machine {here.namespace}/db are limited to 1.5Gi\n")
    assert here.limits == {"namespaceTotalSnapshotSizeQuota": 10 * GIB, "vmTotalSnapshotSizeQuota": {"db": 3 * GIB // 2}}
    listed = here.run("quota", "get", "-n", here.namespace)
    assert [line.split()[1:] for line in listed.out.splitlines()[1:]] == [
        ["all", "snapshots", "10Gi", "-", "-"],
        ["vm/db", "1.5Gi", "-", "-"],
    ]
    one = here.run("quota", "get", vm, "-o", "json")
    assert json.loads(one.out) == {"namespace": here.namespace, "vm": "db", "limit": 3 * GIB // 2}
    assert here.run("quota", "delete", whole).code == 0
    assert here.limits == {"vmTotalSnapshotSizeQuota": {"db": 3 * GIB // 2}}
    done = here.run("quota", "delete", whole)
    assert (done.code, done.out) == (0, f"snapshots of namespace {here.namespace} have no limit: nothing to remove\n")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        pytest.param(
            ["quota", "set", "team", "--snapshots", "1Gi"], 2, "TARGET team: ns/NAME or vm/NAMESPACE/NAME", id="target"
        ),
        pytest.param(
            ["quota", "set", "ns/a", "--snapshots", "-1"], 2, "--snapshots -1: '-1' is negative; a size is", id="size"
        ),
        pytest.param(
            ["quota", "set", "ns/not-there", "--snapshots", "1Gi"], 1, '"not-there" not found', id="no such namespace"
        ),
        pytest.param(
            ["usage", "--group-by", "pod"],
            2,
            "--group-by pod: namespace, vm, volume, project, seed or cluster is allowed",
            id="group",
        ),
        pytest.param(["why", "pods/a"], 2, "KIND/NAME pods/a: volumesnapshot/NAME, ", id="kind"),
        pytest.param(["why", "vs/gone"], 1, "there is no volumesnapshot gone in namespace default", id="not there"),
        pytest.param(["check", "-f", "/not/there"], 2, "-f /not/there: cannot be read: No such file or directory", id="file"),
    ],
)
def test_bad_input_is_one_line_that_says_what_is_allowed(here: Here, arguments: list[str], code: int, text: str) -> None:
    done = here.run(*arguments)
    assert (done.code, text in done.err, done.err.count("\n")) == (code, True, 1), done.err


def quota(limit: int, name: str = "default-resource-quota") -> str:
    spec = {"snapshotLimit": {"namespaceTotalSnapshotSizeQuota": limit}}
    meta = {"apiVersion": "harvesterhci.io/v1beta1", "kind": "ResourceQuota", "metadata": {"name": name}}
    return json.dumps({**meta, "spec": spec})


@pytest.mark.parametrize(
    ("given", "code", "out", "err"),
    [
        pytest.param(quota(5), 0, "resourcequota.harvesterhci.io/default-resource-quota admitted\n", "", id="admitted"),
        pytest.param(quota(-5), 3, "resourcequota.harvesterhci.io/default-resource-quota refused: ", "", id="a bad value"),
        pytest.param(quota(5, "other"), 3, "resourcequota.harvesterhci.io/other refused: ", "", id="a bad name"),
        pytest.param(
            quota(5) + "\n---\n" + quota(-5),
            3,
            "default-resource-quota admitted\nresourcequota",
            "",
            id="one of two is refused",
        ),
        pytest.param(
            '{"apiVersion": "a.io/v1", "kind": "Thing", "metadata": {"name": "a"}}',
            1,
            "",
            "thing.a.io/a error: the cluster does not serve a.io/v1\n",
            id="a kind that is not there",
        ),
    ],
)
def test_check_asks_the_server_and_its_exit_code_tells(here: Here, given: str, code: int, out: str, err: str) -> None:
    done = here.run("check", "-f", "-", "-n", here.namespace, given=given)
    assert (done.code, out in done.out, err in done.err) == (code, True, True), done.out + done.err
    assert here.limits is None, "nothing was changed"


def test_check_tries_what_is_there_already_as_a_change(here: Here) -> None:
    here.run("quota", "set", f"ns/{here.namespace}", "--snapshots", "1Gi")
    assert here.run("check", "-f", "-", "-n", here.namespace, given=quota(7)).code == 0
    assert here.run("check", "-f", "-", "-n", here.namespace, given=quota(-7)).code == 3
    assert here.limits == {"namespaceTotalSnapshotSizeQuota": GIB}


def test_usage_of_a_namespace_without_a_ledger_says_that_nothing_is_taken(here: Here) -> None:
    done = here.run("usage", "-n", here.namespace)
    assert (done.code, done.out, done.err) == (0, "", "ullage: no snapshot takes anything, and nothing is limited\n")
