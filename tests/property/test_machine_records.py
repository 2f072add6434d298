"""Whoever administers a user cluster does what he likes to the stamps of his Machines, while processes are started anew. At
rest the ledger has what all Machines take, each once.

What a Machine takes is the most that any spec cost which it had at rest: its server may be of any of these.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.ledger.counted import counted
from tests.unit.projects.machines.builders import BY_FLAVOUR
from tests.unit.projects.seed_scene import Json, SeedScene, machine_body, provider_spec
from ullage.kube.review import Decision
from ullage.ledger.amounts import Amounts
from ullage.projects.api.machines import MACHINES
from ullage.projects.machines.updates import GUARDED

REST = 15.0  # seconds
NAMES = st.sampled_from(["a", "b", "c"])
FLAVOURS = st.sampled_from(["s", "m", "l"])
STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES, FLAVOURS),
    st.tuples(st.just("sneak"), NAMES, FLAVOURS),
    st.tuples(st.just("exchange"), NAMES, FLAVOURS),
    st.tuples(st.sampled_from(["strip", "forge", "put_back", "remove"]), NAMES),
    st.tuples(st.just("hostile"), st.sampled_from(["strips", "forges", "puts_back", "refuses", ""])),
    st.tuples(st.just("restart")),
)


class Walk:
    def __init__(self) -> None:
        self.scene = SeedScene()
        self.scene.cluster(provider="fake")  # what goes is gone at once
        self.scene.limits(cpu="1000")
        self.truth: dict[str, Amounts] = {}  # by uid
        self.kept: dict[str, tuple[Json, Json]] = {}  # by uid: its first stamp, and the spec that it is over
        self.hostile = ""
        self.stack = AsyncExitStack()

    async def start(self) -> None:
        await self.stack.enter_async_context(self.scene.served(controllers=True))

    async def rest(self) -> None:
        await asyncio.sleep(REST)
        for body in self.scene.bodies():
            meta, size = body["metadata"], BY_FLAVOUR[body["spec"]["providerSpec"]["value"]["cloudProviderSpec"]["flavour"]]
            self.truth[meta["uid"]] = self.truth.get(meta["uid"], Amounts()) | size
            stamp = {key: meta.get("annotations", {})[key] for key in GUARDED if key in meta.get("annotations", {})}
            if len(stamp) == len(GUARDED):
                self.kept.setdefault(meta["uid"], (stamp, deepcopy(body["spec"])))

    def expected(self) -> str:
        there = [self.truth[body["metadata"]["uid"]] for body in self.scene.bodies()]
        return str(Amounts.total(there)["cpu"])

    def found(self) -> str:
        sums = counted(self.scene.ledger().status.sums).values()
        return str(Amounts.total(Amounts.parse(one.get("machines", {})) for one in sums)["cpu"])

    # --- steps ---

    async def create(self, name: str, flavour: str) -> None:
        if not self._there(name):
            await self.scene.create(flavour, name=name)

    async def sneak(self, name: str, flavour: str) -> None:
        if not self._there(name):
            self.scene.store(MACHINES, machine_body(flavour, name=name))

    async def exchange(self, name: str, flavour: str) -> None:
        if self._there(name):
            body = self.scene.body(name)
            body["spec"]["providerSpec"]["value"] = provider_spec(flavour)
            self.scene.store(MACHINES, body)

    async def strip(self, name: str) -> None:
        self._change(name, "strips")

    async def forge(self, name: str) -> None:
        self._change(name, "forges")

    async def put_back(self, name: str) -> None:
        self._change(name, "puts_back")

    async def remove(self, name: str) -> None:
        if self._there(name):
            self.scene.remove(name)

    async def set_hostile(self, how: str) -> None:
        self.hostile = how
        host = self.scene.cluster(provider="fake")  # with the hooks of ours

        async def admitted(body: Json) -> Decision:
            if how == "refuses":
                return Decision.refuse("not in my cluster")
            self.scene.store(MACHINES, self._changed(body, how))
            return Decision.allow()

        if how:
            host.admitted = admitted

    async def restart(self) -> None:
        await self.stack.aclose()
        self.scene = self.scene.restarted()
        await self.set_hostile(self.hostile)
        await self.start()

    def _there(self, name: str) -> bool:
        return any(body["metadata"]["name"] == name for body in self.scene.bodies())

    def _change(self, name: str, how: str) -> None:
        if self._there(name):
            self.scene.store(MACHINES, self._changed(self.scene.body(name), how))

    def _changed(self, body: Json, how: str) -> Json:
        made = deepcopy(body)
        meta: dict[str, Any] = made["metadata"]
        kept = {key: value for key, value in meta.get("annotations", {}).items() if key not in GUARDED}
        forged = {GUARDED[0]: '{"machines":{"cpu":"0"}}', GUARDED[1]: "v1:bound:1:" + "0" * 64}
        earlier, spec = self.kept.get(meta.get("uid", ""), ({}, made["spec"]))
        made["spec"] = deepcopy(spec) if how == "puts_back" else made["spec"]
        meta["annotations"] = {**kept, **{"strips": {}, "forges": forged, "puts_back": earlier}[how]}
        return made


async def walked(steps: list[tuple[str, ...]]) -> None:
    walk = Walk()
    await walk.start()
    try:
        for number, (what, *terms) in enumerate(steps):
            await getattr(walk, "set_hostile" if what == "hostile" else what)(*terms)
            await walk.rest()
            assert walk.found() == walk.expected(), f"after step {number + 1}"
    finally:
        await walk.stack.aclose()


@settings(max_examples=20, deadline=None)
@given(st.lists(STEPS, min_size=3, max_size=12))
def test_at_rest_the_ledger_has_what_all_machines_take(steps: list[tuple[str, ...]]) -> None:
    in_virtual_time(walked(steps))


def test_one_walk_that_has_everything() -> None:
    steps: list[tuple[str, ...]] = [
        ("create", "a", "m"),
        ("hostile", "strips"),
        ("strip", "a"),
        ("sneak", "b", "l"),
        ("restart",),
        ("exchange", "a", "l"),
        ("hostile", "puts_back"),
        ("put_back", "a"),
        ("sneak", "c", "s"),
        ("remove", "c"),
        ("hostile", "refuses"),
        ("forge", "b"),
        ("sneak", "c", "s"),
        ("remove", "b"),
        ("restart",),
        ("hostile", ""),
        ("remove", "a"),
        ("create", "a", "s"),
    ]
    in_virtual_time(walked(steps))
