"""Acting as somebody else: what the headers ask for, who may, and how the rest are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.standalone.apiserver.auth.rbac_builders import authorizer_of, bind, role, rule, user
from ullage.standalone.apiserver.auth.impersonation import impersonate, requested
from ullage.standalone.apiserver.auth.users import User
from ullage.standalone.apiserver.status import ApiError

Headers = list[tuple[str, str]]
ROOT = User("root", groups=("system:masters",))


def as_(name: str, **parts: Any) -> Headers:
    """`groups` and `extra` as the headers that would carry them, in the server's own case."""
    headers = [("accept", "*/*"), ("impersonate-user", name)]
    headers += [("impersonate-group", group) for group in parts.get("groups", ())]
    headers += [("impersonate-uid", parts["uid"])] if "uid" in parts else []
    return headers + [(f"impersonate-extra-{key}", value) for key, value in parts.get("extra", ())]


def become(headers: Headers, *rules: dict[str, Any], who: User | None = None) -> User:
    wanted = requested(headers)
    assert wanted is not None
    authorizer = authorizer_of(role("r", *rules), bind("ClusterRole", "r", "User me"))
    return impersonate(who or user("me"), wanted, authorizer=authorizer)


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
            as_("system:anonymous", groups=["system:authenticated"]),
            User("system:anonymous", groups=("system:authenticated", "system:unauthenticated")),
            id="nobody stays nobody, whatever the groups",
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


def may(resources: str, group: str = "core", names: str = "") -> dict[str, Any]:
    return rule(group, resources, "impersonate", names)


SA = "system:serviceaccount:foo:bar"
IDENTITY = "authentication.k8s.io"


@pytest.mark.parametrize(
    ("headers", "rules"),
    [
        pytest.param(as_("bob"), [may("users")], id="on users"),
        pytest.param(as_("bob", groups=["g"]), [may("users groups", names="bob g")], id="on names of users and groups"),
        pytest.param(as_(SA), [may("serviceaccounts")], id="on service accounts"),
        pytest.param(
            as_("bob", uid="u", extra=[("foo", "x")]),
            [may("users"), may("uids userextras/foo", IDENTITY)],
            id="on uids and extras",
        ),
        pytest.param(
            as_("bob", groups=["system:masters"]), [may("users groups", names="bob system:masters")], id="on the masters"
        ),
    ],
)
def test_the_right_to_every_part_is_enough(headers: Headers, rules: list[dict[str, Any]]) -> None:
    assert become(headers, *rules).name == headers[1][1]


def cannot(resource: str, group: str, where: str = "at the cluster scope") -> str:
    return f'User "me" cannot impersonate resource "{resource}" in API group "{group}" {where}'


USERS = f'users "bob" is forbidden: {cannot("users", "")}'
MASTERS = f'groups "system:masters" is forbidden: {cannot("groups", "")}'


@pytest.mark.parametrize(
    ("headers", "rules", "message"),
    [
        pytest.param(as_("bob"), [], USERS, id="no right at all"),
        pytest.param(as_("bob"), [may("users", names="eve")], USERS, id="the right to another"),
        pytest.param(
            as_(SA),
            [may("users")],
            f'serviceaccounts "bar" is forbidden: {cannot("serviceaccounts", "", "in the namespace")} "foo"',
            id="no right on a service account",
        ),
        pytest.param(
            as_("bob", groups=["g"]), [may("users")], f'groups "g" is forbidden: {cannot("groups", "")}', id="not with a group"
        ),
        pytest.param(
            as_("bob", groups=["g", "system:masters"]),
            [may("users groups", names="bob g")],
            MASTERS,
            id="not as a master, behind another group",
        ),
        pytest.param(
            as_("bob", uid="u"),
            [may("users")],
            f'uids.authentication.k8s.io "u" is forbidden: {cannot("uids", IDENTITY)}',
            id="not with a uid",
        ),
        pytest.param(
            as_("bob", extra=[("foo", "x")]),
            [may("users"), may("userextras/bar userextras", IDENTITY)],
            f'userextras.authentication.k8s.io "x" is forbidden: {cannot("userextras/foo", IDENTITY)}',
            id="not with this extra",
        ),
        pytest.param(
            as_("bob", groups=["system:masters"]),
            [
                rule("*", "*", "impersonate-on:user-info:list impersonate-on:user-info:get"),
                rule(IDENTITY, "users groups", "impersonate:user-info"),
            ],
            USERS,
            id="rights of a constrained impersonation give nothing",
        ),
        pytest.param(
            as_("system:node:n"),
            [rule("*", "*", "impersonate-on:arbitrary-node:list"), rule(IDENTITY, "nodes", "impersonate:arbitrary-node")],
            f'users "system:node:n" is forbidden: {cannot("users", "")}',
            id="nor do those on a node",
        ),
    ],
)
def test_a_refusal(headers: Headers, rules: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ApiError) as error:
        become(headers, *rules)
    assert (error.value.code, error.value.message) == (403, message)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param("acme.com%2Fproject", "acme.com/project", id="an escaped slash"),
        pytest.param("ACME", "acme", id="letters are small"),
        pytest.param("%41cme", "Acme", id="but for escaped ones"),
        pytest.param("a%2Fb%zz", "a%2fb%zz", id="a broken escape leaves the key as it is"),
    ],
)
def test_keys_of_extras(name: str, key: str) -> None:
    wanted = requested(as_("bob", extra=[(name, "x")]))
    assert wanted is not None
    assert dict(wanted.extra) == {key: ("x",)}
