"""The small world of `world.py` with objects that set limits, and with processes that decide and see those late.

Requests that set limits commit late, never, or after the API server has run their admission again. Each process has a cache of
these objects that lags behind, and may begin anew; a controller carries limits into the book from a cache of any age. Nothing
is said to a client before its request has committed, so what holds from then on is what is stored. Things may be there before
the ledger is: those are in no booking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.unit.ledger.world import EXPIRY, FAR, JARS, KIND, TIMEOUT, Folder, Request, World, key, takes
from ullage.ledger import fold as folding
from ullage.ledger import keys
from ullage.ledger.amounts import Cell, Limits, limit_on, lowest
from ullage.ledger.book import AttemptId, Book, Charge
from ullage.ledger.fold import Live, View
from ullage.ledger.limiting import in_flight as setting
from ullage.ledger.limiting.in_flight import LimitChange, SeenLimits
from ullage.ledger.limiting.noticing import with_limits
from ullage.quantity import Quantity

LIMITS_KIND = "limits.example.com"
EACH_SHELF = Cell("vials/shelf/*", "pieces")


def limit_key(name: str) -> str:
    return keys.key_of(LIMITS_KIND, namespace="lab", name=name)


@dataclass(frozen=True)
class LimitObject:
    """An object with limits, by name of the account: `all`, `a` for a shelf, `each` for each shelf that has none of its own."""

    uid: str
    version: int
    sizes: Mapping[str, int]

    def limits(self, world: World) -> Limits:
        plain = {name: size for name, size in self.sizes.items() if name != "each"}
        each = {EACH_SHELF: Quantity.of(self.sizes["each"])} if "each" in self.sizes else {}
        return {**world._limits(plain), **each}


@dataclass(frozen=True)
class LimitRequest:
    """Admitted, and on its way to storage."""

    name: str
    uid: str
    sizes: Mapping[str, int]
    on_version: int | None
    admitted: float


@dataclass
class Decider(Folder):
    """A webhook replica: it folds, decides, and has a cache of the objects with limits."""

    at: int = 0  # the position of that cache
    began: int = 0  # where it listed


@dataclass(frozen=True)
class LimitsSeen:
    """The cache of one decider."""

    world: LimitWorld
    at: int
    began: int

    @property
    def position(self) -> int:
        return self.at

    @property
    def limits(self) -> Limits:
        return lowest(one.limits(self.world) for one in self.world.limit_states[self.at].values())

    def get(self, key: str) -> SeenLimits | None:
        found = self.world.limit_states[self.at].get(key.rpartition("/")[2])
        return None if found is None else SeenLimits(found.uid, found.version, found.limits(self.world))

    def gone(self, uid: str) -> bool:
        return any(self.began < at <= self.at for at, gone in self.world.limit_ends if gone == uid)


class LimitWorld(World):
    def __init__(self) -> None:
        super().__init__()
        self.limit_states: list[Mapping[str, LimitObject]] = [{}]
        self.limit_ends: list[tuple[int, str]] = []
        self.limit_copies: dict[str, list[LimitObject]] = {}
        self.limits_flying: list[LimitRequest] = []
        self.deciders = [Decider(), Decider()]
        self.made_at = 0  # the revision at which there was a ledger
        for kind in (KIND, JARS):
            self.fold(kind=kind)

    def make_ledger(self, *there: str, size: int = 4) -> None:
        """There was none until now. What is there is in no booking."""
        for name in there:
            self.slip_in(name, size)
        self.book, self.made_at = with_limits(Book.of(limits={}), {}, self.now()), self.revision

    def fold_view(self, view: View, *, kind: str = KIND, by: Folder | None = None) -> None:
        """A process knows of its cache whether it shows all that was there when the ledger was."""
        if folding.may_be_counted(self.book, kind, lambda kind: view.position >= self.made_at):
            super().fold_view(view, kind=kind, by=by)

    # --- objects with limits ---

    @property
    def limit_objects(self) -> Mapping[str, LimitObject]:
        return self.limit_states[-1]

    @property
    def stored(self) -> Limits:
        """What holds for requests that are sent now."""
        return lowest(one.limits(self) for one in self.limit_objects.values())

    def set_limit(
        self, name: str, *, copy: int = -1, lost: bool = False, sizes: Mapping[str, int] | None = None, **more: int
    ) -> LimitRequest | None:
        """Admission of a request that sets limits: of an update on a copy of the object where it is there, else of a create.
        `lost`: another webhook refuses it, or its client has gone."""
        wanted = {**(sizes or {}), **more}
        if self.limit_objects.get(name) is None:
            self.uids += 1
            return self._admit_limit(name, f"limit-{self.uids}", wanted, old=None, lost=lost)
        old = self.limit_copies[name][copy]
        return self._admit_limit(name, old.uid, wanted, old=old, lost=lost)

    def _admit_limit(
        self, name: str, uid: str, sizes: Mapping[str, int], *, old: LimitObject | None, lost: bool = False
    ) -> LimitRequest | None:
        now = LimitObject(uid, 0, sizes).limits(self)
        change = LimitChange(
            key=limit_key(name),
            uid=uid,
            on_version=old.version if old else None,
            now=now,
            old=old.limits(self) if old else {},
        )
        booked = setting.with_change(self.book, change, self.now())
        if booked is None:
            return None
        self.book = booked
        request = LimitRequest(name, uid, sizes, change.on_version, self.clock)
        if not lost:
            self.limits_flying.append(request)
        return request

    def commit_limit(self, request: LimitRequest | None, *, again: bool = True) -> bool:
        """The end of a request; the client is told of it. On a conflict, with `again`, admission runs on the fresh copy."""
        if request is None or request not in self.limits_flying:
            return False
        self.limits_flying.remove(request)
        there, version = self.limit_objects.get(request.name), len(self.limit_states)
        if request.on_version is None:
            if there is None:
                self._store_limit(request.name, LimitObject(request.uid, version, request.sizes))
            return there is None
        if there is None or there.uid != request.uid:
            return False
        if there.version == request.on_version:
            self._store_limit(request.name, LimitObject(request.uid, version, request.sizes))
            return True
        if again and (rerun := self._admit_limit(request.name, request.uid, request.sizes, old=there)) is not None:
            self.limits_flying[-1] = replace(rerun, admitted=request.admitted)
        return False

    def drop_limit(self, request: LimitRequest) -> None:
        self.limits_flying.remove(request)

    def delete_limit(self, name: str) -> None:
        gone = self.limit_objects[name]
        self.limit_states.append({other: one for other, one in self.limit_objects.items() if other != name})
        self.limit_ends.append((len(self.limit_states) - 1, gone.uid))

    def _store_limit(self, name: str, stored: LimitObject) -> None:
        self.limit_states.append({**self.limit_objects, name: stored})
        self.limit_copies.setdefault(name, []).append(stored)

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        self.limits_flying = [one for one in self.limits_flying if self.clock - one.admitted < TIMEOUT]

    # --- processes ---

    def views(self, decider: Decider) -> Mapping[str, LimitsSeen]:
        return {LIMITS_KIND: LimitsSeen(self, decider.at, decider.began)}

    def follow(self, decider: Decider, *, ago: int = 0) -> None:
        """A cache goes on; never back."""
        decider.at = max(decider.at, len(self.limit_states) - 1 - ago)

    def restart(self, decider: Decider) -> Decider:
        """A process that begins anew lists everything."""
        now = len(self.limit_states) - 1
        fresh = Decider(at=now, began=now)
        self.deciders[self.deciders.index(decider)] = fresh
        return fresh

    def carry(self, *, at: int = -1) -> None:
        """A controller carries the limits of its cache into the book, however old that is."""
        found = self.limit_states[at]
        carried = lowest(one.limits(self) for one in found.values())
        self.book = with_limits(self.book, carried, self.now())

    def fold_limits(self, decider: Decider) -> None:
        """A write of one that sees limits."""
        self.book = setting.with_seen(self.book, self.views(decider), self.now(), live=decider.live)

    def ask(self, name: str, size: int, decider: Decider) -> Request | None:
        """A create that one process decides with what it sees. It decides nothing where it has not seen enough. Where it
        admits, no limit is passed whose request was answered before."""
        before = self.book
        self.fold_limits(decider)
        if setting.unseen(self.book, self.views(decider)):
            self.book = before
            return None
        charge = Charge(key=key(name), uid="asks", now=takes(name[0], size))
        if setting.uncounted(self.book, charge, frozenset({KIND, JARS})):
            self.book = before
            return None
        request = self.create(name, size)
        if request is None:
            self.book = before
            return None
        there = self.used + takes(request.place, request.size)
        for cell in takes(request.place, request.size):
            limit = limit_on(self.stored, cell)
            taken = max(self.book.used[cell] + self.book.reserved[cell], there[cell])
            assert limit is None or taken <= limit, f"{cell.account}: {taken} of {limit} are used"
        return request

    # --- looks at what is past expiry ---

    def read(self, one: AttemptId, folder: Folder) -> None:
        if not one.key.startswith(LIMITS_KIND):
            super().read(one, folder)
            return
        there = self.limit_objects.get(one.key.rpartition("/")[2])
        folder.live[one] = Live() if there is None else Live(there.uid, there.version)

    def check_sums(self) -> None:
        """Before the first count less is accounted for than is there."""
        if {KIND, JARS} <= self.book.observed.keys():
            super().check_sums()

    def check_nothing_lost(self) -> None:
        """Of limits it is checked at rest: what could not be seen yet stays in flight."""

    def settle_limits(self) -> None:
        """Everything on its way ends, time passes, and processes and a controller see what is there."""
        for decider in self.deciders:
            self.follow(decider)
            self.look(decider)
        self.wait(EXPIRY + 1)
        for decider in self.deciders:
            self.look(decider)
            self.fold_limits(decider)
            for kind in (KIND, JARS, FAR):
                self.fold(by=decider, kind=kind)
        self.carry()

    def check_limits_rest(self) -> None:
        """The limits that hold are those that the API has, whatever was on its way."""
        assert not self.book.in_flight, "limits are on their way for ever"
        assert dict(self.book.limits) == dict(self.stored), "other limits hold than the API has"
