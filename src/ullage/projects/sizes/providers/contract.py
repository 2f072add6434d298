"""What the catalogue asks of a provider, and what a provider is asked with.

Asking changes nothing, so it may be done again at any time. What goes wrong is a `NotAnswered`, whose text is shown to users in
refusals and to everybody who may list catalogues: it names the host, the status and the key of the Secret, and never a value.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final, Protocol

from ullage.errors import BadInput, Retryable
from ullage.projects.sizes.answers import decode
from ullage.projects.sizes.catalogue import MOST_FLAVOURS, Flavour, Place

logger = logging.getLogger(__name__)

MOST_PAGES: Final = 60
EXTRA: Final = "pip install 'ullage[clouds]'"


class NotAnswered(Retryable):
    """A provider was not asked, or has not answered with flavours: why."""


class Credentials:
    """The values of a Secret, by key. They are in no text that is made of it."""

    def __init__(self, reference: str, values: Mapping[str, str]) -> None:
        self._reference = reference
        self._values = values

    def __repr__(self) -> str:
        return f"Credentials({self._reference})"

    def get(self, key: str) -> str:
        """Without the space around it that files leave behind; empty where there is none."""
        return self._values.get(key, "").strip()

    def needed(self, key: str) -> str:
        found = self.get(key)
        if not found:
            raise NotAnswered(f"Secret {self._reference} has no {key}")
        return found


class Provider(Protocol):
    """One cloud. `source` is the call that it is asked with, as catalogues show it."""

    source: str

    async def flavours(self, place: Place, credentials: Credentials) -> Mapping[str, Flavour]:
        """All flavours at a place. Raises NotAnswered."""


async def collect(provider: str, pages: AsyncGenerator[object, None]) -> Mapping[str, Flavour]:
    """The flavours of all pages of an answer. An entry that cannot be read is left out, and logged."""
    found: dict[str, Flavour] = {}
    number = 0
    async with aclosing(pages):
        async for page in pages:
            number += 1
            if number > MOST_PAGES:
                raise NotAnswered(f"it has more than {MOST_PAGES} pages of flavours")
            found |= _read(provider, page)
            if len(found) > MOST_FLAVOURS:
                raise NotAnswered(f"it has more than {MOST_FLAVOURS} flavours")
    if not found:
        raise NotAnswered("it has no flavours there: is the region right?")
    return found


def _read(provider: str, page: object) -> Mapping[str, Flavour]:
    try:
        read = decode(provider, page)
    except BadInput as error:
        raise NotAnswered(f"its answer cannot be read: {error}") from error
    if read.skips:
        about = {"provider": provider, "skipped": read.skips, "first": read.skipped[0]}
        logger.warning("flavours of a provider could not be read", extra=about)
    return read.flavours


def inside(answer: object, *path: str) -> object:
    """What is at a place in an answer; None where there is nothing."""
    for name in path:
        answer = answer.get(name) if isinstance(answer, Mapping) else None
    return answer


def text_inside(answer: object, *path: str) -> str:
    """A text at a place in an answer; empty where there is none."""
    found = inside(answer, *path)
    return found if isinstance(found, str) else ""
