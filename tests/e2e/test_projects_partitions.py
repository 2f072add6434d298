"""One schedule of partitions on real processes and connections: seeds are cut off and come back, the master is killed, people
change the quota and their machines. `tests/property/test_project_partitions.py` has twenty at random, in virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from ullage.app.installer.roles import CONTROLLER
from ullage.projects.api.quotas import PROJECT_QUOTAS
from ullage.projects.escrow.record import read_record

from .apart import IS_BORROWED
from .projects_scene import CREATED, FORBIDDEN, Platform, UserCluster, platform
from .snapshot_scene import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(IS_BORROWED, reason="the quotas of a cluster are its owner's"),
]

SEEDS = ("ams", "fra", "nyc")
PROJECT = "parts"
EXISTS, AGAIN = 409, 429


class Schedule:
    """`most` is the largest quota in force: one that was lowered is, until what is granted fits into the new one."""

    def __init__(self, kkp: Platform, quota: int) -> None:
        self.kkp = kkp
        kkp.project(PROJECT)
        self.users: dict[str, UserCluster] = {seed: kkp.seeds[seed].add(f"{PROJECT}-{seed}", PROJECT) for seed in SEEDS}
        kkp.set_quota(PROJECT, cpu=str(quota))
        kkp.in_force(PROJECT)
        self.quota = self.most = quota
        self._asked = 0

    def there(self) -> dict[str, int]:
        return {seed: len(user.names()) for seed, user in self.users.items()}

    def limit(self, seed: str) -> int:
        return int(self.kkp.seeds[seed].limits(PROJECT)["cpu"])

    def granted(self) -> dict[str, int]:
        meta = msgspec.convert(self.kkp.quota(PROJECT), type=PROJECT_QUOTAS.type).metadata
        shares = read_record(meta).shares.items()
        return {seed: share.parts["cpu"].granted.value() for seed, share in shares if share.parts["cpu"].granted is not None}

    def check(self) -> None:
        """Machines only come and go by us, so what was granted when they are counted was granted when they came."""
        there, granted = self.there(), self.granted()
        if sum(granted.values()) <= self.quota:
            self.most = self.quota
        assert sum(there.values()) <= self.most, (there, granted)
        assert all(there[seed] <= granted[seed] for seed in SEEDS), (there, granted)

    def ask(self, seed: str, number: int) -> list[int]:
        """All at once: who does not fit waits a while for more room."""
        names = [f"m-{self._asked + count}" for count in range(number)]
        self._asked += number
        with ThreadPoolExecutor(number) as pool:
            codes = list(pool.map(lambda name: self.users[seed].ask(name).code, names))
        self.check()
        return codes

    def set_quota(self, cpu: int) -> None:
        self.quota, self.most = cpu, max(cpu, self.most)
        self.kkp.set_quota(PROJECT, cpu=str(cpu))
        self.check()

    def delete(self, seed: str, number: int) -> None:
        for name in sorted(self.users[seed].names())[:number]:
            self.users[seed].delete(name)


@pytest.fixture(scope="module")
def kkp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with platform(tmp_path_factory.mktemp("master")) as made:
        for name in SEEDS:
            made.add_seed(name)
        yield made


def test_seeds_that_are_cut_off_while_the_master_dies_and_the_quota_changes_stay_within_it(kkp: Platform) -> None:
    schedule = Schedule(kkp, 9)
    ams, fra = kkp.seeds["ams"], kkp.seeds["fra"]
    assert schedule.ask("fra", 2) == [CREATED] * 2

    ams.line.cut()
    grant = schedule.limit("ams")
    assert schedule.ask("ams", grant) == [CREATED] * grant, "it goes on within its grant"
    refused = schedule.users["ams"].ask("more", dry_run=True)  # who asks in earnest waits, and is remembered for a minute
    assert refused.code == FORBIDDEN, "and no further"

    kkp.processes.end(CONTROLLER)
    schedule.set_quota(6)
    assert schedule.ask("nyc", 1) == [CREATED], "without a master every seed has what it had"
    kkp.processes.start(CONTROLLER)
    eventually("who can be reached is told of the lower quota", lambda: schedule.limit("fra") < 3, seconds=30)
    assert schedule.limit("ams") == grant, "who cannot be reached goes on with what it had"
    schedule.check()

    fra.line.cut()
    ams.line.mend()
    schedule.delete("ams", 2)
    schedule.set_quota(12)
    schedule.check()
    fra.line.mend()

    for seed in SEEDS:
        schedule.delete(seed, 100)
    assert schedule.there() == dict.fromkeys(SEEDS, 0)

    def filled() -> bool:
        there = schedule.there()["fra"]
        return there == 12 or schedule.ask("fra", 12 - there).count(CREATED) == 12 - there

    eventually("all room is usable on one seed", filled, seconds=200)
    assert schedule.there() == {"ams": 0, "fra": 12, "nyc": 0}
    schedule.check()


def test_on_a_seed_that_was_cut_off_before_its_first_grant_no_machine_comes(kkp: Platform) -> None:
    """The copy of the quota has come to the seed, whose master cannot tell it its part. A dry run of the copy does nothing."""
    ams, project = kkp.seeds["ams"], "first"
    kkp.project(project)
    user = ams.add(f"{project}-ams", project)
    spec = {"subject": {"name": project, "kind": "project"}, "quota": {"cpu": "3"}}
    copy = {
        "apiVersion": PROJECT_QUOTAS.api_version,
        "kind": PROJECT_QUOTAS.kind,
        "metadata": {"name": f"project-{project}"},
        "spec": spec,
    }
    ams.line.cut()
    try:
        assert ams.api.call("POST", f"{PROJECT_QUOTAS.path()}?dryRun=All", copy).code == CREATED
        assert user.ask("before").code == CREATED
        assert ams.api.call("POST", PROJECT_QUOTAS.path(), copy).code == CREATED
        answers = [user.ask(f"m-{number}") for number in range(3)]
        assert {answer.code for answer in answers} <= {FORBIDDEN, AGAIN}, [answer.raw for answer in answers]
        assert ams.limits(project) == {"cpu": "0"}
    finally:
        ams.line.mend()
    kkp.set_quota(project, cpu="3")
    eventually("it is told its part", lambda: user.ask("after").code in (CREATED, EXISTS), seconds=60, every=0.5)
    assert user.names() == {"before", "after"}
