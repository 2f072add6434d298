"""The key that signs the stamps of Machines: in a Secret of our own namespace on the seed, shared by all replicas.

Whoever comes first makes it. It is followed, so that an administrator can change it without a restart: `accepted` holds the
other key that is believed meanwhile (`machines/signatures.py` says in which steps). A Secret that goes or cannot be read
changes nothing for those who have read it before: without a key every stamp would be wrong.
"""

from __future__ import annotations

import binascii
import logging
import secrets
from collections.abc import Callable
from typing import Final, Self

from ullage.errors import Retryable
from ullage.kube.builtin.core import SECRETS, Secret, secret_data
from ullage.kube.cache.cache import Cache
from ullage.kube.client.interface import ObjectClient
from ullage.kube.errors import AlreadyExists
from ullage.kube.identities import NAMESPACE
from ullage.kube.kinds import Meta
from ullage.kube.slices import Wiring
from ullage.projects.machines.signatures import KEY_BYTES, BadSigningKey, SigningKeys

logger = logging.getLogger(__name__)

STAMP_KEYS: Final = "ullage-machine-stamps"  # the Secret
SIGNS: Final = "signs"
ACCEPTED: Final = "accepted"


class NoSigningKey(Retryable):
    """The key was not read yet, so nobody can say which stamps are good."""


class StampKeys:
    """Open it with `async with` before anything is signed or verified."""

    def __init__(
        self, client: ObjectClient, found: Cache[Secret], *, new: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        """`found` follows the Secret; `new` gives so many random bytes."""
        self._client = client
        self._new = new
        self._current: SigningKeys | None = None
        self._handlers: list[Callable[[], None]] = []
        found.handle(self._changed)

    async def __aenter__(self) -> Self:
        self._take(read_keys(await self._read()))
        return self

    async def __aexit__(self, *_: object) -> None:
        """What was read stays: whoever is still at work may have to verify."""

    @property
    def current(self) -> SigningKeys:
        if self._current is None:
            raise NoSigningKey(f"secret {NAMESPACE}/{STAMP_KEYS} was not read yet")
        return self._current

    def handle(self, changed: Callable[[], None]) -> None:
        """Has it told when other keys sign, or are accepted."""
        self._handlers.append(changed)

    async def _read(self) -> Secret:
        there = await self._client.find(SECRETS, STAMP_KEYS, NAMESPACE)
        if there is not None:
            return there
        meta = Meta(name=STAMP_KEYS, namespace=NAMESPACE)
        try:
            return await self._client.create(SECRETS, Secret(metadata=meta, data=secret_data({SIGNS: self._new(KEY_BYTES)})))
        except AlreadyExists:
            there = await self._client.find(SECRETS, STAMP_KEYS, NAMESPACE)
            if there is None:
                raise NoSigningKey(f"secret {NAMESPACE}/{STAMP_KEYS} was there, and went again") from None
            return there

    def _changed(self, old: Secret | None, new: Secret | None) -> None:
        if new is None:
            if old is not None:
                logger.warning("the key of stamps was deleted: those who have read it go on", extra={"secret": STAMP_KEYS})
            return
        try:
            self._take(read_keys(new))
        except BadSigningKey as error:
            logger.error("the key of stamps cannot be used: the one of before is", extra={"error": str(error)})

    def _take(self, keys: SigningKeys) -> None:
        if keys != self._current:
            self._current = keys
            for handler in self._handlers:
                handler()


def read_keys(secret: Secret) -> SigningKeys:
    """Raises BadSigningKey, which shows nothing of what is in the Secret."""
    try:
        signs = secret.value(SIGNS)
        accepted = secret.value(ACCEPTED) if ACCEPTED in secret.data else None
    except (KeyError, binascii.Error):
        where = f"secret {secret.metadata.namespace}/{secret.metadata.name}"
        raise BadSigningKey(
            f"{where}: {SIGNS}, and {ACCEPTED} where there is one, are to be base64 of {KEY_BYTES} bytes"
        ) from None
    return SigningKeys(signs, accepted or None)


def stamp_keys(wiring: Wiring) -> StampKeys:
    """The ones of this process: `wiring.shared(stamp_keys)`."""
    made = StampKeys(wiring.client, wiring.secrets(STAMP_KEYS, namespace=NAMESPACE))
    wiring.hold(made)
    return made
