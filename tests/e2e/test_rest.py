"""The API for people beside the Kubernetes API, with real tokens: who may set limits of snapshot space, what they get, and that
nobody else writes anything."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import socket
import ssl
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest

from ullage.app.composition import compose
from ullage.app.drivers import ONE_MACHINE
from ullage.app.installer.api_deployment import api_deployment
from ullage.app.installer.installer import Installer
from ullage.app.installer.manifests import manifests
from ullage.app.installer.names import DEFAULT
from ullage.app.installer.roles import API
from ullage.app.up.identities import Identities, Identity
from ullage.kube.client.client import Client
from ullage.kube.client.config import Config

from .apart import IS_BORROWED, own_plane
from .api import Api
from .control_plane import ControlPlane
from .snapshot_scene import Process

pytestmark = pytest.mark.skipif(IS_BORROWED, reason="a borrowed cluster is not installed into")

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GIB = 2**30
ADMIN, VIEWER = "harvester-resourcequotas-admin", "harvester-resourcequotas-read-only"
QUOTA = {"totalSnapshotSizeQuota": "10Gi"}


@dataclass(frozen=True)
class Answer:
    code: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def message(self) -> str:
        found: Json = json.loads(self.body)
        assert (found["kind"], found["status"], found["code"]) == ("Status", "Failure", self.code)
        return str(found["message"])


class Rest:
    """A client that trusts what the ConfigMap says, as a tool of a user's would."""

    def __init__(self, root: Api, port: int) -> None:
        self.root = root
        self.port = port
        bundle = root.get(f"/api/v1/namespaces/ullage-system/configmaps/{DEFAULT.api_bundle}").obj["data"]["ca.crt"]
        self.context = ssl.create_default_context(cadata=bundle)

    def call(self, method: str, path: str, *, token: str = "", body: bytes | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPSConnection("localhost", self.port, context=self.context, timeout=30)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, path, body=body, headers=sent)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def act(self, place: str, action: str, *, token: str, body: Json | None = None) -> Answer:
        sent = None if body is None else json.dumps(body).encode()
        return self.call(
            "POST", f"/v1/harvester/{place}?action={action}", token=token, body=sent, Content_Type="application/json"
        )


@dataclass(frozen=True)
class Team:
    """A namespace with a virtual machine, and people with tokens."""

    root: Api
    namespace: str

    @property
    def of_namespace(self) -> str:
        return f"namespaces/{self.namespace}"

    @property
    def of_vm(self) -> str:
        return f"kubevirt.io.virtualmachines/{self.namespace}/db"

    def person(self, *roles: str, everywhere: str = "", group: str = "", token: Json | None = None) -> str:
        """A new account with these roles in the namespace; its token. `everywhere` is a role on the whole cluster; `group` one
        that is bound to all accounts of the namespace, and not to this one."""
        name = f"p-{uuid.uuid4().hex[:8]}"
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self.root.create(accounts, {"metadata": {"name": name}})
        me = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        all_here = {
            "kind": "Group",
            "apiGroup": "rbac.authorization.k8s.io",
            "name": f"system:serviceaccounts:{self.namespace}",
        }
        bindings = f"{RBAC}/namespaces/{self.namespace}/rolebindings"
        for role in roles:
            self.root.create(bindings, binding(f"{name}-{role}", role, me))
        if group:
            self.root.create(bindings, binding(f"{name}-group", group, all_here))
        if everywhere:
            self.root.create(f"{RBAC}/clusterrolebindings", binding(f"{self.namespace}-{name}", everywhere, me))
        return self.token(name, **token or {})

    def token(self, account: str, **spec: Any) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600, **spec}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        return str(self.root.create(path, body)["status"]["token"])

    @property
    def quota(self) -> Json | None:
        answer = self.root.get(
            f"/apis/harvesterhci.io/v1beta1/namespaces/{self.namespace}/resourcequotas/default-resource-quota"
        )
        return answer.obj if answer.code == 200 else None

    @property
    def limits(self) -> Json | None:
        return None if self.quota is None else self.quota["spec"]["snapshotLimit"]


def binding(name: str, role: str, subject: Json) -> Json:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}


def cluster_role(name: str, *verbs: str, names: list[str] | None = None) -> Json:
    rule: Json = {"apiGroups": ["harvesterhci.io"], "resources": ["resourcequotas"], "verbs": list(verbs)}
    return {"metadata": {"name": name}, "rules": [{**rule, "resourceNames": names} if names else rule]}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with own_plane(tmp_path_factory.mktemp("rest")) as found:
        yield found


@pytest.fixture(scope="module")
def root(plane: ControlPlane) -> Api:
    return Api(plane)


async def install(plane: ControlPlane, directory: Path) -> None:
    async with Client(Config.load(plane.kubeconfig, environ={})) as client:
        wanted = manifests(compose(ONE_MACHINE), foreign=True)
        outcomes = await Installer(client).install(wanted, tell=lambda outcome: None)
        assert not [outcome for outcome in outcomes if outcome.verb == "problem"]
        await Identities(client, [Identity(API, directory)]).issue()


@pytest.fixture(scope="module")
def rest(plane: ControlPlane, root: Api) -> Iterator[Rest]:
    """`ullage api` under its own account, with the rights that `ullage install` gives to it."""
    directory = Path(tempfile.mkdtemp(prefix="ullage-"))
    asyncio.run(install(plane, directory))
    for role in (
        cluster_role(ADMIN, "*"),
        cluster_role(VIEWER, "get", "list", "watch"),
        cluster_role("only-the-default", "update", names=["default-resource-quota"]),
        cluster_role("patches-only", "patch", "create", "delete"),
    ):
        root.create(f"{RBAC}/clusterroles", role)
    log = directory / "api.log"
    process = Process("api", "--kubeconfig", str(Identity(API, directory).kubeconfig), "--port", "0", "--drain", "0", log=log)
    try:
        yield Rest(root, process.port)
    finally:
        process.end()
        text = log.read_text()
        print(text[-4000:])
        shutil.rmtree(directory)
        assert "eyJ" not in text, "a token is in the log"


@pytest.fixture
def team(root: Api, rest: Rest) -> Team:
    name = f"e2e-{uuid.uuid4().hex[:10]}"
    root.create("/api/v1/namespaces", {"metadata": {"name": name}})
    vm = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "db"}}
    spec = {"spec": {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}}}}}
    root.create(f"/apis/kubevirt.io/v1/namespaces/{name}/virtualmachines", {**vm, **spec})
    return Team(root, name)


@pytest.mark.parametrize("roles", [("edit", VIEWER), ("view", VIEWER), ("edit",), ("admin", VIEWER), ("edit", "patches-only")])
def test_who_may_not_update_the_quota_gets_403_on_every_action_and_writes_nothing(
    rest: Rest, team: Team, roles: tuple[str, ...]
) -> None:
    mine = team.person(*roles)
    rest.act(team.of_vm, "updateResourceQuota", token=team.person("view", ADMIN), body={"totalSnapshotSizeQuota": "5Gi"})
    before = team.quota
    assert before is not None
    for place in (team.of_namespace, f"namespace/{team.namespace}", team.of_vm):
        for action in ("updateResourceQuota", "deleteResourceQuota", "deleteResourceQuotaAction", "unknown"):
            answer = rest.act(place, action, token=mine, body=QUOTA)
            assert answer.code == 403
            assert answer.message == (
                "User does not have permission to update resource quota: ask an administrator for the verb update on "
                f"resourcequotas.harvesterhci.io in namespace {team.namespace}"
            )
    assert team.quota == before


@pytest.mark.parametrize(
    "rights",
    [
        pytest.param({"roles": ("view", ADMIN)}, id="a read-only member with the admin role"),
        pytest.param({"roles": (ADMIN,)}, id="the admin role alone, without any right on namespaces and virtual machines"),
        pytest.param({"roles": ("only-the-default",)}, id="the verb update on that one object, and no right to create it"),
        pytest.param({"everywhere": ADMIN}, id="a right on the whole cluster"),
        pytest.param({"group": ADMIN}, id="a right of a group that the token says he is in"),
    ],
)
def test_who_may_update_the_quota_sets_and_removes_limits(rest: Rest, team: Team, rights: Json) -> None:
    mine = team.person(*rights.get("roles", ()), everywhere=rights.get("everywhere", ""), group=rights.get("group", ""))
    answer = rest.act(team.of_namespace, "updateResourceQuota", token=mine, body=QUOTA)
    assert (answer.code, answer.body) == (200, b"")
    answer = rest.act(team.of_vm, "updateResourceQuota", token=mine, body={"totalSnapshotSizeQuota": "1.5Gi"})
    assert (answer.code, answer.body) == (204, b"")
    assert team.limits == {
        "namespaceTotalSnapshotSizeQuota": 10 * GIB,
        "vmTotalSnapshotSizeQuota": {"db": GIB + GIB // 2},
    }
    assert rest.act(f"namespace/{team.namespace}", "deleteResourceQuotaAction", token=mine).code == 200
    assert team.limits == {"vmTotalSnapshotSizeQuota": {"db": GIB + GIB // 2}}, "only its own key"
    assert rest.act(team.of_vm, "deleteResourceQuota", token=mine).code == 204
    assert not (team.limits or {}).get("vmTotalSnapshotSizeQuota")
    assert rest.act(team.of_vm, "deleteResourceQuota", token=mine).code == 204, "that there is none is no error"


def test_a_right_in_one_namespace_is_none_in_another(rest: Rest, team: Team, root: Api) -> None:
    mine = team.person(ADMIN)
    for namespace in ("default", "no-such-namespace"):
        assert rest.act(f"namespaces/{namespace}", "updateResourceQuota", token=mine, body=QUOTA).code == 403


def signing_key(plane: ControlPlane) -> bytes:
    names = ("service-accounts.key", "accounts.key")
    found = [path for name in names for path in plane.kubeconfig.parent.rglob(name)]
    return found[0].read_bytes()


def signed(token: str, key: bytes | str, *, algorithm: str = "", **claims: Any) -> str:
    header = jwt.get_unverified_header(token)
    said = jwt.decode(token, options={"verify_signature": False}) | claims
    return jwt.encode(said, key, algorithm=algorithm or header["alg"], headers={"kid": header.get("kid", "")})


def test_tokens_that_are_expired_forged_revoked_or_for_others_are_401(
    rest: Rest, team: Team, root: Api, plane: ControlPlane
) -> None:
    good = team.person(ADMIN)
    now = int(time.time())
    head, claims, signature = good.split(".")
    forged = {
        "expired": signed(good, signing_key(plane), iat=now - 7200, nbf=now - 7200, exp=now - 3600),
        "signed by nobody": f"{head}.{claims}.{signature[:-8]}AAAAAAAA",
        "signed with a password": signed(good, "p" * 64, algorithm="HS256"),
        "not signed": signed(good, "", algorithm="none"),
        "for another audience": team.person(ADMIN, token={"audiences": ["somebody-else"]}),
        "no token at all": "let-me-in",
        "an empty one": "",
    }
    alive = signed(good, signing_key(plane), exp=now + 3600)
    assert rest.act(team.of_namespace, "updateResourceQuota", token=alive, body=QUOTA).code == 200, "the key is the right one"
    before = team.quota
    for what, token in forged.items():
        answer = rest.act(team.of_namespace, "deleteResourceQuota", token=token)
        assert (answer.code, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="ullage"'), what
        assert token[:20] not in answer.body.decode() or not token
    secrets = f"/api/v1/namespaces/{team.namespace}/secrets"
    uid = root.create(secrets, {"metadata": {"name": "session"}})["metadata"]["uid"]
    session = {"apiVersion": "v1", "kind": "Secret", "name": "session", "uid": uid}
    bound = team.person(ADMIN, token={"boundObjectRef": session})
    assert rest.act(team.of_namespace, "updateResourceQuota", token=bound, body=QUOTA).code == 200
    root.call("DELETE", f"{secrets}/session")
    deadline = time.monotonic() + 30
    while rest.act(team.of_namespace, "updateResourceQuota", token=bound, body=QUOTA).code != 401:
        assert time.monotonic() < deadline, "a token outlives what it is bound to"
        time.sleep(0.1)  # kube-apiserver remembers tokens for some seconds
    assert team.quota == before


@pytest.mark.parametrize(
    ("place", "message"),
    [
        pytest.param("namespaces/not-there", 'namespaces "not-there" not found', id="a namespace"),
        pytest.param(
            "kubevirt.io.virtualmachines/{namespace}/web",
            'virtualmachines.kubevirt.io "web" not found in namespace {namespace}',
            id="a virtual machine",
        ),
        pytest.param("kubevirt.io.virtualmachines/not-there/db", 'namespaces "not-there" not found', id="one of no namespace"),
        pytest.param("namespaces/Capitals", 'there is no namespace that is called "Capitals"', id="what cannot be"),
        pytest.param("pods/{namespace}", "there is nothing at this path; / lists what there is", id="another path"),
    ],
)
def test_what_is_not_there_is_404(rest: Rest, team: Team, place: str, message: str) -> None:
    mine = team.person(everywhere=ADMIN)
    for action in ("updateResourceQuota", "deleteResourceQuota"):
        answer = rest.act(place.format(namespace=team.namespace), action, token=mine, body=QUOTA)
        assert (answer.code, answer.message) == (404, message.format(namespace=team.namespace))
    assert team.quota is None


ALLOWED = "a size is a whole number of bytes from 0 to 9223372036854775807, such as 10Gi, 1.5Gi or 5000000000"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("ten", f"totalSnapshotSizeQuota: 'ten' is not a quantity; {ALLOWED}"),
        ("-1Gi", f"totalSnapshotSizeQuota: '-1Gi' is negative; {ALLOWED}"),
        ("0.5", f"totalSnapshotSizeQuota: '0.5' is not a whole number of bytes; {ALLOWED}"),
        ("9Ei", f"totalSnapshotSizeQuota: '9Ei' is too large; {ALLOWED}"),
        ("", f"totalSnapshotSizeQuota: '' is not a quantity; {ALLOWED}"),
        (-5, f"totalSnapshotSizeQuota: '-5' is negative; {ALLOWED}"),
        (1.5, "totalSnapshotSizeQuota: Expected `int | str`, got `float`"),
        (None, "totalSnapshotSizeQuota: Expected `int | str`, got `null`"),
    ],
)
def test_sizes_that_cannot_be_are_422_with_the_field(rest: Rest, team: Team, given: Any, message: str) -> None:
    mine = team.person(ADMIN)
    for place in (team.of_namespace, team.of_vm):
        answer = rest.act(place, "updateResourceQuota", token=mine, body={"totalSnapshotSizeQuota": given})
        assert (answer.code, answer.message) == (422, message)
    assert team.quota is None


def test_no_limit_where_there_is_none_makes_no_object(rest: Rest, team: Team) -> None:
    mine = team.person(ADMIN)
    assert rest.act(team.of_vm, "updateResourceQuota", token=mine, body={"totalSnapshotSizeQuota": "0"}).code == 204
    assert rest.act(team.of_namespace, "deleteResourceQuota", token=mine).code == 200
    assert team.quota is None


def test_many_who_set_the_first_limits_at_once_all_get_what_they_asked_for(rest: Rest, team: Team, root: Api) -> None:
    mine = team.person(ADMIN)
    machines = f"/apis/kubevirt.io/v1/namespaces/{team.namespace}/virtualmachines"
    template = root.get(f"{machines}/db").obj
    names = [f"vm-{number}" for number in range(12)]
    for name in names:
        root.create(machines, {**template, "metadata": {"name": name}})

    def limit(name: str) -> int:
        place = f"kubevirt.io.virtualmachines/{team.namespace}/{name}"
        return rest.act(place, "updateResourceQuota", token=mine, body={"totalSnapshotSizeQuota": "1Gi"}).code

    with ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(limit, names)) == [204] * len(names)
    assert team.limits == {"vmTotalSnapshotSizeQuota": dict.fromkeys(names, GIB)}


def test_a_namespace_that_is_going_takes_no_new_limit(rest: Rest, team: Team, root: Api) -> None:
    mine = team.person(everywhere=ADMIN)
    path = f"/api/v1/namespaces/{team.namespace}"
    held = {"metadata": {"name": "stays", "finalizers": ["example.com/wait"]}}
    root.create(f"{path}/configmaps", held)
    root.call("DELETE", path)
    answer = rest.act(team.of_namespace, "updateResourceQuota", token=mine, body=QUOTA)
    assert answer.code in (401, 409), "the account goes with it"
    root.merge(f"{path}/configmaps/stays", {"metadata": {"finalizers": []}})
    assert team.quota is None


def test_what_everybody_may_see(rest: Rest) -> None:
    told = rest.call("GET", "/openapi.json")
    assert json.loads(told.body)["openapi"] == "3.1.0"
    assert b"updateResourceQuota" in rest.call("GET", "/").body
    assert rest.call("GET", "/healthz").body == b"ok\n"
    assert rest.call("GET", "/readyz").code == 200
    assert b"ullage_api_requests_total" in rest.call("GET", "/metrics").body
    assert rest.call("DELETE", "/v1/harvester/namespaces/default").code == 405
    assert rest.call("OPTIONS", "/v1/harvester/namespaces/default").headers["Allow"] == "POST, OPTIONS"


def test_nobody_is_served_without_tls(rest: Rest) -> None:
    with socket.create_connection(("127.0.0.1", rest.port), timeout=10) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in plain.recv(4096)


def test_the_committed_manifests_are_taken_as_they_are(rest: Rest, root: Api) -> None:
    places = {
        "Service": "/api/v1/namespaces/ullage-system/services",
        "PodDisruptionBudget": "/apis/policy/v1/namespaces/ullage-system/poddisruptionbudgets",
        "Deployment": "/apis/apps/v1/namespaces/ullage-system/deployments",
    }
    for body in api_deployment():
        answer = root.call("POST", f"{places[body['kind']]}?dryRun=All&fieldValidation=Strict", body)
        assert (answer.code, answer.warnings) == (201, ()), answer.raw
