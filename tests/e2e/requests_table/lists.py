"""Lists: pages, selectors, versions."""

# ruff: noqa: E501 - messages stand on one line, as they come over the wire

from __future__ import annotations

import base64

from ..kinds import ROOT_CA, configmap, gauge, pod
from .case import CONFIGMAPS, GAUGES, LEASES, NAMESPACE, OWN_CONFIGMAPS, PODS, SECRETS, SERVICES, Case, Json, Step, post

THREE = tuple(post(CONFIGMAPS, configmap(name, labels={"tier": name, "all": "yes"})) for name in ("a", "b", "c"))
BAD_TOKEN = base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":"x","start":"a"}').decode()
OLD_TOKEN_VERSION = base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v9","rv":5,"start":"a"}').decode().rstrip("=")

JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
CONTROLLERS = f"{NAMESPACE}/replicationcontrollers"
EVENTS = f"{NAMESPACE}/events"
TEMPLATE: Json = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ONCE: Json = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
UNNODED = (Step("DELETE", "/api/v1/nodes/{ns}"),)
SELECTED = (
    post("/api/v1/nodes", {"metadata": {"name": "{ns}"}}),
    post(PODS, {**TEMPLATE, "metadata": {"name": "{ns}"}}),
    post(JOBS, {"metadata": {"name": "{ns}"}, "spec": {"template": ONCE}}),
    post(CONTROLLERS, {"metadata": {"name": "{ns}"}, "spec": {"selector": {"a": "b"}, "template": TEMPLATE}}),
    post(SECRETS, {"metadata": {"name": "{ns}"}}),
    post(SERVICES, {"metadata": {"name": "{ns}"}, "spec": {"ports": [{"port": 80}]}}),
    post(
        EVENTS,
        {
            "metadata": {"name": "{ns}"},
            "involvedObject": {"kind": "Pod", "namespace": "{ns}", "name": "my-source"},
            "reportingComponent": "ctl",
            "reportingInstance": "x",
            "reason": "source",
        },
    ),
)

CASES = (
    Case(
        "a list is sorted by name and carries a version",
        "GET",
        OWN_CONFIGMAPS,
        setup=tuple(reversed(THREE)),
        has={
            "kind": "ConfigMapList",
            "items.#": 3,
            "items[0].metadata.name": "a",
            "items[2].metadata.name": "c",
            "items[0].kind": None,
        },
    ),
    Case(
        "the items of a custom list name their kind",
        "GET",
        GAUGES,
        setup=(post(GAUGES, gauge("a")),),
        has={"kind": "GaugeList", "items[0].kind": "Gauge", "items[0].apiVersion": "e2e.example.com/v1"},
    ),
    Case("an empty list has an empty array", "GET", SECRETS, has={"items": [], "metadata.continue": None}),
    Case("a list in a missing namespace is empty", "GET", "/api/v1/namespaces/missing/configmaps", has={"items": []}),
    Case(
        "a page says how many remain",
        "GET",
        f"{CONFIGMAPS}?limit=1",
        setup=THREE,
        has={"items.#": 1, "items[0].metadata.name": "a", "metadata.remainingItemCount": 3},
    ),
    Case(
        "the next page starts where the last ended",
        "GET",
        CONFIGMAPS + "?limit=1&continue={next}",
        setup=(
            *THREE,
            Step("GET", f"{CONFIGMAPS}?limit=1", save={"next": "metadata.continue", "rv": "metadata.resourceVersion"}),
        ),
        has={"items[0].metadata.name": "b", "metadata.resourceVersion": "{rv}", "metadata.remainingItemCount": 2},
    ),
    Case(
        "the last page has no continue token",
        "GET",
        CONFIGMAPS + "?limit=5&continue={next}",
        setup=(*THREE, Step("GET", f"{CONFIGMAPS}?limit=1", save={"next": "metadata.continue"})),
        has={"items.#": 3, "metadata.continue": None, "metadata.remainingItemCount": None},
    ),
    Case(
        "a page shows the list as it was when the first page was read",
        "GET",
        CONFIGMAPS + "?continue={next}",
        setup=(
            *THREE,
            Step("GET", f"{CONFIGMAPS}?limit=1", save={"next": "metadata.continue"}),
            post(CONFIGMAPS, configmap("bb")),
            Step("DELETE", f"{CONFIGMAPS}/c"),
        ),
        has={"items.#": 3, "items[0].metadata.name": "b", "items[1].metadata.name": "c"},
    ),
    Case(
        "a page with a selector does not say how many remain",
        "GET",
        f"{CONFIGMAPS}?limit=1&labelSelector=all%3Dyes",
        setup=THREE,
        has={"items.#": 1, "metadata.remainingItemCount": None},
    ),
    Case(
        "a continue token that is no token is refused",
        "GET",
        f"{CONFIGMAPS}?limit=1&continue=nonsense",
        expect=(400, "BadRequest"),
        message="invalid continue token: continue key is not valid: invalid character '\\u009e' looking for beginning of value",
    ),
    Case(
        "a continue token with a bad version is refused",
        "GET",
        f"{CONFIGMAPS}?limit=1&continue={BAD_TOKEN}",
        expect=(400, "BadRequest"),
        message="invalid continue token: continue key is not valid: illegal base64 data at input byte 58",
    ),
    Case(
        "a continue token of another format is refused",
        "GET",
        f"{CONFIGMAPS}?limit=1&continue={OLD_TOKEN_VERSION}",
        expect=(400, "BadRequest"),
        message="invalid continue token: continue key is not valid: server does not recognize this encoded version meta.k8s.io/v9",
    ),
    Case(
        "a continue token does not go with a version",
        "GET",
        CONFIGMAPS + "?limit=1&continue={next}&resourceVersion=5",
        setup=(*THREE, Step("GET", f"{CONFIGMAPS}?limit=1", save={"next": "metadata.continue"})),
        expect=(400, "BadRequest"),
        message="specifying resource version is not allowed when using continue",
    ),
    Case(
        "a continue token does not go with a version match",
        "GET",
        CONFIGMAPS + "?limit=1&continue={next}&resourceVersionMatch=Exact",
        setup=(*THREE, Step("GET", f"{CONFIGMAPS}?limit=1", save={"next": "metadata.continue"})),
        expect=(422, "Invalid"),
        message='ListOptions.meta.k8s.io "" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided]',
        causes=(
            ("resourceVersionMatch", "FieldValueForbidden"),
            ("resourceVersionMatch", "FieldValueForbidden"),
        ),
    ),
    Case(
        "a limit that is no number is refused",
        "GET",
        f"{CONFIGMAPS}?limit=many",
        expect=(400, "BadRequest"),
        message='strconv.ParseInt: parsing "many": invalid syntax',
    ),
    Case(
        "a label selects",
        "GET",
        f"{CONFIGMAPS}?labelSelector=tier%3Db",
        setup=THREE,
        has={"items.#": 1, "items[0].metadata.name": "b"},
    ),
    Case("in selects a set", "GET", f"{CONFIGMAPS}?labelSelector=tier+in+(a,c)", setup=THREE, has={"items.#": 2}),
    Case(
        "notin selects what lacks the label too",
        "GET",
        f"{CONFIGMAPS}?labelSelector=other+notin+(a)",
        setup=THREE,
        has={"items.#": 4},
    ),
    Case(
        "an exclamation mark selects what lacks the label",
        "GET",
        f"{CONFIGMAPS}?labelSelector=!tier",
        setup=THREE,
        has={"items.#": 1, "items[0].metadata.name": ROOT_CA},
    ),
    Case(
        "a key alone selects what has the label", "GET", f"{CONFIGMAPS}?labelSelector=tier,all", setup=THREE, has={"items.#": 3}
    ),
    Case("not equal selects the others", "GET", f"{CONFIGMAPS}?labelSelector=tier!%3Da,tier", setup=THREE, has={"items.#": 2}),
    Case("greater than compares numbers", "GET", f"{CONFIGMAPS}?labelSelector=tier%3E5", setup=THREE, has={"items": []}),
    Case(
        "a selector that does not parse is refused",
        "GET",
        f"{CONFIGMAPS}?labelSelector=a%3D%3D%3Db",
        expect=(400, "BadRequest"),
        message="unable to parse requirement: found '=', expected: identifier",
    ),
    Case(
        "a set that is not closed is refused",
        "GET",
        f"{CONFIGMAPS}?labelSelector=a+in+(b",
        expect=(400, "BadRequest"),
        message="unable to parse requirement: found '', expected: ',' or ')'",
    ),
    Case(
        "a selector with a bad key is refused",
        "GET",
        f"{CONFIGMAPS}?labelSelector=-bad-%3Dx",
        expect=(400, "BadRequest"),
        message="unable to parse requirement: <nil>: Invalid value: \"-bad-\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ),
    Case(
        "a selector with a bad value is refused",
        "GET",
        f"{CONFIGMAPS}?labelSelector=a%3D-x-",
        expect=(400, "BadRequest"),
        message="unable to parse requirement: values[0][a]: Invalid value: \"-x-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    ),
    Case(
        "greater than wants a number",
        "GET",
        f"{CONFIGMAPS}?labelSelector=a%3Ex",
        expect=(400, "BadRequest"),
        message="unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    ),
    Case(
        "a bad selector on a custom kind is refused",
        "GET",
        f"{GAUGES}?labelSelector=a+in+(b",
        expect=(400, "BadRequest"),
        message="unable to parse requirement: found '', expected: ',' or ')'",
    ),
    *(
        Case(
            f"{title} is selected",
            "GET",
            f"{path}?fieldSelector={selector}",
            setup=SELECTED,
            cleanup=UNNODED,
            has={"items.#": 1, "items[0].metadata.name": "{ns}"},
        )
        for title, path, selector in (
            ("a node that nobody took out of service", "/api/v1/nodes", "spec.unschedulable%3Dfalse,metadata.name%3D{ns}"),
            ("a node that was not taken out", "/api/v1/nodes", "spec.unschedulable!%3Dtrue,metadata.name%3D{ns}"),
            ("a pod with a network of its own", PODS, "spec.hostNetwork%3Dfalse"),
            ("a pod without a node", PODS, "spec.nodeName%3D"),
            ("a pod without an address", PODS, "status.podIP%3D,status.podIPs%3D,status.nominatedNodeName%3D"),
            ("a pod by its defaults", PODS, "spec.restartPolicy%3DAlways,spec.schedulerName%3Ddefault-scheduler"),
            ("a job without a success", JOBS, "status.successful%3D0"),
            ("a controller without replicas", CONTROLLERS, "status.replicas%3D0"),
            ("a secret by its default type", SECRETS, "type%3DOpaque"),
            ("a service by its default type", SERVICES, "spec.type%3DClusterIP"),
            ("an event about something called source", EVENTS, "involvedObject.name%3Dmy-source"),
            ("an event of one source about another", EVENTS, "involvedObject.name%3Dmy-source,source%3Dctl,reason%3Dsource"),
            ("an event for the reason source", EVENTS, "reason%3Dsource"),
            ("an event by who reports it", EVENTS, "source%3Dctl"),
            ("an event without a type", EVENTS, "involvedObject.uid%3D,involvedObject.fieldPath%3D"),
        )
    ),
    *(
        Case(
            f"{title} is not selected",
            "GET",
            f"{path}?fieldSelector={selector}",
            setup=SELECTED,
            cleanup=UNNODED,
            has={"items.#": 0},
        )
        for title, path, selector in (
            ("a node of which nothing is said", "/api/v1/nodes", "spec.unschedulable%3D,metadata.name%3D{ns}"),
            ("a node that nobody took out of service", "/api/v1/nodes", "spec.unschedulable!%3Dfalse,metadata.name%3D{ns}"),
            ("a job of which nothing is said", JOBS, "status.successful%3D"),
            ("an event without a source", EVENTS, "source%3D"),
        )
    ),
    *(
        Case(
            f"{kind} cannot be selected by {label}",
            "GET",
            f"{path}?fieldSelector={label}%3D0",
            expect=(400, "BadRequest"),
            message=message,
        )
        for kind, path, label, message in (
            (
                "a replica set",
                "/apis/apps/v1/namespaces/{ns}/replicasets",
                "status.replicas",
                '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
            ),
            ("a job", JOBS, "status.succeeded", 'field label "status.succeeded" not supported for Job'),
            ("a new event", "/apis/events.k8s.io/v1/namespaces/{ns}/events", "source", "field label not supported: source"),
        )
    ),
    Case("a vertical tab is no blank in a selector", "GET", f"{PODS}?labelSelector=a%3Db%0B", expect=(400, "BadRequest")),
    Case(
        "a field selects by name",
        "GET",
        f"{CONFIGMAPS}?fieldSelector=metadata.name%3Db",
        setup=THREE,
        has={"items.#": 1, "items[0].metadata.name": "b"},
    ),
    Case(
        "a field selects all but a name",
        "GET",
        f"{CONFIGMAPS}?fieldSelector=metadata.name!%3Db",
        setup=THREE,
        has={"items.#": 3},
    ),
    Case(
        "a pod is selected by its phase",
        "GET",
        f"{PODS}?fieldSelector=status.phase%3DPending,spec.nodeName%3D",
        setup=(post(PODS, pod("a")),),
        has={"items.#": 1},
    ),
    Case(
        "a custom object is selected by a field that its definition names",
        "GET",
        f"{GAUGES}?fieldSelector=spec.mode%3DStrict",
        setup=(post(GAUGES, gauge("a")), post(GAUGES, gauge("b", mode="Strict"))),
        has={"items.#": 1, "items[0].metadata.name": "b"},
    ),
    Case(
        "a field that nobody selects by is refused",
        "GET",
        f"{CONFIGMAPS}?fieldSelector=data.x%3Dy",
        expect=(400, "BadRequest"),
        message='"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    Case(
        "a custom field that the definition does not name is refused",
        "GET",
        f"{GAUGES}?fieldSelector=spec.label%3Dx",
        expect=(400, "BadRequest"),
        message="field label not supported: spec.label",
    ),
    Case(
        "a field selector that does not parse is refused",
        "GET",
        f"{CONFIGMAPS}?fieldSelector=metadata.name",
        expect=(400, "BadRequest"),
        message="invalid selector: 'metadata.name'; can't understand 'metadata.name'",
    ),
    Case(
        "leases are not selected by holder",
        "GET",
        f"{LEASES}?fieldSelector=spec.holderIdentity%3Dx",
        expect=(400, "BadRequest"),
        message='"spec.holderIdentity" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    Case(
        "an exact version shows the list of that moment",
        "GET",
        OWN_CONFIGMAPS + "&resourceVersion={rv}&resourceVersionMatch=Exact",
        setup=(
            post(CONFIGMAPS, configmap("a"), rv="metadata.resourceVersion"),
            post(CONFIGMAPS, configmap("b")),
        ),
        has={"items.#": 1, "metadata.resourceVersion": "{rv}"},
    ),
    Case(
        "not older than shows at least that moment",
        "GET",
        OWN_CONFIGMAPS + "&resourceVersion={rv}&resourceVersionMatch=NotOlderThan",
        setup=(post(CONFIGMAPS, configmap("a"), rv="metadata.resourceVersion"),),
        has={"items.#": 1},
    ),
    Case(
        "a version match without a version is refused",
        "GET",
        f"{CONFIGMAPS}?resourceVersionMatch=Exact",
        expect=(422, "Invalid"),
        message='ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided',
        causes=(("resourceVersionMatch", "FieldValueForbidden"),),
    ),
    Case(
        "an unknown version match is refused",
        "GET",
        f"{CONFIGMAPS}?resourceVersion=5&resourceVersionMatch=Newest",
        expect=(422, "Invalid"),
        message='ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Newest": supported values: "Exact", "NotOlderThan", ""',
        causes=(("resourceVersionMatch", "FieldValueNotSupported"),),
    ),
    Case(
        "exact does not go with version zero",
        "GET",
        f"{CONFIGMAPS}?resourceVersion=0&resourceVersionMatch=Exact",
        expect=(422, "Invalid"),
        message='ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        causes=(("resourceVersionMatch", "FieldValueForbidden"),),
    ),
    Case(
        "a list at a version that is no number is refused",
        "GET",
        f"{CONFIGMAPS}?resourceVersion=old",
        expect=(400, "BadRequest"),
        message='invalid resource version: resourceVersion: Invalid value: "old": strconv.ParseUint: parsing "old": invalid syntax',
    ),
    Case(
        "a list at a version in the future is refused",
        "GET",
        f"{CONFIGMAPS}?resourceVersion=99999999999",
        expect=(504, "Timeout"),
        message="Timeout: Too large resource version: 99999999999, current: …",
        causes=(("", "ResourceVersionTooLarge"),),
    ),
    Case(
        "an exact version in the future is refused",
        "GET",
        f"{CONFIGMAPS}?resourceVersion=99999999999&resourceVersionMatch=Exact",
        expect=(504, "Timeout"),
        message="Timeout: Too large resource version: 99999999999, current: …",
        causes=(("", "ResourceVersionTooLarge"),),
    ),
    Case(
        "a watch from a version that is no number is refused",
        "GET",
        f"{CONFIGMAPS}?watch=1&resourceVersion=old",
        expect=(500, ""),
        message='resourceVersion: Invalid value: "old": strconv.ParseUint: parsing "old": invalid syntax',
    ),
    Case(
        "a watch from a version that is negative is refused",
        "GET",
        f"{CONFIGMAPS}?watch=1&resourceVersion=-1",
        expect=(500, ""),
        message='resourceVersion: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax',
    ),
    Case(
        "a watch with a bad selector is refused",
        "GET",
        f"{CONFIGMAPS}?watch=1&labelSelector=a+in+(b",
        expect=(400, "BadRequest"),
        message="unable to parse requirement: found '', expected: ',' or ')'",
    ),
    Case(
        "initial events without a watch are refused",
        "GET",
        f"{CONFIGMAPS}?sendInitialEvents=true",
        expect=(422, "Invalid"),
        message='ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list',
        causes=(("sendInitialEvents", "FieldValueForbidden"),),
    ),
    Case(
        "initial events want a version match",
        "GET",
        f"{CONFIGMAPS}?watch=1&sendInitialEvents=true",
        expect=(422, "Invalid"),
        message='ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
        causes=(("resourceVersionMatch", "FieldValueForbidden"),),
    ),
    Case(
        "initial events do not go with an exact match",
        "GET",
        f"{CONFIGMAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&allowWatchBookmarks=true",
        expect=(422, "Invalid"),
        message='ListOptions.meta.k8s.io "" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]',
        causes=(
            ("resourceVersionMatch", "FieldValueForbidden"),
            ("resourceVersionMatch", "FieldValueNotSupported"),
        ),
    ),
    Case(
        "a version match on a watch wants initial events",
        "GET",
        f"{CONFIGMAPS}?watch=1&resourceVersion=0&resourceVersionMatch=NotOlderThan",
        expect=(422, "Invalid"),
        message='ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided',
        causes=(("resourceVersionMatch", "FieldValueForbidden"),),
    ),
    Case(
        "a watch with a bad timeout is refused",
        "GET",
        f"{CONFIGMAPS}?watch=1&timeoutSeconds=soon",
        expect=(400, "BadRequest"),
        message='strconv.ParseInt: parsing "soon": invalid syntax',
    ),
    Case(
        "a watch flag that is neither true nor false means true",
        "GET",
        f"{CONFIGMAPS}?watch=maybe&timeoutSeconds=1",
        expect=(200, ""),
    ),
)
