"""Acting as somebody else: what the headers ask for, who may, and how the rest are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.standalone.rbac_builders import authorizer_of, bind, role, rule, user
from ullage.standalone.apiserver.auth.impersonation import impersonate, requested
from ullage.standalone.apiserver.auth.rbac import Attributes
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.status import ApiError

Headers = list[tuple[str, str]]
ROOT = User("root", groups=("system:masters",))
LIST = Attributes("list", resource="namespaces")


def as_(name: str, **parts: Any) -> Headers:
    """`groups` and `extra` as the headers that would carry them, in the server's own case."""
    headers = [("accept", "*/*"), ("impersonate-user", name)]
    headers += [("impersonate-group", group) for group in parts.get("groups", ())]
    headers += [("impersonate-uid", parts["uid"])] if "uid" in parts else []
    return headers + [(f"impersonate-extra-{key}", value) for key, value in parts.get("extra", ())]


def become(headers: Headers, *rules: dict[str, Any], attributes: Attributes = LIST, who: User | None = None) -> User:
    wanted = requested(headers)
    assert wanted is not None
    authorizer = authorizer_of(role("r", *rules), bind("ClusterRole", "r", "User me"))
    return impersonate(who or user("me"), wanted, attributes=attributes, authorizer=authorizer)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param(as_("bob"), User("bob", groups=("system:authenticated",)), id="a user is authenticated"),
        pytest.param(
            as_("bob", groups=["a", "b"], uid="u", extra=[("foo.com%2fbar", "1"), ("foo.com%2fbar", "2"), ("x_y", "z")]),
            User(
                "bob",
                uid="u",
                groups=("a", "b", "system:authenticated"),
                extra={"foo.com/bar": ("1", "2"), "x_y": ("z",)},
            ),
            id="with everything there is",
        ),
        pytest.param(
            as_("bob", groups=["system:unauthenticated"]),
            User("bob", groups=("system:unauthenticated",)),
            id="unauthenticated if asked for",
        ),
        pytest.param(
            as_("system:anonymous"), User("system:anonymous", groups=("system:unauthenticated",)), id="nobody is nobody"
        ),
        pytest.param(
            as_("system:serviceaccount:ns:sa"),
            User(
                "system:serviceaccount:ns:sa",
                groups=("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
            ),
            id="a service account with its groups",
        ),
        pytest.param(
            as_("system:serviceaccount:ns:sa", groups=["g"]),
            User("system:serviceaccount:ns:sa", groups=("g", "system:authenticated")),
            id="a service account with given groups has no others",
        ),
        pytest.param(
            as_("system:serviceaccount:NS:sa"),
            User("system:serviceaccount:NS:sa", groups=("system:authenticated",)),
            id="a name that no service account can have",
        ),
        pytest.param(
            [*as_("bob"), ("impersonate-user", "eve")],
            User("bob", groups=("system:authenticated",)),
            id="the first user counts",
        ),
    ],
)
def test_who_the_request_goes_on_as(headers: Headers, expected: User) -> None:
    assert become(headers, who=ROOT) == expected


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([("accept", "*/*")], id="no such header"),
        pytest.param([("impersonate-user", "")], id="an empty one"),
        pytest.param([("impersonate-bogus", "x")], id="one that means nothing"),
    ],
)
def test_nothing_is_asked_for(headers: Headers) -> None:
    assert requested(headers) is None


@pytest.mark.parametrize(
    ("headers", "shown"),
    [
        pytest.param(
            [("impersonate-group", "x")],
            'Name:"", UID:"", Groups:[]string{"x"}, Extra:map[string][]string(nil)',
            id="a group",
        ),
        pytest.param(
            [("impersonate-uid", "u"), ("impersonate-extra-foo", "x"), ("impersonate-extra-foo", "y")],
            'Name:"", UID:"u", Groups:[]string(nil), Extra:map[string][]string{"foo":[]string{"x", "y"}}',
            id="a uid and extras",
        ),
    ],
)
def test_parts_without_a_user_are_a_bad_request(headers: Headers, shown: str) -> None:
    with pytest.raises(ApiError) as error:
        requested(headers)
    assert error.value.code == 400
    assert error.value.message == f"requested &user.DefaultInfo{{{shown}}} without impersonating a user name"


def old(resources: str, group: str = "core", names: str = "") -> dict[str, Any]:
    return rule(group, resources, "impersonate", names)


def new(mode: str, resources: str) -> dict[str, Any]:
    return rule("authentication.k8s.io", resources, f"impersonate:{mode}")


def on(mode: str, verb: str = "list") -> dict[str, Any]:
    return rule("*", "*", f"impersonate-on:{mode}:{verb}")


SA = "system:serviceaccount:foo:bar"
IDENTITY = "authentication.k8s.io"


@pytest.mark.parametrize(
    ("headers", "rules"),
    [
        pytest.param(as_("bob"), [old("users")], id="the older right on users"),
        pytest.param(as_("bob", groups=["g"]), [old("users groups", names="bob g")], id="the older right on names"),
        pytest.param(as_(SA), [old("serviceaccounts")], id="the older right on service accounts"),
        pytest.param(
            as_("bob", uid="u", extra=[("foo", "x")]),
            [old("users"), old("uids userextras/foo", "authentication.k8s.io")],
            id="the older right on uids and extras",
        ),
        pytest.param(as_("bob"), [new("user-info", "users"), on("user-info")], id="the constrained right"),
        pytest.param(
            as_(SA), [new("serviceaccount", "serviceaccounts"), on("serviceaccount")], id="the constrained one on an account"
        ),
        pytest.param(
            as_("system:node:n"), [new("arbitrary-node", "nodes"), on("arbitrary-node")], id="the constrained one on a node"
        ),
    ],
)
def test_either_right_is_enough(headers: Headers, rules: list[dict[str, Any]]) -> None:
    assert become(headers, *rules).name == headers[1][1]


def cannot(verb: str, resource: str, group: str, where: str = "at the cluster scope") -> str:
    return f'User "me" cannot {verb} resource "{resource}" in API group "{group}" {where}'


@pytest.mark.parametrize(
    ("headers", "rules", "message"),
    [
        pytest.param(
            as_("bob"),
            [],
            f"namespaces is forbidden: {cannot('impersonate-on:user-info:list', 'namespaces', '')}",
            id="no right at all",
        ),
        pytest.param(
            as_(SA),
            [],
            f"namespaces is forbidden: {cannot('impersonate-on:serviceaccount:list', 'namespaces', '')}",
            id="no right on a service account",
        ),
        pytest.param(
            as_("bob"),
            [on("user-info")],
            f'users.authentication.k8s.io "bob" is forbidden: {cannot("impersonate:user-info", "users", IDENTITY)}',
            id="allowed to act, but not as this user",
        ),
        pytest.param(
            as_("bob", groups=["g"]),
            [on("user-info"), new("user-info", "users")],
            f'groups.authentication.k8s.io "g" is forbidden: {cannot("impersonate:user-info", "groups", IDENTITY)}',
            id="not with this group",
        ),
        pytest.param(
            as_("bob", extra=[("foo", "x")]),
            [on("user-info"), new("user-info", "*")],
            f"userextras.authentication.k8s.io is forbidden: {cannot('impersonate:user-info', 'userextras', IDENTITY)}"
            ': impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "foo": '
            'must be a domain-prefixed path (such as "acme.io/foo")',
            id="an extra without a domain needs the older right",
        ),
        pytest.param(
            as_(SA, groups=["g"]),
            [on("serviceaccount")],
            f'serviceaccounts "bar" is forbidden: {cannot("impersonate", "serviceaccounts", "", "in the namespace")} "foo"',
            id="a service account with groups has only the older way",
        ),
        pytest.param(
            as_("bob", groups=["g"]),
            [old("users")],
            f"namespaces is forbidden: {cannot('impersonate-on:user-info:list', 'namespaces', '')}",
            id="half of the older right is told as none of the newer",
        ),
    ],
)
def test_a_refusal(headers: Headers, rules: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ApiError) as error:
        become(headers, *rules)
    assert (error.value.code, error.value.message) == (403, message)


def test_a_refusal_on_a_path_names_the_path() -> None:
    with pytest.raises(ApiError) as error:
        become(as_("bob"), attributes=Attributes("get", path="/version"))
    assert error.value.message == 'forbidden: User "me" cannot impersonate-on:user-info:get path "/version"'
