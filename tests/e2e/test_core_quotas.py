"""ResourceQuota and LimitRange of Kubernetes itself: what is refused, in which words, and what is counted.

A kube-apiserver alone has nobody who counts what is there before a quota: there the test says that nothing is.
"""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .api import Answer, Api
from .snapshot_scene import eventually

Json = dict[str, Any]
MERGE = {"Content-Type": "application/merge-patch+json"}
CREATED, FORBIDDEN = 201, 403
COUNTS = "E2E_KUBECONFIG" not in os.environ  # a server of ours


class Limited:
    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.path = f"/api/v1/namespaces/{namespace}"
        api.call("POST", f"{self.path}/serviceaccounts", {"metadata": {"name": "default"}})

    def quota(self, name: str = "q", *, hard: Json, **spec: Any) -> None:
        """Waits until it is in force."""
        path = f"{self.path}/resourcequotas/{name}"
        self.api.create(f"{self.path}/resourcequotas", {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})
        if not COUNTS:
            self.api.merge(f"{path}/status", {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}})
        eventually("it is counted", lambda: self.status(name).get("hard") == hard)
        if not COUNTS:  # kube-apiserver looks at a copy of its own
            probe = {"metadata": {"generateName": "probe-"}, "spec": {"hard": {"pods": "1"}}}
            eventually(
                "the quota is known to admission",
                lambda: self.api.call("POST", f"{self.path}/resourcequotas?dryRun=All", probe).code == CREATED,
            )

    def status(self, name: str = "q") -> Json:
        found: Json = self.api.get(f"{self.path}/resourcequotas/{name}").obj.get("status", {})
        return found

    def used(self, name: str = "q") -> Json:
        return dict(self.status(name).get("used") or {})

    def range(self, **limit: Any) -> None:
        self.api.create(f"{self.path}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [limit]}})

    def ask(self, plural: str, body: Json, *, dry_run: bool = False) -> Answer:
        return self.api.call("POST", f"{self.path}/{plural}{'?dryRun=All' if dry_run else ''}", body)

    def refused(self, plural: str, body: Json) -> str:
        """Once the server has heard of the quota or the range, which takes it a moment."""
        answers: list[Answer] = []

        def is_refused() -> bool:
            answers.append(self.ask(plural, body, dry_run=True))
            return answers[-1].code != CREATED

        eventually(f"{body} is refused", is_refused, seconds=20)
        assert (answers[-1].code, answers[-1].reason) == (FORBIDDEN, "Forbidden")
        return answers[-1].message


@pytest.fixture
def limited(api: Api, namespace: str) -> Limited:
    return Limited(api, namespace)


def container(name: str = "c", requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "image": "i", "resources": {key: value for key, value in resources.items() if value}, **more}


def pod(*containers: Json, name: str = "p", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": list(containers), **spec}}


def claim(size: str, **spec: Any) -> Json:
    resources = {"requests": {"storage": size}}
    return {"metadata": {"name": "p"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}}


def service(kind: str, *ports: int) -> Json:
    listed = [{"port": port, "name": f"port-{port}"} for port in ports]
    return {"metadata": {"name": "p"}, "spec": {"type": kind, "ports": listed}}


def over(name: str, requested: str, limited: str, *, used: str = "0") -> str:
    return f"exceeded quota: q, requested: {name}={requested}, used: {name}={used}, limited: {name}={limited}"


ASIDE = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical"]}


@pytest.mark.parametrize(
    ("plural", "quota", "body", "said"),
    [
        pytest.param(
            "pods",
            {"hard": {"limits.memory": "1Gi", "requests.cpu": "1"}},
            pod(container("a"), container("b", {"cpu": "1"})),
            "failed quota: q: must specify limits.memory for: a,b; requests.cpu for: a",
            id="containers that do not say what is limited",
        ),
        pytest.param(
            "pods",
            {"hard": {"limits.memory": "1Gi", "requests.cpu": "1"}},
            pod(container("a", {"cpu": "1500m"}, {"memory": "2Gi"})),
            "exceeded quota: q, requested: limits.memory=2Gi,requests.cpu=1500m, used: limits.memory=0,requests.cpu=0, "
            "limited: limits.memory=1Gi,requests.cpu=1",
            id="every amount that is exceeded is told",
        ),
        pytest.param(
            "pods",
            {"hard": {"requests.cpu": "500m"}},
            pod(
                container("a", {"cpu": "200m"}),
                initContainers=[
                    container("b", {"cpu": "200m"}, restartPolicy="Always"),
                    container("d", {"cpu": "400m"}),
                ],
            ),
            over("requests.cpu", "600m", "500m"),
            id="an init container runs beside those that go on running",
        ),
        pytest.param(
            "pods",
            {"hard": {"cpu": "2500m"}},
            pod(container("a", {"cpu": "1"}), initContainers=[container("b", {"cpu": "3"}), container("d", {"cpu": "2"})]),
            over("cpu", "3", "2500m"),
            id="of init containers only the largest counts",
        ),
        pytest.param(
            "pods",
            {"hard": {"requests.cpu": "1"}},
            pod(container("a", {"cpu": "1m"}), resources={"requests": {"cpu": "2"}}),
            over("requests.cpu", "2", "1"),
            id="what a pod says of itself as a whole stands for all",
        ),
        pytest.param(
            "pods",
            {"hard": {"requests.example.com/gpu": "1"}},
            pod(container("a", {"example.com/gpu": "2"}, {"example.com/gpu": "2"})),
            over("requests.example.com/gpu", "2", "1"),
            id="resources of other vendors",
        ),
        pytest.param(
            "pods",
            {"hard": {"pods": "0"}, "scopes": ["BestEffort"]},
            pod(container("a")),
            over("pods", "1", "0"),
            id="pods that ask for nothing",
        ),
        pytest.param(
            "pods",
            {"hard": {"pods": "0"}, "scopes": ["Terminating"]},
            pod(container("a"), activeDeadlineSeconds=60),
            over("pods", "1", "0"),
            id="pods that end by themselves",
        ),
        pytest.param(
            "pods",
            {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [ASIDE]}},
            pod(container("a"), priorityClassName="system-cluster-critical"),
            over("pods", "1", "0"),
            id="pods of a priority",
        ),
        pytest.param("pods", {"hard": {"count/pods": "0"}}, pod(container("a")), over("count/pods", "1", "0"), id="a count"),
        pytest.param(
            "persistentvolumeclaims",
            {"hard": {"requests.storage": "1Gi"}},
            claim("3Gi"),
            over("requests.storage", "3Gi", "1Gi"),
            id="the storage of all claims",
        ),
        pytest.param(
            "persistentvolumeclaims",
            {"hard": {"fast.storageclass.storage.k8s.io/requests.storage": "500Mi"}},
            claim("600Mi", storageClassName="fast"),
            over("fast.storageclass.storage.k8s.io/requests.storage", "600Mi", "500Mi"),
            id="the storage of claims of a class",
        ),
        pytest.param(
            "services",
            {"hard": {"services.nodeports": "1"}},
            service("NodePort", 80, 81),
            over("services.nodeports", "2", "1"),
            id="ports on nodes",
        ),
        pytest.param(
            "services",
            {"hard": {"services.loadbalancers": "0"}},
            service("LoadBalancer", 80),
            over("services.loadbalancers", "1", "0"),
            id="load balancers",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_these_words(limited: Limited, plural: str, quota: Json, body: Json, said: str) -> None:
    limited.quota(**quota)
    assert limited.refused(plural, body) == f'{plural} "p" is forbidden: {said}'


@pytest.mark.parametrize(
    ("quota", "body"),
    [
        pytest.param({"hard": {"requests.cpu": "1"}}, pod(container("a", {"cpu": "1"})), id="exactly full"),
        pytest.param({"hard": {"pods": "0"}, "scopes": ["BestEffort"]}, pod(container("a", {"cpu": "1m"})), id="out of scope"),
        pytest.param({"hard": {"requests.storage": "0"}}, pod(container("a")), id="about another kind"),
    ],
)
def test_what_fits_is_admitted(limited: Limited, quota: Json, body: Json) -> None:
    limited.quota(**quota)
    answer = limited.ask("pods", body)
    assert answer.code == CREATED, answer.raw


BOUNDS = {
    "max": {"cpu": "1", "memory": "1Gi"},
    "min": {"cpu": "100m", "memory": "64Mi"},
    "maxLimitRequestRatio": {"cpu": "4"},
}


@pytest.mark.parametrize(
    ("limit", "plural", "body", "said"),
    [
        pytest.param(
            {"type": "Container", **BOUNDS},
            "pods",
            pod(container("a", {"cpu": "50m", "memory": "32Mi"}, {"cpu": "500m", "memory": "1Gi"})),
            "[minimum cpu usage per Container is 100m, but request is 50m, "
            "minimum memory usage per Container is 64Mi, but request is 32Mi, "
            "cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000]",
            id="a container that asks for too little",
        ),
        pytest.param(
            {"type": "Container", **BOUNDS},
            "pods",
            pod(container("a", {"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"})),
            "[maximum cpu usage per Container is 1, but limit is 2, "
            "maximum memory usage per Container is 1Gi, but limit is 2Gi]",
            id="a container that may use too much",
        ),
        pytest.param(
            {"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "100m"}, "maxLimitRequestRatio": {"memory": "2"}},
            "pods",
            pod(container("a")),
            "[minimum cpu usage per Pod is 100m.  No request is specified, "
            "maximum cpu usage per Pod is 1.  No limit is specified, "
            "memory max limit to request ratio per Pod is 2, but no request is specified or request is 0]",
            id="a pod that says nothing",
        ),
        pytest.param(
            {"type": "Pod", "max": {"memory": "1Gi"}},
            "pods",
            pod(*(container(name, {"memory": "600Mi"}, {"memory": "600Mi"}) for name in ("a", "b"))),
            "maximum memory usage per Pod is 1Gi, but limit is 1200Mi",
            id="the containers of a pod together",
        ),
        pytest.param(
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            "pods",
            pod(container("a", {"cpu": "1"})),
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
            id="a ratio without a limit",
        ),
        pytest.param(
            {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}},
            "persistentvolumeclaims",
            claim("512Mi"),
            "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi",
            id="a claim that is too small",
        ),
        pytest.param(
            {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}},
            "persistentvolumeclaims",
            claim("3Gi"),
            "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi",
            id="a claim that is too large",
        ),
    ],
)
def test_what_is_out_of_range_is_refused_in_these_words(
    limited: Limited, limit: Json, plural: str, body: Json, said: str
) -> None:
    limited.range(**limit)
    assert parts(limited.refused(plural, body)) == parts(f'{plural} "p" is forbidden: {said}')


def test_a_claim_that_is_being_deleted_can_be_let_go_of_whatever_the_range_says(limited: Limited) -> None:
    large = claim("3Gi")
    large["metadata"]["finalizers"] = ["example.com/hold"]
    assert limited.ask("persistentvolumeclaims", large).code == CREATED
    limited.range(type="PersistentVolumeClaim", max={"storage": "2Gi"})
    other = claim("3Gi")
    other["metadata"]["name"] = "other"  # of one that is there already, the server may say so first
    limited.refused("persistentvolumeclaims", other)  # it has heard of the range
    path = f"{limited.path}/persistentvolumeclaims/p"
    limited.api.call("DELETE", path)
    assert limited.api.get(path).obj["metadata"]["deletionTimestamp"]
    limited.api.merge(path, {"metadata": {"finalizers": None}})
    eventually("it has gone", lambda: limited.api.call("GET", path).code == 404)


def parts(message: str) -> tuple[str, list[str]]:
    """kube-apiserver tells several faults in any order."""
    who, _, faults = message.partition(" is forbidden: ")
    return who, sorted(faults.strip("[]").replace(", but", ",but").split(", "))


def test_containers_that_say_nothing_get_what_the_range_says(limited: Limited) -> None:
    limited.range(
        type="Container", default={"cpu": "500m", "memory": "512Mi"}, defaultRequest={"cpu": "200m", "memory": "128Mi"}
    )
    body = pod(container("a"), container("b", {"cpu": "300m"}), initContainers=[container("d")])
    eventually(
        "the server has heard of the range",
        lambda: (
            "resources" in str(limited.ask("pods", body, dry_run=True).obj["metadata"].get("annotations"))
            or limited.ask("pods", body, dry_run=True).obj["spec"]["containers"][0]["resources"]
        ),
    )
    made = limited.ask("pods", body).obj
    assert [one["resources"] for one in (*made["spec"]["containers"], *made["spec"]["initContainers"])] == [
        {"requests": {"cpu": "200m", "memory": "128Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
        {"requests": {"cpu": "300m", "memory": "128Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
        {"requests": {"cpu": "200m", "memory": "128Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
    ]
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; "
        "memory request for container b; cpu, memory limit for container b; "
        "cpu, memory request for init container d; cpu, memory limit for init container d"
    )


def test_of_fifty_at_once_exactly_as_many_fit_as_fit(limited: Limited) -> None:
    limited.quota(hard={"pods": "7", "requests.cpu": "100"})
    limited.refused("pods", pod(container("a", {"cpu": "101"})))  # admission has heard of it
    bodies = [pod(container("a", {"cpu": "1"}), name=f"p-{number}") for number in range(50)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda body: limited.ask("pods", body), bodies))
    codes = Counter(answer.code for answer in answers)
    assert set(codes) <= {CREATED, FORBIDDEN, 409}, codes
    assert codes[CREATED] == 7 if COUNTS else codes[CREATED] <= 7
    assert limited.used()["pods"] == str(codes[CREATED])


@pytest.mark.skipif(not COUNTS, reason="nobody counts what has gone: kube-apiserver alone has no controller for it")
def test_what_goes_or_ends_makes_room(limited: Limited) -> None:
    limited.quota(hard={"pods": "1", "count/pods": "2", "requests.cpu": "1"})
    one = pod(container("a", {"cpu": "1"}))
    assert limited.ask("pods", one).code == CREATED
    assert limited.used() == {"pods": "1", "count/pods": "1", "requests.cpu": "1"}
    assert limited.ask("pods", {**one, "metadata": {"name": "q"}}).code == FORBIDDEN
    limited.api.merge(f"{limited.path}/pods/p/status", {"status": {"phase": "Succeeded"}})
    eventually("what has ended counts as an object alone", lambda: limited.used()["pods"] == "0")
    assert limited.used() == {"pods": "0", "count/pods": "1", "requests.cpu": "0"}
    assert limited.ask("pods", {**one, "metadata": {"name": "q"}}).code == CREATED
    limited.api.call("DELETE", f"{limited.path}/pods/p?gracePeriodSeconds=0")
    eventually("what has gone does not count", lambda: limited.used()["count/pods"] == "1")


@pytest.mark.skipif(not COUNTS, reason="nobody counts what was there before: kube-apiserver alone has no controller for it")
def test_what_was_there_before_counts_from_the_first_moment(limited: Limited) -> None:
    assert limited.ask("pods", pod(container("a", {"cpu": "1"}))).code == CREATED
    limited.api.create(f"{limited.path}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1"}}})
    answer = limited.ask("pods", pod(container("a", {"cpu": "1"}), name="q"))
    assert answer.code == FORBIDDEN
    assert over("requests.cpu", "1", "1", used="1") in answer.message


def test_a_service_that_grows_by_an_update_is_counted(limited: Limited) -> None:
    limited.quota(hard={"services.nodeports": "1"})
    assert limited.ask("services", service("ClusterIP", 80)).code == CREATED
    more = {"spec": {"type": "NodePort", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}
    answer = limited.api.call("PATCH", f"{limited.path}/services/p", more, headers=MERGE)
    assert answer.code == FORBIDDEN, answer.raw
    assert answer.message == f'services "p" is forbidden: {over("services.nodeports", "2", "1")}'
