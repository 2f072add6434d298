"""What a volume should be: blocks in dictionaries, written anew from what the real engine's users see.

Nothing of the store's own code is used to work it out. `seen` reads the same shape from a volume, through its interface and
its directory, so that the two can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ullage.engines.chain import HEAD
from ullage.engines.local.store.record import BLOCK
from ullage.engines.local.store.volume import StoredVolume
from ullage.engines.merging import merges_of

ZEROS = bytes(BLOCK)
Doubt = dict[int, frozenset[bytes]]  # by block, what it may be


@dataclass(frozen=True)
class Snap:
    """`shows` is what a reader gets, None once it is marked: nobody may read it then. `holds` are the blocks it pays for."""

    parent: str
    shows: tuple[bytes, ...] | None
    holds: frozenset[int]
    user: bool = True
    removed: bool = False


@dataclass(frozen=True)
class Vol:
    """A volume. `doubt` has, by block, what it may be after a power cut: all it was since it was last on the disk."""

    shows: tuple[bytes, ...]
    holds: frozenset[int] = frozenset()
    parent: str = ""
    snaps: dict[str, Snap] = field(default_factory=dict)
    max_count: int = 250
    max_size: int = 0
    doubt: Doubt = field(default_factory=dict, compare=False)

    @property
    def size(self) -> int:
        return len(self.shows) * BLOCK

    def children(self, name: str) -> list[str]:
        found = [other for other, snap in self.snaps.items() if snap.parent == name]
        return [*found, HEAD] if self.parent == name else found

    def write(self, offset: int, data: bytes) -> Vol:
        whole = bytearray(b"".join(self.shows))
        whole[offset : offset + len(data)] = data
        touched = range(offset // BLOCK, -(-(offset + len(data)) // BLOCK)) if data else range(0)
        shows = tuple(bytes(whole[at : at + BLOCK]) for at in range(0, len(whole), BLOCK))
        doubt = self.doubt | {one: self.doubt.get(one, frozenset((self.shows[one],))) | {shows[one]} for one in touched}
        return replace(self, shows=shows, holds=self.holds | set(touched), doubt=doubt)

    def synced(self) -> Vol:
        return replace(self, doubt={})

    def snapshot(self, name: str, *, user: bool) -> Vol:
        snap = Snap(self.parent, self.shows, self.holds, user)
        return replace(self, snaps=self.snaps | {name: snap}, parent=name, holds=frozenset(), doubt={})

    def expand(self, blocks: int) -> Vol:
        grown = self.snapshot(f"expand-{blocks * BLOCK}", user=False)
        return replace(grown, shows=self.shows + (ZEROS,) * (blocks - len(self.shows)))

    def mark(self, name: str) -> Vol:
        snap = self.snaps.get(name)
        return self if snap is None else self._with(name, replace(snap, removed=True, shows=None))

    def revert(self, name: str) -> Vol:
        shows = self.snaps[name].shows
        assert shows is not None
        shows += (ZEROS,) * (len(self.shows) - len(shows))
        return replace(self, shows=shows, holds=frozenset(), parent=name, doubt={})

    def purge(self) -> Vol:
        after = self
        for name, snap in self.snaps.items():
            if not snap.user:
                after = after.mark(name)
        while (smaller := after._without_one()) is not None:
            after = smaller
        parent = after.snaps.get(after.parent)
        if parent is not None and parent.removed and after.children(after.parent) == [HEAD]:
            after = after._with(after.parent, replace(parent, holds=parent.holds - after.holds))
        return after

    def refuses_snapshot(self, *, user: bool = True) -> bool:
        """The limit of size is not for the system's own, those of an expansion aside."""
        wanted = [name for name, snap in self.snaps.items() if not snap.removed]
        used = sum(len(self.snaps[name].holds) for name in self._live() if name in wanted) * BLOCK
        full = user and bool(self.max_size) and used + len(self.holds) * BLOCK > self.max_size
        return len(wanted) >= self.max_count or full

    def _live(self) -> list[str]:
        found, at = [], self.parent
        while at:
            found.append(at)
            at = self.snaps[at].parent
        return found

    def _with(self, name: str, snap: Snap) -> Vol:
        return replace(self, snaps=self.snaps | {name: snap})

    def _without_one(self) -> Vol | None:
        for name, snap in self.snaps.items():
            below = self.children(name)
            if not snap.removed or len(below) > 1 or below == [HEAD]:
                continue
            rest = {other: one for other, one in self.snaps.items() if other != name}
            for child in below:
                rest[child] = replace(rest[child], parent=snap.parent, holds=rest[child].holds | snap.holds)
            return replace(self, snaps=rest)
        return None


def seen(volume: StoredVolume) -> Vol:
    """The volume as it is, and its directory has nothing else in it."""
    view, directory = volume.view(), volume._state.directory
    with volume._state.locked() as live:
        held = {
            name: frozenset(
                block for span in directory.held(directory.path(live.record, name)) for block in range(span.start, span.end)
            )
            for name in view.entries
        }
        expected = {"volume.meta", view.head_file, *(f"volume-snap-{name}.img" for name in view.entries if name != HEAD)}
        assert set(directory._files.names(directory.name)) == expected, "files that nobody names"
    for name, entry in view.entries.items():
        assert entry.size == len(held[name]) * BLOCK, f"the size of {name}"
        assert entry.children == {other for other, one in view.entries.items() if one.parent == name}
    heirs: dict[str, frozenset[int]] = {}
    for removed, heir in merges_of(view.entries).heirs.items():
        heirs[heir] = heirs.get(heir, held[heir]) | held[removed]
    told = {name: one.merged for name, one in view.entries.items() if one.merged is not None}
    assert told == {heir: len(blocks) * BLOCK for heir, blocks in heirs.items()}, "each block counts once"
    snaps = {
        name: Snap(
            parent=entry.parent,
            shows=None if entry.removed else _blocks(volume.read_snapshot(name, offset=0, length=view.size)),
            holds=held[name],
            user=entry.user_created,
            removed=entry.removed,
        )
        for name, entry in view.entries.items()
        if name != HEAD
    }
    shows = _blocks(volume.read_at(0, view.size))
    return Vol(shows, held[HEAD], view.parent, snaps, view.max_count, view.max_size)


def same(one: Vol, other: Vol) -> bool:
    """Snapshots from before an expansion show zeros where it has grown."""
    return _padded(one) == _padded(other)


def _padded(vol: Vol) -> Vol:
    snaps = {
        name: snap if snap.shows is None else replace(snap, shows=snap.shows + (ZEROS,) * (len(vol.shows) - len(snap.shows)))
        for name, snap in vol.snaps.items()
    }
    return replace(vol, snaps=snaps)


def _blocks(data: bytes) -> tuple[bytes, ...]:
    return tuple(data[at : at + BLOCK] for at in range(0, len(data), BLOCK))
