"""A volume's lock, and what is known of it in memory: one caller at a time works on it.

What is known comes from the disk and is dropped whenever a call does not end as it should: the next one reads the disk
again, and goes on with what really happened there. The lock is fair, so a purge that takes it anew for each piece of its
work delays others by one piece at most.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from ullage.engines.chain import HEAD
from ullage.engines.local.store import tree, views
from ullage.engines.local.store.directory import VolumeDirectory
from ullage.engines.local.store.errors import NotFound, Refused, unavailable
from ullage.engines.local.store.index import Index
from ullage.engines.local.store.record import BLOCK, Record
from ullage.engines.local.store.spans import Span, total, union
from ullage.engines.merging import merges_of
from ullage.errors import BadInput

_READ_AT_ONCE: Final = 4  # snapshots of a volume whose index is kept


@dataclass(slots=True)
class LiveState:
    """A volume in memory."""

    record: Record
    index: Index  # of the head's chain
    blocks: dict[str, int]  # how many each layer holds
    indexes: dict[str, Index] = field(default_factory=dict)  # of snapshots that somebody reads, until a layer goes
    unions: dict[tuple[str, ...], int] = field(default_factory=dict)  # blocks of several layers together, likewise

    def sizes(self) -> dict[str, int]:
        """Bytes that each layer holds."""
        return {layer: count * BLOCK for layer, count in self.blocks.items()}


class LockedState:
    """One volume's lock, files and memory."""

    def __init__(self, directory: VolumeDirectory, name: str) -> None:
        self.directory = directory
        self.name = name
        self.making: set[str] = set()  # paths of layers that are not named by a record yet
        self._lock = FairLock()
        self._live: LiveState | None = None
        self._closed = False

    @contextmanager
    def locked(self) -> Iterator[LiveState]:
        """Alone with the volume. What the block changes in memory it changes after the disk."""
        with self._lock:
            if self._closed:
                raise NotFound(f"volume {self.name} is not there any more")
            try:
                if self._live is None:
                    self._live = self._load()
                yield self._live
            except (Refused, BadInput):
                raise  # said before anything was changed
            except OSError as error:
                self._live = None
                raise unavailable(error, f"volume {self.name}") from error
            except BaseException:
                self._live = None
                raise

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Nobody works on it any more if the block ends well."""
        with self._lock:
            yield
            self._closed = True
            self._live = None

    def index_of(self, live: LiveState, snapshot: str) -> Index:
        """What a snapshot is read through."""
        if snapshot not in live.indexes:
            if len(live.indexes) == _READ_AT_ONCE:
                del live.indexes[next(iter(live.indexes))]
            live.indexes[snapshot] = _index(
                (layer, self.directory.held(self.directory.path(live.record, layer)))
                for layer in tree.chain(live.record, snapshot)[::-1]
            )
        return live.indexes[snapshot]

    def merged_sizes(self, live: LiveState) -> dict[str, int]:
        """Bytes that layers will hold when those below that are marked have been merged into them; of others, nothing. What
        snapshots hold together does not change while they are merged, so it is worked out once."""
        layers: dict[str, list[str]] = {}
        for removed, heir in merges_of(views.entries(live.record, live.sizes())).heirs.items():
            layers.setdefault(heir, [heir]).append(removed)
        found: dict[str, int] = {}
        for heir, together in layers.items():
            if heir == HEAD:  # these are the highest of its chain, so nothing hides what they hold
                found[heir] = live.index.count(together) * BLOCK
                continue
            key = tuple(together)
            if key not in live.unions:
                held = (self.directory.held(self.directory.path(live.record, layer)) for layer in together)
                live.unions[key] = total(union(*held))
            found[heir] = live.unions[key] * BLOCK
        return found

    def measure(self, live: LiveState) -> None:
        """Learns the head's chain anew, from the files."""
        live.index = _index(
            (layer, self.directory.held(self.directory.path(live.record, layer))) for layer in tree.chain(live.record)[::-1]
        )

    def read(self, live: LiveState, index: Index, *, offset: int, length: int) -> bytes:
        """Through a chain. What no layer holds is zeros."""
        result = bytearray(length)
        end = offset + length
        for run in index.runs(Span(offset // BLOCK, -(-end // BLOCK))):
            if run.layer is not None:
                start, stop = max(offset, run.start * BLOCK), min(end, run.end * BLOCK)
                data = self.directory.read(self.directory.path(live.record, run.layer), offset=start, length=stop - start)
                result[start - offset : start - offset + len(data)] = data
        return bytes(result)

    def _load(self) -> LiveState:
        record = self.directory.load()
        self.directory.sweep(record, making=self.making)
        held = {layer: self.directory.held(self.directory.path(record, layer)) for layer in (*record.snapshots, HEAD)}
        index = _index((layer, held[layer]) for layer in tree.chain(record)[::-1])
        return LiveState(record=record, index=index, blocks={layer: total(spans) for layer, spans in held.items()})


def _index(layers: Iterator[tuple[str, list[Span]]]) -> Index:
    """From the lowest layer up."""
    index = Index()
    for layer, spans in layers:
        index.put(layer, spans)
    return index


class FairLock:
    """A lock that is given to whoever has waited longest. The one of the standard library may go back to who released it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False

    def __enter__(self) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        try:
            mine.acquire()  # until it is handed over
        except BaseException:  # Ctrl-C: whoever is next must not wait for us
            with self._guard:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                else:
                    self._pass_on()
            raise

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft().release()
        else:
            self._taken = False
