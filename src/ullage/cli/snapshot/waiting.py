"""Waiting for snapshots, of either API: what is told of each meanwhile, and when it is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ullage.cli.common.waiting import CopyLines, Failed, ProgressOutput, until
from ullage.cli.snapshot.found import Found
from ullage.cli.snapshot.progress import Verdict, copying, how_far, judge, news, why_failed
from ullage.cli.snapshot.text import problem
from ullage.clock import Clock, SystemClock
from ullage.kube.client.client import Client
from ullage.snapshots.model import Snapshot

# An error has to stand for so long: right after a claim was made, the controller may not have seen it yet.
SETTLE: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitOptions:
    """What is waited for, and how long."""

    goal: str
    timeout: float  # seconds; 0 looks once


class SnapshotWaiter:
    """For snapshots of one namespace, whichever API each is of."""

    def __init__(
        self,
        client: Client,
        found: Sequence[Found],
        terms: WaitOptions,
        *,
        output: ProgressOutput | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._found = found
        self._terms = terms
        self._output = output or ProgressOutput()
        self._clock = clock or SystemClock()
        self._began = self._clock.monotonic()
        self._seen: dict[int, Snapshot | None] = {}
        self._over: dict[int, Verdict] = {}
        self._failing: dict[int, float] = {}  # since when
        self._copies = CopyLines()

    async def run(self) -> None:
        """Returns when all have come; raises with the reasons where one cannot, or where the time is up."""
        with self._output.spinning(self._progress()):
            await until(self._look, timeout=self._terms.timeout, late=self._late, clock=self._clock)
        failed = [place for place, verdict in self._over.items() if verdict is Verdict.FAILED]
        if failed:
            raise Failed("; ".join(why_failed(self._seen[one], self._terms.goal, name=self._name(one)) for one in failed))

    async def _look(self) -> bool | None:
        now = await self._read()
        for place, snapshot in now.items():
            self._tell(place, snapshot)
            self._seen[place] = snapshot
            verdict = judge(snapshot, self._terms.goal)
            if verdict is Verdict.DONE or (verdict is Verdict.FAILED and self._settled(place, snapshot)):
                self._over[place] = verdict
            elif verdict is Verdict.GOING:
                self._failing.pop(place, None)
        self._output.under_way(self._progress())
        return True if len(self._over) == len(self._found) else None

    async def _read(self) -> Mapping[int, Snapshot | None]:
        """One by its name; several with one list for each API, however many they are."""
        open_ = [place for place in range(len(self._found)) if place not in self._over]
        if len(open_) == 1:
            one = self._found[open_[0]]
            meta = one.obj.metadata
            return {open_[0]: _read(one, await self._client.find(one.dialect.snapshots, meta.name, meta.namespace))}
        read: dict[int, Snapshot | None] = dict.fromkeys(open_)
        for dialect in {self._found[place].dialect.name: self._found[place].dialect for place in open_}.values():
            listing = await self._client.list(dialect.snapshots, self._found[0].obj.metadata.namespace)
            by_name = {obj.metadata.name: obj for obj in listing.items}
            for place in open_:
                one = self._found[place]
                if one.dialect is dialect:
                    read[place] = _read(one, by_name.get(one.obj.metadata.name))
        return read

    def _settled(self, place: int, snapshot: Snapshot | None) -> bool:
        if snapshot is None:
            return True
        now = self._clock.monotonic()
        return now - self._failing.setdefault(place, now) >= SETTLE or not self._terms.timeout

    # --- telling ---

    def _tell(self, place: int, snapshot: Snapshot | None) -> None:
        first = place not in self._seen
        for text in news(self._seen.get(place), snapshot):
            took = "" if first or not text.startswith(("ready", "gone")) else f" (waited {self._elapsed():.1f} s)"
            self._output.line(f"{self._name(place)}: {text}{took}")
        told = copying(snapshot)
        if self._copies.worth(self._name(place), told, self._clock.monotonic()):
            self._output.line(f"{self._name(place)}: {told}")

    def _progress(self) -> str:
        goal, count = self._terms.goal, len(self._found)
        waited = f"{self._elapsed():.0f} s"
        if count == 1:
            far = copying(self._seen.get(0))
            return f"{self._name(0)} is {self._state(0)}{f' ({far})' if far else ''}; waiting until it is {goal}, {waited}"
        verdicts = list(self._over.values())
        failed = f", {verdicts.count(Verdict.FAILED)} failed" if Verdict.FAILED in verdicts else ""
        return f"{verdicts.count(Verdict.DONE)} of {count} snapshots are {goal}{failed}, {waited}"

    def _late(self) -> str:
        late = [place for place in range(len(self._found)) if place not in self._over]
        states = ", ".join(f"{self._name(place)} is {self._state(place)}{self._why(place)}" for place in late)
        goal, timeout = self._terms.goal, self._terms.timeout
        return f"not {goal} within {timeout:g} s: {states}; nothing was stopped, wait again with: {self._again(late)}"

    def _again(self, late: Sequence[int]) -> str:
        names = " ".join(self._name(place) for place in late)
        goal = "" if self._terms.goal == "ready" else f" --for {self._terms.goal}"
        return f"ullage snapshot wait {names}{goal} -n {self._found[0].obj.metadata.namespace}"

    def _state(self, place: int) -> str:
        return how_far(self._seen[place]) if place in self._seen else "not seen yet"

    def _why(self, place: int) -> str:
        snapshot = self._seen.get(place)
        return f" ({problem(snapshot.state.problem)})" if snapshot is not None and snapshot.state.problem else ""

    def _name(self, place: int) -> str:
        return str(self._found[place].obj.metadata.name)

    def _elapsed(self) -> float:
        return self._clock.monotonic() - self._began


def _read(found: Found, obj: Any) -> Snapshot | None:
    """A later snapshot of the name is another one: that which was waited for is gone."""
    if obj is None or obj.metadata.uid != found.obj.metadata.uid:
        return None
    return Found(found.dialect, obj).snapshot
