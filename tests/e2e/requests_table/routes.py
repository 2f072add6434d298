"""Paths that name nothing: a kind in the wrong scope, slashes in odd places, groups that are not served."""

from __future__ import annotations

from .case import CONFIGMAPS, MERGE_PATCH, NAMESPACE, Case, Check, Json

CORE = "/api/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EXTENSIONS = "/apis/apiextensions.k8s.io/v1"
CUSTOM = "/apis/e2e.example.com/v1"
NOWHERE = "the server could not find the requested resource"
WRONG_METHOD = "the server does not allow this method on the requested resource"
PLAIN = "404 page not found\n"
BODY: Json = {"metadata": {"name": "kube-public", "labels": {"taken": "over"}}}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def asked(title: str, path: str, *, methods: tuple[str, ...] = METHODS, plain: bool = False) -> tuple[Case, ...]:
    """404 for every method: with a Status, or plain where no group of the server's own is concerned."""
    return tuple(
        Case(
            f"{method} {title}",
            method,
            path,
            BODY if method in ("POST", "PUT", "PATCH") else None,
            headers=MERGE_PATCH if method == "PATCH" else {},
            expect=(404, "" if plain else "NotFound"),
            message=None if plain else NOWHERE,
            text=PLAIN if plain else None,
            then=(Check(f"{CORE}/namespaces/kube-public", has={"metadata.labels.taken": None, "status.phase": "Active"}),),
        )
        for method in methods
    )


CLUSTER_WIDE = (
    *asked("namespaces in a namespace", f"{NAMESPACE}/namespaces"),
    *asked("another namespace in a namespace", f"{NAMESPACE}/namespaces/kube-public"),
    *asked("the same namespace in itself", f"{NAMESPACE}/namespaces/{{ns}}", methods=("GET", "DELETE")),
    *asked("the status of another namespace", f"{NAMESPACE}/namespaces/kube-public/status"),
    *asked("the end of another namespace", f"{NAMESPACE}/namespaces/kube-public/finalize"),
    *asked("namespaces in an escaped namespace", f"{NAMESPACE}%2Fnamespaces/kube-public"),
    *asked("nodes in a namespace", f"{NAMESPACE}/nodes"),
    *asked("a node in a namespace", f"{NAMESPACE}/nodes/n", methods=("GET", "DELETE")),
    *asked("volumes in a namespace", f"{NAMESPACE}/persistentvolumes", methods=("GET", "POST", "DELETE")),
    *asked("cluster roles in a namespace", f"{RBAC}/namespaces/{{ns}}/clusterroles"),
    *asked("a cluster role in a namespace", f"{RBAC}/namespaces/{{ns}}/clusterroles/cluster-admin"),
    *asked("cluster role bindings in a namespace", f"{RBAC}/namespaces/{{ns}}/clusterrolebindings"),
    *asked("definitions in a namespace", f"{EXTENSIONS}/namespaces/{{ns}}/customresourcedefinitions"),
    *asked("a definition in a namespace", f"{EXTENSIONS}/namespaces/{{ns}}/customresourcedefinitions/tanks.e2e.example.com"),
    *asked("access reviews in a namespace", "/apis/authorization.k8s.io/v1/namespaces/{ns}/subjectaccessreviews"),
    *asked("token reviews in a namespace", "/apis/authentication.k8s.io/v1/namespaces/{ns}/tokenreviews"),
    *asked("custom objects of the cluster in a namespace", f"{CUSTOM}/namespaces/{{ns}}/tanks", plain=True),
    *asked("a custom object of the cluster in a namespace", f"{CUSTOM}/namespaces/{{ns}}/tanks/t", plain=True),
    *asked("the status of such an object", f"{CUSTOM}/namespaces/{{ns}}/tanks/t/status", plain=True),
    *asked("a watch of namespaces in a namespace", f"{CORE}/watch/namespaces/{{ns}}/namespaces"),
    *asked("a watch of another namespace in a namespace", f"{CORE}/watch/namespaces/{{ns}}/namespaces/kube-public"),
    *asked("a watch of nodes in a namespace", f"{CORE}/watch/namespaces/{{ns}}/nodes"),
    *asked("a watch of custom objects of the cluster in a namespace", f"{CUSTOM}/watch/namespaces/{{ns}}/tanks", plain=True),
)
NAMESPACED = (
    *asked("a pod without a namespace", f"{CORE}/pods/p"),
    *asked("the status of a pod without a namespace", f"{CORE}/pods/p/status"),
    *asked("a scale without a namespace", "/apis/apps/v1/deployments/d/scale"),
    *asked("a binding without a namespace", f"{CORE}/bindings"),
    *asked("a local access review without a namespace", "/apis/authorization.k8s.io/v1/localsubjectaccessreviews"),
    *asked("a custom object without a namespace", f"{CUSTOM}/gauges/g", plain=True),
    *asked("the status of a custom object without a namespace", f"{CUSTOM}/gauges/g/status", plain=True),
    *asked("a watch of a pod without a namespace", f"{CORE}/watch/pods/p"),
    *asked("the watch of a status", f"{CORE}/watch/namespaces/{{ns}}/pods/p/status"),
)
SLASHES = (
    *asked("two slashes at the beginning", f"/{CONFIGMAPS}", plain=True),
    *asked("two slashes behind the version", f"{CORE}//namespaces"),
    *asked("two slashes behind the namespace", f"{NAMESPACE}//configmaps"),
    *asked("two slashes before a name", f"{CONFIGMAPS}//c"),
    *asked("a group without a name", "/apis//v1/pods", plain=True),
    *asked("a climb out of a namespace", f"{NAMESPACE}/%2e%2e/kube-public/configmaps"),
    *asked("an escaped slash in a name", f"{CONFIGMAPS}/c%2Fd"),
    *asked("more behind a subresource", f"{NAMESPACE}/pods/p/status/x"),
)
UNKNOWN = (
    *asked("an unknown group", "/apis/nope.example.com", plain=True),
    *asked("a version of an unknown group", "/apis/nope.example.com/v1", plain=True),
    *asked("a kind of an unknown group", "/apis/nope.example.com/v1/things", plain=True),
    *asked("an object of an unknown group", "/apis/nope.example.com/v1/namespaces/{ns}/things/x", plain=True),
    *asked("an unknown version of a custom group", "/apis/e2e.example.com/v9", plain=True),
    *asked("a kind of that version", "/apis/e2e.example.com/v9/gauges", plain=True),
    *asked("an unknown kind of a custom group", f"{CUSTOM}/bogus", plain=True),
    *asked("an unknown version of the core", "/api/v2"),
    *asked("a kind in an unknown version of the core", "/api/v2/pods"),
    *asked("an unknown version of a group of the server's own", "/apis/apps/v9"),
    *asked("a kind of such a version", "/apis/apps/v9/deployments"),
    *asked("an unknown kind", f"{CORE}/bogus"),
    *asked("a path of nothing", "/bogus", plain=True),
)
CASES = (
    *CLUSTER_WIDE,
    *NAMESPACED,
    *SLASHES,
    *UNKNOWN,
    Case("a slash at the end changes nothing", "GET", f"{CONFIGMAPS}/", has={"kind": "ConfigMapList"}),
    Case("a name with a watch is read", "GET", f"{CORE}/namespaces/default?watch=1", has={"kind": "Namespace"}),
    Case(
        "no namespace in the path of a namespace lists all",
        "GET",
        f"{CORE}/namespaces//configmaps",
        has={"kind": "ConfigMapList"},
    ),
    Case(
        "a path without its namespace deletes nothing",
        "DELETE",
        f"{CORE}/namespaces//configmaps",
        expect=(400, "BadRequest"),
        message="Namespace parameter required.",
    ),
    Case("half an escape is refused", "GET", f"{CONFIGMAPS}/%zz", expect=(400, None)),
    *(
        Case(
            f"{method} does not watch",
            method,
            f"{CORE}/watch/namespaces/{{ns}}/pods",
            expect=(405, "MethodNotAllowed"),
            message=WRONG_METHOD,
        )
        for method in METHODS[1:]
    ),
)
