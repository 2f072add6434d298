"""Acting as somebody else: the `Impersonate-*` headers, and who may send them.

Whoever sends them needs the verb `impersonate` on each part of the identity: on the user or service account, on every group
(`system:masters` is one like any other), on the uid and on every value of every extra. There is no narrower right: what
kube-apiserver calls constrained impersonation is not served.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from ullage.standalone.apiserver.auth.rbac import Authorizer, denied
from ullage.standalone.apiserver.auth.rules import AccessAttributes
from ullage.standalone.apiserver.auth.users import (
    ANONYMOUS_NAME,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    service_account_groups,
    service_account_of,
)
from ullage.standalone.apiserver.status import bad_request, json_string

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_ESCAPES = re.compile(r"(?:[^%]|%[0-9a-f]{2})*")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The identity that a request asks to act as."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def requested(headers: Iterable[tuple[str, str]]) -> Wanted | None:
    """What the headers (lower-case names) ask for; None for nothing. Raises a 400 for parts without a user."""
    sent = [(name, value) for name, value in headers if name.startswith(_PREFIX)]
    if not sent:
        return None
    first = dict(reversed(sent))  # of a header sent twice, the first counts
    extra: dict[str, tuple[str, ...]] = {}
    for name, value in sent:
        if name.startswith(_EXTRA):
            key = _unescaped(name[len(_EXTRA) :].lower())
            extra[key] = (*extra.get(key, ()), value)
    wanted = Wanted(
        name=first.get("impersonate-user", ""),
        uid=first.get("impersonate-uid", ""),
        groups=tuple(value for name, value in sent if name == "impersonate-group"),
        extra=extra,
    )
    if wanted.name:
        return wanted
    if wanted.uid or wanted.groups or wanted.extra:
        raise bad_request(f"requested {_go_syntax(wanted)} without impersonating a user name")
    return None


def impersonate(user: User, wanted: Wanted, *, authorizer: Authorizer) -> User:
    """The user that the request goes on as. Raises the 403 of a caller who may not act as them."""
    for asked in _parts(wanted):
        decision = authorizer.authorize(user, asked)
        if not decision.allowed:
            raise denied(user, asked, decision)
    return User(wanted.name, uid=wanted.uid, groups=_groups(wanted), extra=wanted.extra)


def _parts(wanted: Wanted) -> Iterator[AccessAttributes]:
    """Every part of the identity, as the right to it is asked for."""
    account = service_account_of(wanted.name)
    if account is not None:
        yield AccessAttributes("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield AccessAttributes("impersonate", resource="users", name=wanted.name)
    for group in wanted.groups:
        yield AccessAttributes("impersonate", resource="groups", name=group)
    identity = AccessAttributes("impersonate", group="authentication.k8s.io", version="v1")
    for key, values in sorted(wanted.extra.items()):
        for value in values:
            yield replace(identity, resource="userextras", subresource=key, name=value)
    if wanted.uid:
        yield replace(identity, resource="uids", name=wanted.uid)


def _groups(wanted: Wanted) -> tuple[str, ...]:
    groups = wanted.groups
    account = service_account_of(wanted.name)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    if wanted.name == ANONYMOUS_NAME:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    return groups if AUTHENTICATED in groups or UNAUTHENTICATED in groups else (*groups, AUTHENTICATED)


def _unescaped(key: str) -> str:
    """A header's name holds no slash, so keys are escaped in it; one with a broken escape counts as it is."""
    return unquote(key) if _ESCAPES.fullmatch(key) else key


def _go_syntax(wanted: Wanted) -> str:
    """The identity as the server's own message shows it: a Go value."""
    groups = f"[]string{{{', '.join(json_string(group) for group in wanted.groups)}}}" if wanted.groups else "[]string(nil)"
    extra = "map[string][]string(nil)"
    if wanted.extra:
        pairs = (
            f"{json_string(key)}:[]string{{{', '.join(json_string(value) for value in values)}}}"
            for key, values in sorted(wanted.extra.items())
        )
        extra = f"map[string][]string{{{', '.join(pairs)}}}"
    return f'&user.DefaultInfo{{Name:"", UID:{json_string(wanted.uid)}, Groups:{groups}, Extra:{extra}}}'
