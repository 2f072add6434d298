"""The clusters that a process follows besides its own: by name, each with a kubeconfig from a Secret.

A Secret that changes makes a new client, and everything is read anew with it: what was read with the old one may be of another
cluster. A Secret that is gone or cannot be used changes nothing: who could be reached before still is, and it is said what is
wrong. A cluster goes only when somebody says so.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Self

from ullage.clock import Clock, SystemClock
from ullage.errors import UllageError
from ullage.kube.builtin.core import Secret
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.client.client import Client
from ullage.kube.client.config import BadConfig, Config
from ullage.kube.clusters.cluster import Cluster, Reach, short
from ullage.kube.kinds import Kind
from ullage.kube.metrics import Metrics
from ullage.kube.read_limits import ReadLimits
from ullage.names import is_label

logger = logging.getLogger(__name__)

KUBECONFIG: Final = "kubeconfig"  # the key in the Secret

Handler = Callable[[str, Cluster | None], None]
"""Told of a cluster that can be used from now on; or None, of one that cannot be used any more, or not with that client."""


class Clusters:
    """`open` makes a client of a config; it is opened here, and closed. `limits` are what is taken from each cluster that is
    not believed."""

    def __init__(
        self,
        open: Callable[[Config], Client],
        *,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        limits: ReadLimits | None = None,
    ) -> None:
        self._open = open
        self._limits = limits or ReadLimits()
        self._clock = clock or SystemClock()
        self._metrics = metrics
        self._kinds: frozenset[Kind[Any]] = frozenset()
        self._followed: dict[str, _Followed] = {}
        self._heard: dict[int, Cache[Secret]] = {}  # the caches of Secrets that tell us of changes
        self._by_secret: defaultdict[tuple[int, Key], set[str]] = defaultdict(set)
        self._handlers: list[Handler] = []
        self._ending: dict[str, asyncio.Task[None]] = {}  # of those that were removed
        self._running = False

    async def __aenter__(self) -> Self:
        self._running = True
        for followed in self._followed.values():
            self._start(followed)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running = False
        for name in list(self._followed):
            self.remove(name)
        await asyncio.gather(*self._ending.values(), return_exceptions=True)

    def watch(self, *kinds: Kind[Any]) -> None:
        """Says what may be watched in the clusters."""
        self._kinds |= frozenset(kinds)

    # --- which there are ---

    def follow(self, name: str, secrets: Cache[Secret], secret: Key, *, trusted: bool = False) -> None:
        """Has a cluster followed, with the kubeconfig in a Secret. To say it again changes nothing, unless it is another.
        One that is trusted is administered by those who administer ours: whatever it sends is taken."""
        if not is_label(name):
            raise ValueError(f"{name!r}: a cluster is called by lower-case letters, digits and dashes, 63 at most")
        known = self._followed.get(name)
        if known is not None and (known.secrets, known.secret) == (secrets, secret):
            return
        if known is not None:
            self.remove(name)
        if id(secrets) not in self._heard:
            self._heard[id(secrets)] = secrets
            secrets.handle(lambda old, new: self._changed(secrets, old or new))
        self._followed[name] = _Followed(name, secrets, secret, limits=None if trusted else self._limits)
        self._by_secret[id(secrets), secret].add(name)
        if self._running:
            self._start(self._followed[name])

    def remove(self, name: str) -> None:
        """Somebody has removed the cluster on purpose: it is not followed any more."""
        followed = self._followed.pop(name, None)
        if followed is None:
            return
        place = id(followed.secrets), followed.secret
        self._by_secret[place].discard(name)
        if not self._by_secret[place]:
            del self._by_secret[place]
        if followed.cluster is not None:
            self._tell(name, None)
        if followed.task is not None:
            ending = asyncio.create_task(_ended(followed.task, self._ending.get(name)), name=f"end of {name}")
            self._ending[name] = ending
            ending.add_done_callback(lambda done: self._forget(name, done))

    # --- how they are ---

    def __contains__(self, name: object) -> bool:
        return name in self._followed

    @property
    def names(self) -> list[str]:
        return sorted(self._followed)

    def get(self, name: str) -> Cluster | None:
        """A cluster that has credentials which can be used. Whether it can be reached is another matter."""
        followed = self._followed.get(name)
        return followed.cluster if followed else None

    def reach(self, name: str) -> Reach:
        """Raises KeyError for one that is not followed."""
        return self._followed[name].reach

    def handle(self, handler: Handler) -> None:
        """Has it told when clusters come and go. A handler that comes late is told first of what is there."""
        self._handlers.append(handler)
        for name, followed in self._followed.items():
            if followed.cluster is not None:
                handler(name, followed.cluster)

    # --- inside ---

    def _tell(self, name: str, cluster: Cluster | None) -> None:
        for handler in self._handlers:
            try:
                handler(name, cluster)
            except Exception:  # one handler's bug must not keep the others from learning
                logger.exception("handler failed", extra={"cluster": name})

    def _changed(self, secrets: Cache[Secret], secret: Secret | None) -> None:
        if secret is None:
            return
        key = Key(secret.metadata.namespace, secret.metadata.name)
        for name in self._by_secret.get((id(secrets), key), ()):
            self._followed[name].changed.set()

    def _start(self, followed: _Followed) -> None:
        followed.task = asyncio.create_task(self._run(followed), name=f"cluster {followed.name}")

    async def _run(self, followed: _Followed) -> None:
        """Goes on until it is cancelled."""
        if (former := self._ending.get(followed.name)) is not None:
            await asyncio.shield(former)  # else it would take the numbers of this one with it
        await followed.secrets.synced.wait()
        used: Config | None = None
        async with contextlib.AsyncExitStack() as opened:
            while True:
                followed.changed.clear()
                try:
                    config = followed.config()
                    followed.error = ""
                    if config != used:
                        await self._close(followed, opened)
                        used = config
                        await self._connect(followed, config, opened)
                except UllageError as error:
                    followed.error = short(str(error))
                    logger.warning(
                        "cluster has no credentials that can be used", extra={"cluster": followed.name, "error": followed.error}
                    )
                except Exception as error:  # whatever is wrong with it, the others go on
                    followed.error = f"{type(error).__name__} while its client was made"
                    logger.exception("cluster has no client", extra={"cluster": followed.name})
                await followed.changed.wait()

    def _forget(self, name: str, ended: asyncio.Task[None]) -> None:
        """Names of clusters are not used again: what is kept of each would be kept for good."""
        if self._ending.get(name) is ended:
            del self._ending[name]

    async def _close(self, followed: _Followed, opened: contextlib.AsyncExitStack) -> None:
        if followed.cluster is not None:
            followed.cluster = None
            self._tell(followed.name, None)
        await opened.aclose()

    async def _connect(self, followed: _Followed, config: Config, opened: contextlib.AsyncExitStack) -> None:
        made = Cluster(
            followed.name,
            self._open(config),
            kinds=self._kinds,
            clock=self._clock,
            metrics=self._metrics,
            limits=followed.limits,
        )
        followed.cluster = await opened.enter_async_context(made)
        logger.info("cluster is followed", extra={"cluster": followed.name, "server": config.server})
        self._tell(followed.name, followed.cluster)


async def _ended(task: asyncio.Task[None], former: asyncio.Task[None] | None) -> None:
    """A cluster is closed, and so is the one that had its name before."""
    task.cancel()
    await asyncio.gather(task, *([former] if former else []), return_exceptions=True)


class _Followed:
    """A cluster that is to be followed, with what is known of its Secret."""

    def __init__(self, name: str, secrets: Cache[Secret], secret: Key, *, limits: ReadLimits | None) -> None:
        self.name = name
        self.limits = limits
        self.secrets = secrets
        self.secret = secret
        self.cluster: Cluster | None = None
        self.error = ""
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def config(self) -> Config:
        where = f"secret {self.secret.namespace}/{self.secret.name}"
        found = self.secrets.get(self.secret)
        if found is None:
            raise BadConfig(where, KUBECONFIG, "there is no such Secret")
        if KUBECONFIG not in found.data:
            raise BadConfig(where, KUBECONFIG, "it has no such key")
        try:
            text = found.value(KUBECONFIG)
        except binascii.Error:
            raise BadConfig(where, KUBECONFIG, "this is not base64") from None
        return replace(Config.foreign(text, where=where), limits=self.limits)

    @property
    def reach(self) -> Reach:
        found = self.cluster.reach if self.cluster is not None else Reach(reachable=False)
        if not self.error:
            return found if self.cluster is not None else Reach(reachable=False, error="its Secret has not been read yet")
        return Reach(found.reachable, found.heard, self.error)
