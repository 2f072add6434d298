"""Keeps the paths of our own cluster's hooks: carries out the steps of `paths.py` on the Secret that all replicas share, on the
registration, and on what this replica serves.

Nothing here says a path: not in a log, an error or a metric.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

import msgspec

from ullage.admission.callers import HOOKS, split_path
from ullage.admission.paths import (
    KEY_BYTES,
    BadPaths,
    Paths,
    PathState,
    PathStep,
    PathTerms,
    RegisteredPaths,
    apply_path_step,
    find_registered,
    from_secret,
    initial_paths,
    latest,
    next_path_step,
    to_secret,
)
from ullage.admission.registration import Published, Registration, entry_name
from ullage.clock import Clock
from ullage.errors import UllageError
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.client.client import Client
from ullage.kube.errors import AlreadyExists, Conflict
from ullage.kube.kinds import Meta
from ullage.serving.rotation import CONFLICT_PAUSE, LABELS, SecretName

logger = logging.getLogger(__name__)

OWN_SECRET: Final = replace(SECRETS, whole=True)  # only this code writes it, so it has no field that the type does not name
MOST_STEPS: Final = 20  # in a row; a replica that starts is not kept by another one that undoes its steps


class PathRotation:
    """One per replica. `new` gives so many random bytes."""

    def __init__(
        self,
        client: Client,
        paths: Paths,
        *,
        secret_name: SecretName,
        registered: Registration,
        terms: PathTerms,
        new: Callable[[int], bytes],
        clock: Clock,
    ) -> None:
        self._client = client
        self._paths = paths
        self._secret_name = secret_name
        self._registration = registered
        self._terms = terms
        self._new = new
        self._clock = clock
        self._state: PathState | None = None
        self._former: PathState | None = None  # with another key, and until when it is served
        self._former_ends = 0.0
        self._seen: tuple[PathState, RegisteredPaths] | None = None
        self._since = 0.0
        self._burned: int | None = None
        self._starting = True
        self._plain_settled = False
        self._news = asyncio.Event()

    def was_away(self) -> None:
        """An API server may have printed a path: there are new ones soon."""
        if self._state is not None and self._burned != self._state.number:
            self._burned = self._state.number
            self._news.set()

    async def open(self, look: Callable[[], Awaitable[Published]]) -> None:
        """Reads or makes the paths that are served, before anything is. What is registered at the start may have been printed
        while nothing was served, so it is followed by new paths at once."""
        for _ in range(MOST_STEPS):
            try:
                step = await self._round(await look(), publish=None)
            except Conflict:
                await asyncio.sleep(CONFLICT_PAUSE)
                continue
            if step is None or step is PathStep.PUBLISH:
                break
        self._starting = False

    async def tokens(self, seen: Published) -> dict[str, str]:
        """The tokens to register, by hook. `seen` must have been read before this is called: a number that was read from the
        Secret before another replica registered a newer one must not replace that."""
        state = await self._read()
        found = self._registered(state, seen)
        if found.plain and not found.numbers and not self._plain_settled:
            return {}
        return {hook.name: state.token(hook.name) for hook in self._registration.hooks}

    async def run(
        self, every: float, *, look: Callable[[], Awaitable[Published]], publish: Callable[[], Awaitable[None]]
    ) -> None:
        """Rounds for ever. An API server that is away, or a Secret that was spoilt, leaves what is served as it is."""
        while True:
            pause = every
            self._news.clear()
            try:
                if await self._round(await look(), publish=publish) is not None:
                    pause = CONFLICT_PAUSE
            except Conflict:
                pause = CONFLICT_PAUSE
            except UllageError as error:
                logger.warning("paths of hooks not looked after", extra={"error": str(error)})
            except Exception:
                logger.exception("paths of hooks not looked after")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), pause)

    async def _round(self, seen: Published, *, publish: Callable[[], Awaitable[None]] | None) -> PathStep | None:
        """One look at the Secret and at most one step."""
        secret = await self._secret()
        state = self._load(secret)
        found = self._registered(state, seen)
        if self._starting and self._burned is None:
            self._burned = max(found.numbers, default=None)
        watched = self._watched(state, found)
        self._plain_settled = watched >= self._terms.settle
        if state != _stored(secret):  # it was rolled back
            step, changed = PathStep.CATCH_UP, state
        else:
            starting, burned = self._starting, self._burned
            wanted = next_path_step(state, found, self._terms, watched=watched, burned=burned, starting=starting)
            if wanted is None:
                return None
            step, changed = wanted, apply_path_step(wanted, state, found, key=self._new(KEY_BYTES))
        if step is PathStep.PUBLISH:
            if publish is None:
                return step
            await publish()
        else:
            await self._client.update(OWN_SECRET, msgspec.structs.replace(secret, data=secret_data(to_secret(changed))))
            self._use(changed)
        logger.info("paths of hooks: %s", step.value, extra={"step": step.name})
        return step

    async def _read(self) -> PathState:
        return self._load(await self._secret())

    async def _secret(self) -> Secret:
        name = self._secret_name
        found = await self._client.find(OWN_SECRET, name.name, name.namespace)
        if found is not None:
            return found
        # If it was deleted, what API servers ask under is better than something new.
        state = self._state or initial_paths(self._new(KEY_BYTES))
        meta = Meta(name=name.name, namespace=name.namespace, labels=LABELS)
        try:
            return await self._client.create(OWN_SECRET, Secret(metadata=meta, data=secret_data(to_secret(state))))
        except AlreadyExists:
            return await self._client.get(OWN_SECRET, name.name, name.namespace)

    def _load(self, secret: Secret) -> PathState:
        try:
            read = _stored(secret)
        except BadPaths as error:
            raise BadPaths(f"secret {self._secret_name.namespace}/{self._secret_name.name}: {error}") from None
        return self._use(latest(self._state, read))

    def _use(self, state: PathState) -> PathState:
        """Serves it. Where the key is another one, what was served before is served for as long as former paths are."""
        now = self._clock.monotonic()
        if self._state is not None and self._state.key != state.key:
            self._former, self._former_ends = self._state, now + self._terms.keep
        if self._former is not None and now >= self._former_ends:
            self._former = None
        self._state = state
        self._paths.serve(state, *([self._former] if self._former is not None else ()))
        return state

    def _registered(self, state: PathState, seen: Published) -> RegisteredPaths:
        hooks = {entry_name(hook): hook.name for hook in self._registration.hooks}
        return find_registered(
            state,
            [
                (hook, _token(hook, entry.get("clientConfig") or {}))
                for configuration in seen.found.values()
                for entry in configuration.webhooks
                if (hook := hooks.get(entry.get("name", ""))) is not None
            ],
        )

    def _watched(self, state: PathState, found: RegisteredPaths) -> float:
        now = self._clock.monotonic()
        if self._seen != (state, found):
            self._seen, self._since = (state, found), now
        return now - self._since


def _stored(secret: Secret) -> PathState:
    try:
        return from_secret({key: secret.value(key) for key in secret.data})
    except binascii.Error:
        raise BadPaths("it holds what is no base64") from None


def _token(hook: str, config: dict[str, object]) -> str | None:
    """The token of a registered path: "" for none, None for a path that is not the hook's."""
    service = config.get("service")
    path = service.get("path") if isinstance(service, dict) else urlsplit(str(config.get("url") or "")).path
    _, mark, rest = str(path or "").rpartition(HOOKS)  # the URL may have a path of its own before it
    name, token = split_path(mark + rest)
    return token if name == hook else None
