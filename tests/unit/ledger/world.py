"""A small world to keep a book in: an API server with requests on their way, and folders that see it late.

It plays what a real API server does to the ledger: admission on stale and on fresh copies of an object, requests that commit
late, never, or after the name was deleted and made anew, answers that are lost; and what folders do: views of any age, caches
that began after something was gone, live reads whose answer is used later. Some things are in another cluster, which may be
removed and come again. Every step is a method, so that a script reads as
the interleaving that it is, and a random walk can take the same steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from ullage.ledger import anew, keys
from ullage.ledger import book as rules
from ullage.ledger import fold as folding
from ullage.ledger.amounts import NOTHING, BadAmount, Cell, Limits, Takings, total
from ullage.ledger.book import MOST_ATTEMPTS, MOST_GROWN, AttemptId, Book, Charge
from ullage.ledger.fold import Live, Seen, View
from ullage.ledger.limiting.noticing import with_limits
from ullage.ledger.readiness import with_positions
from ullage.quantity import Quantity

KIND, JARS = "vials.example.com", "jars.example.com"
CLUSTER = "far"
FAR = f"{KIND}/{CLUSTER}"
TIMEOUT = 60  # seconds from admission to the last moment at which a request may commit
EXPIRY = 70
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TOTAL = Cell("vials/all", "pieces")


def kind_of(name: str) -> str:
    """The source: the kind, or that of the other cluster."""
    return JARS if name.startswith("j") else FAR if is_far(name) else KIND


def is_far(name: str) -> bool:
    return name.startswith("f")


def key(name: str) -> str:
    kind, _, cluster = kind_of(name).partition("/")
    return keys.key_of(kind, cluster=cluster, namespace="lab", name=name)


def shelf(name: str) -> Cell:
    """Each object takes from two accounts: that of all, and that of the shelf where it stands: which its first letter names,
    until it is moved. Both kinds share them."""
    return Cell(f"vials/shelf/{name[0]}", "pieces")


def takes(place: str, size: int) -> Takings:
    return Takings({TOTAL: Quantity.of(size), shelf(place): Quantity.of(size)})


@dataclass(frozen=True)
class Thing:
    """An object as the API server has it."""

    name: str
    uid: str
    version: int
    size: int
    place: str  # the letter of its shelf

    @property
    def takes(self) -> Takings:
        return takes(self.place, self.size)


@dataclass(frozen=True)
class Request:
    """Admitted, and on its way to storage."""

    name: str
    uid: str
    size: int
    place: str
    on_version: int | None  # None: a create
    admitted: float
    past_limit: bool = False  # growth that has happened, told by our own controllers


@dataclass(frozen=True)
class StillView:
    """What a cache that listed at `began` and has followed up to a revision knows. A cluster that came later counts from 0. It
    is of a history that a backup has undone, if it listed before that; `epoch` is the one that was seen before it listed."""

    world: World
    revision: int
    began: int = 0
    kind: str = KIND
    base: int = 0
    epoch: int = 0
    history: int = 0

    @property
    def position(self) -> int:
        return self.revision - self.base

    @property
    def sums(self) -> Takings:
        return total(one.takes for one in self._things().values() if kind_of(one.name) == self.kind)

    def get(self, key: str) -> Seen | None:
        found = self._things().get(key.rpartition("/")[2])
        return None if found is None else Seen(found.uid, found.version, found.takes)

    def gone(self, uid: str) -> bool:
        return any(self.began < at <= self.revision for at, gone in self.world.histories[self.history].ends if gone == uid)

    def _things(self) -> Mapping[str, Thing]:
        return self.world.histories[self.history].states[self.revision]


@dataclass
class History:
    """What has been, revision by revision."""

    states: list[Mapping[str, Thing]] = field(default_factory=lambda: [{}])
    ends: list[tuple[int, str]] = field(default_factory=list)  # revisions at which a uid went

    def until(self, revision: int) -> History:
        return History(self.states[: revision + 1], [end for end in self.ends if end[0] <= revision])


@dataclass
class Folder:
    """Someone who folds: a webhook replica or a leader, with a memory of its own."""

    first_seen: dict[AttemptId, float] = field(default_factory=dict)
    live: dict[AttemptId, Live] = field(default_factory=dict)
    asked: tuple[Book, frozenset[str]] | None = None  # a book, and what was said to be removed when it had been read
    listed: dict[str, tuple[int, int]] = field(default_factory=dict)  # by kind: the history, and the epoch that was seen before


class World:
    def __init__(self, *, most: int = MOST_ATTEMPTS, most_grown: int = MOST_GROWN, **limits: int) -> None:
        """Limits by account: `all=10`, `a=4` for the shelf of names that begin with a. `most` attempts are held, and besides
        `most_grown` of growth that has happened."""
        self.most = most
        self.most_grown = most_grown
        self.clock = 0.0
        self.revision = 0
        self.things: dict[str, Thing] = {}
        self.histories = [History()]  # the last is the one that goes on
        self.counted = {KIND: 0, JARS: 0, FAR: 0}  # the history that the book's counts are of
        self.noticed = {KIND: 0, JARS: 0, FAR: 0}  # the last one that everybody can know of
        self.copies: dict[str, list[Thing]] = {}  # by name: every version there ever was
        self.disk: dict[str, int] = {}  # by uid: bytes that are there, whatever the object says
        self.past: dict[Cell, Quantity] = {}  # what growth that had happened has brought a cell to, where that is too much
        self.flying: list[Request] = []
        self.uids = 0
        self.answers_since = 0.0  # since when the API server has answered without a break
        self.far_from = 0  # the revision at which the other cluster began
        self.far_until: int | None = None  # the revision at which it was removed
        self.book = with_limits(Book.of(limits={}), self._limits(limits), BEGIN)

    def _limits(self, limits: Mapping[str, int]) -> Limits:
        return {TOTAL if name == "all" else shelf(name): Quantity.of(size) for name, size in limits.items()}

    def limit(self, **limits: int) -> None:
        changed = {**self.book.limits, **self._limits(limits)}
        self.book = with_limits(self.book, changed, self.now())

    # --- the API server ---

    def create(self, name: str, size: int, *, skew: float = 0, lost: bool = False) -> Request | None:
        """Admission of a create, whatever is there. None: refused. `lost`: the answer never came, so nothing will commit."""
        if is_far(name) and self.far_until is not None:
            return None
        self.uids += 1
        return self._admit(name, f"uid-{self.uids}", size, place=name[0], old=None, skew=skew, lost=lost)

    def update(
        self,
        name: str,
        size: int,
        *,
        place: str = "",
        copy: int = -1,
        skew: float = 0,
        lost: bool = False,
        past_limit: bool = False,
    ) -> Request | None:
        """Admission of an update on a copy of the object: the newest by default, an older one by number."""
        old = self.copies[name][copy]
        return self._admit(name, "", size, place=place or old.place, old=old, skew=skew, lost=lost, past_limit=past_limit)

    def swell(self, name: str, size: int) -> None:
        """What the object stands for has grown by itself. Whether somebody says so is another matter."""
        self.disk[self.things[name].uid] = size

    def _admit(
        self,
        name: str,
        uid: str,
        size: int,
        *,
        place: str,
        old: Thing | None,
        skew: float,
        lost: bool,
        past_limit: bool = False,
    ) -> Request | None:
        charge = Charge(
            key=key(name),
            uid=old.uid if old else uid,
            on_version=old.version if old else None,
            now=takes(place, size),
            old=old.takes if old else NOTHING,
            past_limit=past_limit,
        )
        moment = self.now() + timedelta(seconds=skew)
        self.book, refusal = rules.book(self.book, charge, moment, most=self.most, most_grown=self.most_grown)
        if refusal is not None:
            return None
        if past_limit:
            self.past = {cell: self.book.used[cell] + self.book.reserved[cell] for cell in self.book.limits}
        request = Request(name, charge.uid, size, place, charge.on_version, self.clock, past_limit)
        if not lost:
            self.flying.append(request)
        return request

    def readmit(self, request: Request, *, skew: float = 0) -> None:
        """Admission of a request a second time, as it is: two registrations of one webhook, or an answer that was lost and
        asked for again. Refused, the request is over; it does not live longer otherwise."""
        self.flying.remove(request)
        old = next((one for one in self.copies.get(request.name, ()) if one.version == request.on_version), None)
        self._admit_again(request, old=old, skew=skew)

    def _admit_again(self, request: Request, *, old: Thing | None, skew: float = 0) -> None:
        rerun = self._admit(
            request.name,
            request.uid,
            request.size,
            place=request.place,
            old=old,
            skew=skew,
            lost=False,
            past_limit=request.past_limit,
        )
        if rerun is not None:
            self.flying[-1] = replace(rerun, admitted=request.admitted)

    def commit(self, request: Request | None, *, again: bool = False) -> bool:
        """The end of a request: it is stored if its name is free, or its version still the newest. With `again` the API
        server, on a conflict, runs admission on the fresh copy, as it does for patches."""
        if request is None or request not in self.flying:  # refused, or over
            return False
        self.flying.remove(request)
        there = self.things.get(request.name)
        if request.on_version is None:
            if there is None:
                self._store(Thing(request.name, request.uid, self._version(request.name), request.size, request.place))
            return there is None
        if there is not None and (there.uid, there.version) == (request.uid, request.on_version):
            self._store(replace(there, version=self._version(request.name), size=request.size, place=request.place))
            return True
        if again and there is not None:
            self._admit_again(request, old=there)
        return False

    def slip_in(self, name: str, size: int) -> None:
        """An object that nobody admitted: made while no webhook was there."""
        self.uids += 1
        self._store(Thing(name, f"uid-{self.uids}", self._version(name), size, name[0]))

    def _version(self, name: str) -> int:
        return self.revision + 1 - (self.far_from if is_far(name) else 0)

    def drop(self, request: Request) -> None:
        """Another webhook refused it, or its client or the API server went away."""
        self.flying.remove(request)

    def delete(self, name: str) -> None:
        gone = self.things[name]
        things = {other: thing for other, thing in self.things.items() if other != name}
        self._step(things)
        self.histories[-1].ends.append((self.revision, gone.uid))

    def wait(self, seconds: float) -> None:
        """No request outlives the API server's timeout."""
        self.clock += seconds
        self.flying = [one for one in self.flying if self.clock - one.admitted < TIMEOUT]

    def stall(self, seconds: float) -> None:
        """The API server, or its storage, stands still for a while. What is under way goes on afterwards as if it had just been
        admitted."""
        self.clock += seconds
        self.answers_since = self.clock
        self.flying = [replace(one, admitted=self.clock) for one in self.flying]

    def remove_cluster(self) -> None:
        """On purpose: everything that is there goes with it, and whatever is on its way there."""
        self.flying = [one for one in self.flying if not is_far(one.name)]
        self._step({name: thing for name, thing in self.things.items() if not is_far(name)})
        self.copies = {name: copies for name, copies in self.copies.items() if not is_far(name)}
        self.far_until = self.revision

    def add_cluster(self) -> None:
        """Another one under the same name: it is empty, and counts from the beginning."""
        self.far_from, self.far_until = self.revision, None

    def _store(self, thing: Thing) -> None:
        self._step({**self.things, thing.name: thing})
        self.copies.setdefault(thing.name, []).append(thing)

    def _step(self, things: dict[str, Thing]) -> None:
        self.revision += 1
        self.things = things
        self.histories[-1].states.append(things)

    def restore(self, revision: int) -> None:
        """A backup of an earlier revision takes the server's place; the book is elsewhere, and stays. Creates that are on their
        way may still arrive. Nobody is told."""
        self.histories.append(self.histories[-1].until(revision))
        self.revision, self.things = revision, dict(self.histories[-1].states[revision])
        self.copies = {
            name: kept for name, copies in self.copies.items() if (kept := [one for one in copies if one.version <= revision])
        }
        self.flying = [one for one in self.flying if one.on_version is None]
        self.past.clear()

    @property
    def blind(self) -> bool:
        """Whether something is counted as it was in a history that a backup has undone: nobody can know what is there now."""
        return any(self.counted[kind] != len(self.histories) - 1 for kind in self.book.observed)

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.clock)

    # --- the folders ---

    def fold(self, at: int | None = None, *, began: int = 0, by: Folder | None = None, kind: str = KIND) -> None:
        """A fold with a view of any age, by someone who may have read expired names before."""
        folder = by or Folder()
        if kind not in folder.listed:
            self.list_anew(folder, kind)
        history, epoch = folder.listed[kind]
        revision, base = min(self.revision if at is None else at, len(self.histories[history].states) - 1), 0
        if kind == FAR:
            # Whoever still follows a cluster that was removed has what was there before. Of one that has come again nobody has
            # anything older than that.
            last = self.revision if self.far_until is None else self.far_until - 1
            revision, began, base = max(min(revision, last), self.far_from), max(began, self.far_from), self.far_from
        self.fold_view(StillView(self, revision, began, kind, base, epoch, history), kind=kind, by=folder)

    def fold_view(self, view: View, *, kind: str = KIND, by: Folder | None = None) -> None:
        before = self.book
        with contextlib.suppress(BadAmount):  # then the view is not usable
            self.book = folding.fold(self.book, view, kind=kind, now=self.now(), live=by.live if by else {})
        if self.book is not before and isinstance(view, StillView):
            self.counted[kind] = max(view.history, min(self.counted[kind], self.noticed[kind]))
            for cell, limit in self.book.limits.items():
                if self.histories[1:] and self.book.used[cell] + self.book.reserved[cell] > limit:
                    self.past[cell] = self.book.used[cell] + self.book.reserved[cell]  # a backup may bring back too much

    def list_anew(self, folder: Folder, kind: str = KIND) -> None:
        folder.listed[kind] = len(self.histories) - 1, self.book.epochs.begun.get(kind, 0)

    def notice(self, kind: str = KIND, *, latest: int | None = None) -> None:
        """Somebody whose view is behind the count asks the server how far it is."""
        counted = self.book.observed.get(kind)
        if counted is not None and anew.is_behind(
            self.revision - (self.far_from if kind == FAR else 0) if latest is None else latest, counted
        ):
            self.book = anew.with_restored(self.book, {kind}, self.now())
            self.noticed[kind] = len(self.histories) - 1

    def know_position(self) -> None:
        """Somebody has waited until all requests have ended that the book did not see, and reads where the API is."""
        self.book = with_positions(self.book, {KIND: self.revision})

    def look(self, folder: Folder) -> None:
        """Reads the ledger, and the names of what has expired; what is learned may be used in any later fold."""
        self.see(folder)
        for one in self.due(folder):
            self.read(one, folder)

    def see(self, folder: Folder) -> None:
        since = self.answers_since
        folder.first_seen = folding.still_seen(self.book, folder.first_seen, self.clock, answers_since=lambda cluster: since)

    def due(self, folder: Folder) -> list[AttemptId]:
        """Nobody can be asked in a cluster that is gone."""
        self.see(folder)
        late = folding.expired(self.book, folder.first_seen, self.clock, lambda cluster: EXPIRY)
        return [one for one in late if self.far_until is None or keys.source_of(one.key) != FAR]

    def read(self, one: AttemptId, folder: Folder) -> None:
        there = self.things.get(one.key.rpartition("/")[2])
        folder.live[one] = Live() if there is None else Live(there.uid, there.version)

    def ask_removed(self, folder: Folder) -> None:
        """Reads the ledger, and then asks whether the clusters that it names were removed."""
        folder.asked = self.book, frozenset() if self.far_until is None else frozenset({CLUSTER})

    def drop_removed(self, folder: Folder) -> None:
        """A write on what was read: it is refused where somebody has written since."""
        if folder.asked and folder.asked[0] is self.book:
            self.book = folding.without_clusters(self.book, folder.asked[1])

    def forget_lost(self, folder: Folder) -> None:
        """A write by someone without a view of the kind who has read expired names before, at any time."""
        self.book = folding.without_lost(self.book, folder.live)

    def settle(self, folder: Folder) -> None:
        """Everything on its way ends, time passes, and someone whose cache is up to date folds."""
        self.ask_removed(folder)
        self.drop_removed(folder)
        self.look(folder)
        self.wait(EXPIRY + 1)
        self.look(folder)
        self.forget_lost(folder)
        self.check_nothing_lost()
        for kind in (KIND, JARS, *((FAR,) if self.far_until is None else ())):
            self.notice(kind)
            self.list_anew(folder, kind)
            self.fold(by=folder, kind=kind)

    # --- what must be so ---

    @property
    def used(self) -> Takings:
        return total(takes(one.place, max(one.size, self.disk.get(one.uid, 0))) for one in self.things.values())

    def check(self) -> None:
        """Nothing that was admitted is past a limit, but for growth that had happened, and nothing comes on top of that."""
        if self.blind:
            return
        for cell, limit in self.book.limits.items():
            if self.book.used[cell] + self.book.reserved[cell] <= limit:
                self.past.pop(cell, None)
            most = max(limit, self.past.get(cell, limit))
            assert self.used[cell] <= most, f"{cell.account}: {self.used[cell]} of {limit} are used"

    def check_sums(self) -> None:
        """What the book keeps by increments is what its parts add up to, and covers what is there."""
        anew = Book.of(limits={}, observed=self.book.observed, pending=self.book.pending)
        assert (self.book.used, self.book.reserved) == (anew.used, anew.reserved)
        assert (self.book.held, self.book.grown) == (anew.held, anew.grown)
        assert self.book.held - self.book.grown <= self.most, "more is held than may be"
        assert self.book.grown <= self.most_grown, "more growth is held than may be"
        assert self.blind or self.used <= self.book.used + self.book.reserved, "less is accounted for than is used"

    def check_nothing_lost(self) -> None:
        """Room is reserved only for what is there, though nobody has seen it yet."""
        there = {one.uid for one in self.things.values()}
        names = {key(name) for name in self.things}
        left = [one for one in self.book.attempts() if (one.uid not in there if one.uid else one.key not in names)]
        assert not left, "room is reserved for what will never be"

    def check_rest(self) -> None:
        assert self.book.attempts() == [], "something is pending for ever"
        assert self.book.used == self.used, "what was counted is not the truth"
        assert not self.book.reserved
