"""Many projects with a quota each: a first division, a seed that flaps, and one that was away when they all went.

What is looked at is how often something is asked for and written, which is what may grow faster than their number; how long it
takes depends on the machine, and is in docs/critiques.md.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.projects.master_scene import BEGIN, SOURCE, MasterScene, SeedCluster, bugs_fail
from ullage.kube.kinds import Kind
from ullage.ledger.amounts import Takings
from ullage.ledger.api import LEDGERS, Ledger
from ullage.ledger.api import NAMESPACE as LEDGER_NAMESPACE
from ullage.ledger.book import Book, Observed
from ullage.ledger.codec import book_of, status_of
from ullage.projects.api.kkp import PROJECTS
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.names import ACCOUNT

MANY: Final = 30  # calls and writes for each are the same whatever their number: more would only take longer
SEEDS: Final = ("eu", "us")


class ManyLedgers(SeedCluster):
    """A seed whose ledgers are counted as soon as they have limits. None of the projects has a machine."""

    async def patch(self, kind: Kind[Any], name: str, namespace: str = "", **given: Any) -> Any:
        written = await super(SeedCluster, self).patch(kind, name, namespace, **given)
        if kind is LEDGERS:
            self._count(name)
        return written

    async def create(self, kind: Kind[Any], obj: Any) -> Any:
        made = await super().create(kind, obj)
        if kind is LEDGERS:
            self._count(obj.metadata.name)
        return made

    def _count(self, name: str) -> None:
        ledger = msgspec.convert(self.body(LEDGERS, name, LEDGER_NAMESPACE), type=Ledger)
        known = book_of(ledger, now=BEGIN)
        counted = {SOURCE: Observed(1, BEGIN, Takings({}))}
        book = Book.of(
            limits=known.limits,
            grants=known.grants,
            observed=counted,
            limited=known.limited,
            since=known.since,
            exact_from={SOURCE: 1},
        )
        said = msgspec.to_builtins(status_of(book, ledger, sources={SOURCE}, now=BEGIN))
        self.edit(LEDGERS, name, LEDGER_NAMESPACE, merge={"status": said})

    def limits_of_all(self) -> Counter[str]:
        return Counter(body["spec"].get("limits", {}).get(ACCOUNT, {}).get("cpu", "") for body in self.bodies(LEDGERS))


class ManyQuotas(MasterScene):
    def __init__(self, number: int) -> None:
        super().__init__(*SEEDS)
        self.number = number
        self.lists = 0
        self.api.remove(PROJECTS, "abc")
        for project in range(number):
            self.api.put(PROJECTS, {"metadata": {"name": f"p{project}"}})
            self._quota(f"p{project}")
        listed = self.api.list

        async def counted(kind: Kind[Any], *given: Any, **more: Any) -> Any:
            self.lists += kind is PROJECT_QUOTAS
            return await listed(kind, *given, **more)

        self.api.list = counted  # type: ignore[method-assign]

    def _quota(self, project: str) -> None:
        spec = {"subject": {"name": project, "kind": "project"}, "quota": {"cpu": "10"}}
        self.api.put(PROJECT_QUOTAS, {"metadata": {"name": f"project-{project}"}, "spec": spec})

    def make_seed(self, name: str) -> SeedCluster:
        """One that was removed is the same when it comes back."""
        return self.seeds.get(name) or ManyLedgers(name, self.clock)

    def limits(self) -> dict[str, Any]:
        return {name: dict(seed.limits_of_all()) for name, seed in self.seeds.items() if isinstance(seed, ManyLedgers)}

    def versions(self) -> list[int]:
        return [api.version for api in (self.api, *self.seeds.values())]


async def lives(scene: ManyQuotas) -> None:
    many = scene.number
    async with scene.running():
        await scene.until(lambda: scene.limits() == {seed: {"5": many} for seed in SEEDS}, 3600, every=1)
        await scene.quiet(60)
        assert scene.lists <= 1, "nobody lists all quotas for each of them"
        before = scene.versions()
        assert max(before) - 100 <= 14 * many, "so many writes for each"
        await scene.quiet(600)
        assert scene.versions() == before, "at rest nothing is written"
        for _ in range(3):
            scene.seeds["us"].cut_off()
            await scene.quiet(20)
            scene.seeds["us"].come_back()
            await scene.quiet(60)
        flapped = [new - old for new, old in zip(scene.versions(), before, strict=True)]
        assert flapped[0] <= 3 * 4 * many, "that it is away, and that it is back"
        assert scene.limits() == {seed: {"5": many} for seed in SEEDS}
        scene.seeds["us"].cut_off()
        scene.remove_seed("us")
        for body in scene.api.bodies(PROJECT_QUOTAS):
            scene.api.remove(PROJECT_QUOTAS, body["metadata"]["name"])
        await scene.until(lambda: not scene.api.bodies(PROJECT_QUOTAS), 3600, every=1)
        scene.lists = 0
        scene.add_seed("us")
        scene.seeds["us"].come_back()
        await scene.until(lambda: scene.limits() == {"eu": {"": many}, "us": {"": many}}, 3600, every=1)
        assert scene.lists <= 10, f"all quotas were listed {scene.lists} times, to lift the limits of {many} projects"


def test_what_many_quotas_cost_grows_with_their_number_alone() -> None:
    bugs_fail(lambda: in_virtual_time(_run(MANY)))


async def _run(number: int) -> None:
    await lives(ManyQuotas(number))
