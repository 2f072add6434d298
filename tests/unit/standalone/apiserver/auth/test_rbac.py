"""Who may do what, in whose words they are refused, and that nobody gives away what they do not have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.standalone.apiserver.auth.rbac_builders import authorizer_of, bind, role, rule, store_of, urls, user
from ullage.standalone.apiserver.auth.escalation import Escalation
from ullage.standalone.apiserver.auth.rbac import Authorizer, aggregate, denied
from ullage.standalone.apiserver.auth.rules import AccessAttributes, PolicyRule, covers, parse_rules, uncovered
from ullage.standalone.apiserver.auth.users import User

BOB = user("bob", "dev")


def get(resource: str, **more: Any) -> AccessAttributes:
    group, _, plural = resource.rpartition("/")
    return AccessAttributes(more.pop("verb", "get"), group=group, resource=plural, **more)


@pytest.mark.parametrize(
    ("allowed", "asked", "answer"),
    [
        pytest.param(rule("core", "pods", "get"), get("pods"), True, id="the very thing is allowed"),
        pytest.param(rule("core", "pods", "get"), get("pods", verb="list"), False, id="another verb is not"),
        pytest.param(rule("core", "pods", "get"), get("apps/pods"), False, id="another group is not"),
        pytest.param(rule("core", "pods", "get"), get("secrets"), False, id="another resource is not"),
        pytest.param(rule("*", "pods", "get"), get("apps/pods"), True, id="a star stands for every group"),
        pytest.param(rule("core", "pods", "*"), get("pods", verb="explode"), True, id="a star stands for every verb"),
        pytest.param(rule("core", "*", "get"), get("pods", subresource="log"), True, id="a star covers subresources"),
        pytest.param(rule("core", "pods", "get"), get("pods", subresource="log"), False, id="a resource has no subresources"),
        pytest.param(rule("core", "pods/log", "get"), get("pods", subresource="log"), True, id="a named subresource"),
        pytest.param(rule("core", "pods/log", "get"), get("pods"), False, id="a subresource does not give its parent"),
        pytest.param(rule("core", "*/scale", "get"), get("pods", subresource="scale"), True, id="one subresource of all"),
        pytest.param(rule("core", "*/scale", "get"), get("pods", subresource="log"), False, id="only that subresource of all"),
        pytest.param(rule("core", "pods/*", "get"), get("pods", subresource="log"), False, id="pods/* is no wildcard"),
        pytest.param(rule("core", "*/", "get"), get("pods"), False, id="a star before nothing is no wildcard"),
        pytest.param(rule("core", "pods", "get", "a b"), get("pods", name="b"), True, id="a name on the list"),
        pytest.param(rule("core", "pods", "get", "a b"), get("pods", name="c"), False, id="a name off the list"),
        pytest.param(rule("core", "pods", "list", "a"), get("pods", verb="list"), False, id="names never match without a name"),
        pytest.param(urls("/foo", "get"), AccessAttributes("get", path="/foo"), True, id="a URL"),
        pytest.param(urls("/foo", "get"), AccessAttributes("get", path="/foo/a"), False, id="a URL is not a prefix"),
        pytest.param(urls("/foo/*", "get"), AccessAttributes("get", path="/foo/a/b"), True, id="a trailing star is"),
        pytest.param(urls("/foo/*", "get"), AccessAttributes("get", path="/foo"), False, id="the star needs its slash"),
        pytest.param(urls("*", "get"), AccessAttributes("get", path="/x"), True, id="a star stands for every URL"),
        pytest.param(urls("*x", "get"), AccessAttributes("get", path="/x"), False, id="a star elsewhere is no wildcard"),
        pytest.param(urls("*", "*"), get("pods"), False, id="URLs give no resources"),
        pytest.param(rule("*", "*", "*"), AccessAttributes("get", path="/x"), False, id="resources give no URLs"),
    ],
)
def test_a_rule(allowed: dict[str, Any], asked: AccessAttributes, answer: bool) -> None:
    authorizer = authorizer_of(role("r", allowed), bind("ClusterRole", "r", "User bob"))
    assert authorizer.authorize(BOB, asked).allowed is answer


@pytest.mark.parametrize(
    ("objects", "who", "reason"),
    [
        pytest.param(
            [role("r", rule("core", "pods", "get"), namespace="ns"), bind("Role", "r", "User bob", namespace="ns")],
            BOB,
            'RBAC: allowed by RoleBinding "b/ns" of Role "r" to User "bob"',
            id="a Role in its namespace",
        ),
        pytest.param(
            [role("r", rule("core", "pods", "get")), bind("ClusterRole", "r", "Group dev", namespace="ns")],
            BOB,
            'RBAC: allowed by RoleBinding "b/ns" of ClusterRole "r" to Group "dev"',
            id="a ClusterRole lent to a namespace, to a group",
        ),
        pytest.param(
            [role("r", rule("core", "pods", "get")), bind("ClusterRole", "r", "ServiceAccount ns/sa")],
            user("system:serviceaccount:ns:sa"),
            'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to ServiceAccount "sa/ns"',
            id="a service account everywhere",
        ),
        pytest.param([], User("x", groups=("system:masters",)), "", id="system:masters without any policy"),
        pytest.param(
            [role("r", rule("core", "pods", "get"), namespace="ns"), bind("Role", "r", "User bob", namespace="other")],
            BOB,
            None,
            id="no Role of another namespace",
        ),
        pytest.param(
            [role("r", rule("core", "pods", "get")), bind("ClusterRole", "r", "User bob", namespace="other")],
            BOB,
            None,
            id="a binding of another namespace does not count",
        ),
        pytest.param(
            [role("r", rule("core", "pods", "get")), bind("ClusterRole", "r", "Group bob", "User dev")],
            BOB,
            None,
            id="a group's name is not a user's",
        ),
        pytest.param(
            [role("r", rule("core", "pods", "get")), bind("ClusterRole", "r", "ServiceAccount ns/bob")],
            BOB,
            None,
            id="a service account's short name is not a user's",
        ),
    ],
)
def test_a_binding(objects: list[dict[str, Any]], who: User, reason: str | None) -> None:
    decision = authorizer_of(*objects).authorize(who, get("pods", namespace="ns"))
    assert (decision.allowed, decision.reason) == ((False, "") if reason is None else (True, reason))


def test_a_binding_in_a_namespace_gives_nothing_at_the_cluster_scope() -> None:
    authorizer = authorizer_of(
        role("r", rule("*", "*", "*"), urls("*", "*")), bind("ClusterRole", "r", "User bob", namespace="ns")
    )
    assert not authorizer.authorize(BOB, get("pods")).allowed
    assert not authorizer.authorize(BOB, AccessAttributes("get", path="/foo")).allowed
    assert not authorizer.authorize(BOB, AccessAttributes("get", path="/foo", namespace="ns")).allowed


def test_a_cluster_wide_binding_to_a_role_does_not_find_the_cluster_role_of_that_name() -> None:
    authorizer = authorizer_of(role("r", rule("core", "pods", "get")), bind("Role", "r", "User bob"))
    assert not authorizer.authorize(BOB, get("pods", namespace="ns")).allowed


MISSING = [
    bind("ClusterRole", "gone", "User bob", name="b1"),
    bind("Role", "absent", "User bob", namespace="ns", name="b2"),
]


@pytest.mark.parametrize(
    ("asked", "message", "details"),
    [
        pytest.param(
            get("pods", verb="list", namespace="default"),
            'pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "default"',
            {"kind": "pods"},
            id="a list in a namespace",
        ),
        pytest.param(
            get("apps/deployments", verb="patch", subresource="scale", namespace="ns", name="x"),
            'deployments.apps "x" is forbidden: User "eve" cannot patch resource "deployments/scale" in API group "apps"'
            ' in the namespace "ns"',
            {"name": "x", "group": "apps", "kind": "deployments"},
            id="a subresource of a named object",
        ),
        pytest.param(
            get("nodes", name="n"),
            'nodes "n" is forbidden: User "eve" cannot get resource "nodes" in API group "" at the cluster scope',
            {"name": "n", "kind": "nodes"},
            id="at the cluster scope",
        ),
        pytest.param(AccessAttributes("post", path="/foo"), 'forbidden: User "eve" cannot post path "/foo"', {}, id="a path"),
    ],
)
def test_a_refusal_is_worded_as_kube_apiserver_words_it(asked: AccessAttributes, message: str, details: dict[str, Any]) -> None:
    eve = user("eve")
    error = denied(eve, asked, authorizer_of(*MISSING).authorize(eve, asked))
    assert (error.code, error.reason, error.message, error.details) == (403, "Forbidden", message, details)


@pytest.mark.parametrize(
    ("asked", "tail"),
    [
        pytest.param(
            get("pods", namespace="ns"),
            ': RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
            'role.rbac.authorization.k8s.io "absent" not found]',
            id="several are bracketed",
        ),
        pytest.param(get("pods"), ': RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found', id="one stands alone"),
        pytest.param(
            AccessAttributes("get", path="/foo"),
            ': RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found',
            id="on a path too",
        ),
    ],
)
def test_a_refusal_names_the_roles_that_bindings_look_for_in_vain(asked: AccessAttributes, tail: str) -> None:
    assert denied(BOB, asked, authorizer_of(*MISSING).authorize(BOB, asked)).message.endswith(tail)


def test_a_change_of_policy_counts_at_the_next_request_and_decodes_only_what_changed() -> None:
    store = store_of(role("r", rule("core", "pods", "get")), role("q"))
    authorizer = Authorizer(store)
    assert not authorizer.authorize(BOB, get("pods")).allowed
    untouched = store.items("clusterroles.rbac.authorization.k8s.io")
    store.put(bind("ClusterRole", "r", "User bob"))
    assert authorizer.authorize(BOB, get("pods")).allowed
    assert [entry.decoded for entry in untouched] == [1, 1]
    store.put(role("r", rule("core", "pods", "list")))
    assert not authorizer.authorize(BOB, get("pods")).allowed
    store.put(role("r", rule("core", "pods", "get")))
    store.drop("ClusterRoleBinding", "", "b")
    assert not authorizer.authorize(BOB, get("pods")).allowed


def gathering(name: str, *labels: str, into: str = "") -> dict[str, Any]:
    selectors = [{"matchLabels": {label: "true"}} for label in labels]
    own = {into: "true"} if into else {}
    return role(name, labels=own, aggregationRule={"clusterRoleSelectors": selectors})


A, B = rule("core", "a", "get"), rule("core", "b", "get")


@pytest.mark.parametrize(
    ("roles", "rules"),
    [
        pytest.param([gathering("all", "x"), role("n", A)], [], id="nothing without the label"),
        pytest.param(
            [gathering("all", "x"), role("z", A, labels={"x": "true"}), role("y", B, labels={"x": "true"})],
            [B, A],
            id="in order of name",
        ),
        pytest.param(
            [gathering("all", "x", "y"), role("r", A, B, labels={"x": "true", "y": "true"})], [A, B], id="each rule once"
        ),
        pytest.param(
            [gathering("all", "x"), gathering("mid", "y", into="x"), role("r", A, labels={"y": "true"})],
            [A],
            id="through another aggregated role",
        ),
        pytest.param(
            [gathering("all", "x", into="y"), gathering("mid", "y", "z", into="x"), role("r", A, labels={"z": "true"})],
            [A],
            id="a circle ends",
        ),
        pytest.param(
            [
                role(
                    "all",
                    aggregationRule={"clusterRoleSelectors": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]},
                ),
                role("r", A, labels={"k": ""}),
            ],
            [A],
            id="by expression",
        ),
    ],
)
def test_aggregation_gathers(roles: list[dict[str, Any]], rules: list[dict[str, Any]]) -> None:
    assert aggregate(roles)["all"] == rules


@pytest.mark.timeout(15)
def test_a_hundred_roles_that_gather_each_other() -> None:
    circle = [gathering(f"c{number:03}", "x", into="x") for number in range(100)]
    leaves = [role(f"r{number}", rule("core", f"a{number}", "get"), labels={"x": "true"}) for number in range(100)]
    found = aggregate([*circle, *leaves])
    assert len(found) == 100
    expected = {f"a{number}" for number in range(100)}
    assert all(len(rules) == 100 and {rule["resources"][0] for rule in rules} == expected for rules in found.values())


@pytest.mark.timeout(15)
def test_a_role_that_gathers_thousands_of_rules() -> None:
    leaves = [
        role(f"r{n:02}", *(rule("core", f"a{n}-{m}", "get") for m in range(2_000)), labels={"x": "true"}) for n in range(10)
    ]
    assert len(aggregate([gathering("all", "x", "x"), *leaves])["all"]) == 20_000


@pytest.mark.timeout(20)
def test_a_large_role_that_thousands_of_bindings_give() -> None:
    large = role("large", *(rule("core", f"a{number}", "get") for number in range(3_000)))
    bindings = [bind("ClusterRole", "large", "User bob", name=f"b{number}") for number in range(2_000)]
    authorizer = authorizer_of(large, *bindings)
    assert authorizer.authorize(BOB, get("a2999")).allowed
    assert not any(authorizer.authorize(BOB, get("pods")).allowed for _ in range(20))
    assert len(authorizer.grants(BOB, "")) == 1


def test_an_aggregated_role_gives_what_it_gathers() -> None:
    authorizer = authorizer_of(
        gathering("all", "x"),
        role("r", rule("core", "pods", "get"), labels={"x": "true"}),
        bind("ClusterRole", "all", "User bob"),
    )
    assert authorizer.authorize(BOB, get("pods")).allowed


@pytest.mark.parametrize(
    ("owned", "wanted", "answer"),
    [
        pytest.param([rule("core", "*", "get")], rule("core", "pods/log */scale", "get"), True, id="a star covers resources"),
        pytest.param([rule("core", "*", "get")], rule("apps", "x", "get"), False, id="a group that is not held"),
        pytest.param([rule("core", "*/scale", "get")], rule("core", "pods/scale", "get"), True, id="one subresource of all"),
        pytest.param([rule("core", "pods/*", "get")], rule("core", "pods/scale", "get"), False, id="pods/* covers nothing"),
        pytest.param([rule("*", "pods", "*", "a")], rule("x", "pods", "get", "a"), True, id="the names that are held"),
        pytest.param([rule("*", "pods", "*", "a")], rule("x", "pods", "get"), False, id="names do not cover all names"),
        pytest.param([rule("core", "pods", "get")], rule("core", "pods", "get", "a"), True, id="all names cover one"),
        pytest.param(
            [rule("core", "pods", "get"), rule("core", "secrets", "get list")],
            rule("core", "pods secrets", "get"),
            True,
            id="two rules together",
        ),
        pytest.param(
            [rule("core", "pods", "get"), rule("core", "secrets", "list")],
            rule("core", "pods secrets", "get list"),
            False,
            id="but not crosswise",
        ),
        pytest.param([urls("/a/*", "get")], urls("/a/b", "get"), True, id="a URL under a star"),
        pytest.param([urls("/a/*", "get")], urls("*", "get"), False, id="a star is not under another"),
        pytest.param([rule("*", "*", "get list")], rule("core", "pods", "*"), False, id="a star needs a star"),
    ],
)
def test_covering(owned: list[dict[str, Any]], wanted: dict[str, Any], answer: bool) -> None:
    assert covers(parse_rules(owned), parse_rules([wanted])) is answer


HELD = [
    role("held", rule("core", "pods", "get list"), namespace="ns"),
    bind("Role", "held", "User bob", namespace="ns", name="held"),
    role("named", rule("rbac.authorization.k8s.io", "roles", "escalate", "known"), namespace="ns"),
    bind("Role", "named", "User bob", namespace="ns", name="named"),
    role("lend", rule("rbac.authorization.k8s.io", "roles clusterroles", "bind", "lent"), namespace="ns"),
    bind("Role", "lend", "User bob", namespace="ns", name="lend"),
    role("lent", rule("*", "*", "*"), namespace="ns"),
    role("big", rule("*", "*", "*"), urls("*", "*")),
]
GRANT = 'user "bob" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'


def refusal(plural: str, new: dict[str, Any], old: dict[str, Any] | None = None, *, who: User = BOB) -> str:
    namespace = new["metadata"].get("namespace", "")
    error = Escalation(authorizer_of(*HELD)).check(who, plural, new=new, old=old, namespace=namespace)
    return "" if error is None else f"{error.code} {error.message}"


def local(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return role(name, *rules, namespace="ns")


def lacks(what: str, text: str) -> str:
    return f"403 {what} is forbidden: {GRANT}{text}"


@pytest.mark.parametrize(
    ("plural", "new", "expected"),
    [
        pytest.param("roles", local("x", rule("core", "pods", "get")), "", id="what is held may be given"),
        pytest.param("roles", local("x"), "", id="an empty role too"),
        pytest.param("configmaps", local("x", rule("*", "*", "*")), "", id="other kinds are not looked at"),
        pytest.param(
            "roles",
            local("x", rule("core", "secrets pods", "delete get create")),
            lacks(
                'roles.rbac.authorization.k8s.io "x"',
                '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "create"]}\n'
                '{APIGroups:[""], Resources:["secrets"], Verbs:["delete" "get" "create"]}',
            ),
            id="only what is lacking is listed, verbs together, in order of text",
        ),
        pytest.param(
            "roles",
            local("x", rule("core", "secrets", "get"), rule("core", "secrets", "list", "a b")),
            lacks(
                'roles.rbac.authorization.k8s.io "x"',
                '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["list"]}\n'
                '{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["list"]}\n'
                '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}',
            ),
            id="each name for itself",
        ),
        pytest.param(
            "clusterroles",
            role("x", urls("/foo", "get post")),
            lacks(
                'clusterroles.rbac.authorization.k8s.io "x"',
                '{NonResourceURLs:["/foo"], Verbs:["get"]}\n{NonResourceURLs:["/foo"], Verbs:["post"]}',
            ),
            id="each verb on a URL for itself",
        ),
        pytest.param(
            "clusterroles",
            role("x", rule("core", "pods", "get")),
            lacks('clusterroles.rbac.authorization.k8s.io "x"', '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'),
            id="what is held in a namespace is not held in the cluster",
        ),
        pytest.param(
            "clusterroles",
            gathering("x", "label"),
            '403 clusterroles.rbac.authorization.k8s.io "x" is forbidden: '
            "must have cluster-admin privileges to use the aggregationRule",
            id="aggregation needs everything",
        ),
        pytest.param(
            "rolebindings", bind("Role", "held", "User eve", namespace="ns"), "", id="a role of held rights may be bound"
        ),
        pytest.param(
            "rolebindings", bind("Role", "lent", "User eve", namespace="ns"), "", id="a role with the verb bind may be bound"
        ),
        pytest.param(
            "rolebindings",
            bind("ClusterRole", "big", "User eve", namespace="ns"),
            lacks(
                'rolebindings.rbac.authorization.k8s.io "b"',
                '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}',
            ),
            id="another role may not be bound",
        ),
        pytest.param(
            "rolebindings",
            bind("Role", "nope", "User eve", namespace="ns"),
            '404 rolebindings.rbac.authorization.k8s.io "nope" not found',
            id="a role that does not exist cannot be checked",
        ),
        pytest.param(
            "roles",
            local("known", rule("*", "*", "*")),
            lacks('roles.rbac.authorization.k8s.io "known"', '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'),
            id="escalate on a name does not allow a create",
        ),
    ],
)
def test_creating(plural: str, new: dict[str, Any], expected: str) -> None:
    assert refusal(plural, new) == expected


def test_escalate_on_a_name_allows_an_update() -> None:
    assert refusal("roles", local("known", rule("*", "*", "*")), local("known")) == ""
    assert refusal("roles", local("other", rule("*", "*", "*")), local("other")).startswith("403")


def test_even_a_label_on_a_role_of_greater_rights_is_refused_but_a_finalizer_is_not() -> None:
    old = local("x", rule("*", "*", "*"))
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    finalized = {**old, "metadata": {**old["metadata"], "finalizers": ["a/b"], "managedFields": [{}]}}
    assert refusal("roles", labelled, old).startswith("403")
    assert refusal("roles", finalized, old) == ""


MANY = [f"x{number}" for number in range(300)]


@pytest.mark.timeout(15)
@pytest.mark.parametrize(
    ("owned", "wanted", "lacking"),
    [
        pytest.param(
            [PolicyRule(("*",), ("*",), ("*",))],
            [PolicyRule(tuple(MANY), tuple(MANY), tuple(MANY), tuple(MANY))],
            0,
            id="who holds all",
        ),
        pytest.param(
            [PolicyRule(tuple(MANY), tuple(MANY), tuple(MANY))],
            [PolicyRule(tuple(MANY), tuple(MANY), tuple(MANY), tuple(MANY))],
            0,
            id="who holds just that",
        ),
        pytest.param([], [PolicyRule(tuple(MANY), tuple(MANY), tuple(MANY), tuple(MANY))], 1_000, id="who holds nothing"),
        pytest.param(
            [PolicyRule((verb,), ("*",), ("*",)) for verb in MANY],
            [PolicyRule(tuple(MANY), tuple(MANY), tuple(MANY), tuple(MANY))],
            1,
            id="who holds it in parts",
        ),
        pytest.param(
            [PolicyRule(("get",), ("",), (one,)) for one in MANY],
            [PolicyRule(("get",), ("",), tuple(MANY))],
            0,
            id="parts of a few rights",
        ),
        pytest.param(
            [PolicyRule(("get",), ("",), (one,)) for one in MANY] * 50,
            [PolicyRule(("get",), ("",), (one,)) for one in MANY] * 50,
            0,
            id="the same rules over and over",
        ),
    ],
)
def test_rules_that_stand_for_billions_of_rights(owned: list[PolicyRule], wanted: list[PolicyRule], lacking: int) -> None:
    assert len(uncovered(owned, wanted)) == lacking


def test_taking_the_aggregation_away_needs_everything_too() -> None:
    assert "must have cluster-admin" in refusal("clusterroles", role("x"), gathering("x", "label"))


def test_system_masters_may_give_anything() -> None:
    assert refusal("clusterroles", gathering("x", "label"), who=User("root", groups=("system:masters",))) == ""


def test_a_refusal_to_grant_tells_of_roles_that_could_not_be_resolved() -> None:
    authorizer = authorizer_of(bind("Role", "absent", "User bob", namespace="ns"))
    error = Escalation(authorizer).check(BOB, "roles", new=local("x", A), old=None, namespace="ns")
    assert error is not None
    assert error.message.endswith('; resolution errors: [roles.rbac.authorization.k8s.io "absent" not found]')
