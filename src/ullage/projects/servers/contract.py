"""What is asked of a provider: which of some Machines have a server, known by the uid that machine-controller wrote on it.

The uid is made by the API server of the user cluster, which is out of its administrator's reach. Regions and zones that a
Machine names are not: so a provider is asked everywhere in the account, and not where a Machine says that its server is. Asking
changes nothing. What goes wrong is a NotAnswered, and never "gone": a page that is missing could have the server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Final, Protocol

from ullage.projects.sizes.lookups import ANYWHERE, Site
from ullage.projects.sizes.providers.contract import Credentials, NotAnswered, inside

MOST_PAGES: Final = 60  # of one question
CHUNK: Final = 25  # uids in one filter: an address has an end


class ServerSource(Protocol):
    """One cloud. `source` is the call that it is asked with."""

    source: str

    async def present(self, uids: Collection[str], credentials: Credentials, *, site: Site = ANYWHERE) -> frozenset[str]:
        """Those of the Machines that have a server, in whatever state it is. `site` is where those of
        the cluster are made: its address where each cloud has its own, and a region that is known to be one. Raises
        NotAnswered."""


async def found_in(uids: Collection[str], marks: AsyncGenerator[Iterable[str], None]) -> frozenset[str]:
    """Those of the uids that are among the marks of any page."""
    wanted, found, number = frozenset(uids), set[str](), 0
    async with aclosing(marks):
        async for page in marks:
            number += 1
            if number > MOST_PAGES:
                raise NotAnswered(f"it has more than {MOST_PAGES} pages of servers")
            found |= wanted.intersection(page)
    return frozenset(found)


def listed(answer: object, *path: str) -> list[object]:
    """The list at a place in an answer. An answer that has none there is not one about servers."""
    found = inside(answer, *path)
    if not isinstance(found, list):
        raise NotAnswered(f"its answer cannot be read: {'.'.join(path)} is no list")
    return found


def texts(found: object) -> Iterator[str]:
    """The texts of a list; none where it is no list."""
    return (one for one in found if isinstance(one, str)) if isinstance(found, list) else iter(())


def value_of(server: object, *path: str) -> Iterator[str]:
    """The text at a place in what is said of a server; none where there is none."""
    found = inside(server, *path)
    if isinstance(found, str):
        yield found


def chunks(uids: Iterable[str], size: int = CHUNK) -> Iterator[list[str]]:
    ordered = sorted(uids)
    return (ordered[start : start + size] for start in range(0, len(ordered), size))


def part(answer: object, name: str) -> Mapping[object, object]:
    """An object in an answer; an empty one where there is none."""
    found = inside(answer, name)
    return found if isinstance(found, Mapping) else {}
