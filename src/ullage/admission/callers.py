"""Which clusters ask, and how a request shows which it comes from: by a token in the path that is registered there.

An API server that is registered by URL shows nobody who it is, and whoever reaches the port can post reviews. So each cluster
is given a path that nobody else can guess: a code over its name, made with a key that all replicas share and that never
leaves the Secret that it is kept in. Whoever may read the registration in a cluster knows the path, and can speak for that
cluster and for no other.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ullage.errors import Retryable, Terminal
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists
from ullage.kube.kinds import Meta
from ullage.kube.review import Hook

HOOKS: Final = "/hooks/"
CLUSTERS: Final = "/clusters/"
KEY: Final = "key"  # in the Secret
KEY_BYTES: Final = 32


class BadKey(Terminal):
    """The Secret is there, and has no key that can be used. Whoever deletes it gets a new one, and all paths change."""


class NotFollowed(Retryable):
    """A cluster asks that is not followed: not any more, or not yet."""

    retry_after = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Caller:
    """A cluster, and the token that its registration has."""

    cluster: str
    token: str = field(repr=False)


def path_of(hook: Hook, caller: Caller | None = None, *, token: str = "") -> str:
    """Where a hook is asked: by our own API servers, under a token of `paths.py`, or by those of another cluster."""
    path = f"{HOOKS}{hook.name}"
    if caller is not None:
        return f"{path}{CLUSTERS}{caller.cluster}/{caller.token}"
    return f"{path}/{token}" if token else path


def split_path(path: str) -> tuple[str, str]:
    """The hook and the token of a path of our own cluster's; no hook where it is another path."""
    if not path.startswith(HOOKS):
        return "", ""
    name, mark, token = path.removeprefix(HOOKS).partition("/")
    return ("", "") if mark and not token else (name, token)


class Callers:
    """`followed` says whether a cluster is among those that are answered now, and `why_not` what the others are told."""

    def __init__(self, key: bytes, followed: Callable[[str], bool], *, why_not: Callable[[str], str] = str) -> None:
        if len(key) < KEY_BYTES:
            raise BadKey(f"a key has {KEY_BYTES} bytes at least, not {len(key)}")
        self._key = key
        self._followed = followed
        self._why_not = why_not

    def caller(self, cluster: str) -> Caller:
        return Caller(cluster, hmac.new(self._key, f"cluster/{cluster}".encode(), hashlib.sha256).hexdigest())

    def is_known(self, cluster: str, token: str) -> bool:
        """Whether a request comes from the registration in that cluster. It takes as long for any token."""
        expected = self.caller(cluster).token
        return hmac.compare_digest(expected.encode(), token.encode("utf-8", "replace")) and bool(cluster)

    def must_follow(self, cluster: str) -> None:
        """Raises NotFollowed for a cluster whose registration outlives what it was made for."""
        if not self._followed(cluster):
            raise NotFollowed(self._why_not(cluster))


async def read_key(client: Client, *, namespace: str, name: str, new: Callable[[int], bytes]) -> bytes:
    """The key that all replicas share; whoever comes first makes it. `new` gives so many random bytes."""
    found = await client.find(SECRETS, name, namespace)
    if found is None:
        wanted = Secret(metadata=Meta(name=name, namespace=namespace), data=secret_data({KEY: new(KEY_BYTES)}))
        try:
            found = await client.create(SECRETS, wanted)
        except AlreadyExists:
            found = await client.get(SECRETS, name, namespace)
    try:
        key = found.value(KEY)
    except (KeyError, binascii.Error):
        raise BadKey(f"secret {namespace}/{name}: it has no {KEY} that can be read") from None
    if len(key) < KEY_BYTES:
        raise BadKey(f"secret {namespace}/{name}: its {KEY} has {len(key)} bytes, and needs {KEY_BYTES}")
    return key
