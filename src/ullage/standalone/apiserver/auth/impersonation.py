"""Acting as somebody else: the `Impersonate-*` headers, and who may send them.

Two ways lead to an impersonation. The constrained one asks for `impersonate-on:<mode>:<verb>` on what the request is
about, then for `impersonate:<mode>` on the identity; the older one asks for `impersonate` on each part of the identity and
nothing more. Either is enough. Where both refuse, the client is told about the constrained one, as kube-apiserver does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from ullage.standalone.apiserver.auth.rbac import Attributes, Authorizer, Decision, denied
from ullage.standalone.apiserver.auth.users import (
    ANONYMOUS_NAME,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    service_account_groups,
    service_account_of,
)
from ullage.standalone.apiserver.status import ApiError, bad_request, json_string

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"
_NODE = "system:node:"
_BAD_EXTRA = (
    "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {key}: "
    'must be a domain-prefixed path (such as "acme.io/foo")'
)


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
            key = unquote(name[len(_EXTRA) :]).lower()
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


def impersonate(user: User, wanted: Wanted, *, attributes: Attributes, authorizer: Authorizer) -> User:
    """The user that the request goes on as. Raises the 403 of a caller who may not act as them."""
    refusal = _refusal(user, _constrained(wanted, attributes), authorizer)
    if refusal is not None:
        legacy = _refusal(user, _legacy(wanted), authorizer)
        if legacy is not None:
            raise refusal if refusal is not _NO_MODE else legacy
    return User(wanted.name, uid=wanted.uid, groups=_groups(wanted), extra=wanted.extra)


# A request that no constrained mode covers, told apart from any real refusal by identity.
_NO_MODE = ApiError(403, "Forbidden", "no constrained mode covers this identity")

_Check = tuple[Attributes, str]  # what is asked; why it is refused out of hand ("" for: ask the authorizer)


def _refusal(user: User, checks: Iterator[_Check] | None, authorizer: Authorizer) -> ApiError | None:
    if checks is None:
        return _NO_MODE
    for attributes, fault in checks:
        decision = Decision(False, fault) if fault else authorizer.authorize(user, attributes)
        if not decision.allowed:
            return denied(user, attributes, decision)
    return None


def _constrained(wanted: Wanted, attributes: Attributes) -> Iterator[_Check] | None:
    account = service_account_of(wanted.name)
    bare = not (wanted.uid or wanted.groups or wanted.extra)
    if account is not None:
        namespace, name = account
        asked = Attributes(
            "impersonate:serviceaccount", group=_GROUP, resource="serviceaccounts", namespace=namespace, name=name
        )
        return _on("serviceaccount", attributes, [(asked, "")]) if bare else None
    if wanted.name.startswith(_NODE):
        node = wanted.name.removeprefix(_NODE)
        asked = Attributes("impersonate:arbitrary-node", group=_GROUP, resource="nodes", name=node)
        return _on("arbitrary-node", attributes, [(asked, "")]) if bare else None
    verb = "impersonate:user-info"
    checks: list[_Check] = [(Attributes(verb, group=_GROUP, resource="users", name=wanted.name), "")]
    checks += _parts(wanted, verb, groups_in=_GROUP, domain_keys_only=True)
    return _on("user-info", attributes, checks)


def _on(mode: str, attributes: Attributes, checks: Iterable[_Check]) -> Iterator[_Check]:
    yield replace(attributes, verb=f"impersonate-on:{mode}:{attributes.verb}"), ""
    yield from checks


def _legacy(wanted: Wanted) -> Iterator[_Check]:
    account = service_account_of(wanted.name)
    if account is not None:
        yield Attributes("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1]), ""
    else:
        yield Attributes("impersonate", resource="users", name=wanted.name), ""
    yield from _parts(wanted, "impersonate", groups_in="", domain_keys_only=False)


def _parts(wanted: Wanted, verb: str, *, groups_in: str, domain_keys_only: bool) -> Iterator[_Check]:
    if wanted.uid:
        yield Attributes(verb, group=_GROUP, resource="uids", name=wanted.uid), ""
    for group in wanted.groups:
        yield Attributes(verb, group=groups_in, resource="groups", name=group), ""
    for key, values in sorted(wanted.extra.items()):
        domain, slash, path = key.partition("/")
        if domain_keys_only and not (domain and slash and path):
            yield Attributes(verb, group=_GROUP, resource="userextras"), _BAD_EXTRA.format(key=json_string(key))
        for value in values:
            yield Attributes(verb, group=_GROUP, resource="userextras", subresource=key, name=value), ""


def _groups(wanted: Wanted) -> tuple[str, ...]:
    groups = wanted.groups
    account = service_account_of(wanted.name)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, UNAUTHENTICATED if wanted.name == ANONYMOUS_NAME else AUTHENTICATED)


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
