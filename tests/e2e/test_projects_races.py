"""A project's quota while everybody asks at once, processes are killed, and seeds are cut off from the master."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ullage.app.installer.roles import CONTROLLER, WEBHOOK

from .apart import IS_BORROWED
from .projects_scene import CREATED, FORBIDDEN, Platform, Processes, UserCluster, eventually_is, platform
from .snapshot_scene import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(IS_BORROWED, reason="the quotas of a cluster are its owner's"),
]

SEEDS = ("fra", "ams", "nyc")
QUOTA = 100
CLIENTS = 400
KILLS = 12
NO_ANSWER = 0  # the connection broke


@pytest.fixture(scope="module")
def kkp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with platform(tmp_path_factory.mktemp("master")) as made:
        for name in SEEDS:
            made.add_seed(name)
        yield made


def with_quota(kkp: Platform, project: str, cpu: int) -> list[UserCluster]:
    kkp.project(project)
    users = [kkp.seeds[seed].add(f"{project}-{seed}", project) for seed in SEEDS]
    kkp.set_quota(project, cpu=str(cpu))
    kkp.in_force(project)
    return users


def there(users: list[UserCluster]) -> int:
    return sum(len(user.names()) for user in users)


class Crowd:
    """Clients who each want one machine, and ask until they have it or nobody wants to hear of it any more."""

    def __init__(self, users: list[UserCluster], number: int) -> None:
        self._users = users
        self._number = number
        self.stop = threading.Event()
        self.answers: Counter[int] = Counter()
        self._lock = threading.Lock()

    def run(self, pool: ThreadPoolExecutor) -> None:
        for number in range(self._number):
            pool.submit(self._want, self._users[number % len(self._users)], f"m-{number}")

    def _want(self, user: UserCluster, name: str) -> None:
        while not self.stop.is_set():
            try:
                code = user.ask(name).code
            except Exception:  # the connection broke: it may be there or not
                code = NO_ANSWER
            with self._lock:
                self.answers[code] += 1
            if code in (CREATED, 409):
                return
            self.stop.wait(random.uniform(0.2, 1.0))


def test_of_400_machines_at_once_on_three_seeds_exactly_100_come_while_processes_are_killed(kkp: Platform) -> None:
    users = with_quota(kkp, "race", QUOTA)
    crowd = Crowd(users, CLIENTS)
    chance = random.Random(7)
    targets: list[tuple[Processes, str]] = [(kkp.processes, CONTROLLER)]
    targets += [(seed.processes, name) for seed in kkp.seeds.values() for name in (CONTROLLER, WEBHOOK)]
    most = 0
    with ThreadPoolExecutor(CLIENTS) as pool:
        crowd.run(pool)
        try:
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.1, 0.8))
                processes, name = chance.choice(targets)
                processes.kill(name)
                most = max(most, there(users))
                assert most <= QUOTA, "machines only come: so many are there at one moment"
            eventually("all of it is used", lambda: there(users) >= QUOTA, seconds=240, every=0.5)
            time.sleep(2.0)  # whoever still asks has time to get one too many
        finally:
            crowd.stop.set()
    assert there(users) == QUOTA, crowd.answers
    eventually_is("it is counted", str(QUOTA), lambda: kkp.used("race").get("cpu"))
    assert set(crowd.answers) <= {CREATED, FORBIDDEN, 409, 429, 500, 504, NO_ANSWER}, crowd.answers


def test_a_seed_that_is_cut_off_goes_on_within_its_grant_and_no_further(kkp: Platform) -> None:
    users = with_quota(kkp, "split", 12)
    near, far, other = users
    cut = kkp.seeds["ams"]
    grant = int(cut.limits("split")["cpu"])
    assert 0 < grant < 12
    cut.line.cut()
    try:
        eventually_is("the master notices", "False", lambda: kkp.condition("split", "UsageFresh").get("status"))

        # It admits what it was granted, and no more, without a word to the master.
        answers = [far.ask(f"far-{number}").code for number in range(12)]
        assert answers.count(CREATED) == grant, answers
        assert len(far.names()) == grant

        # The others use what is left between them, and nothing of what is granted to the one that is away.
        def fill() -> bool:
            for user in (near, other):
                user.ask(f"m-{len(user.names())}")
            return len(near.names()) + len(other.names()) >= 12 - grant

        eventually("the others use the rest", fill, seconds=240, every=0.2)
        assert there(users) == 12
        assert {user.ask("more", dry_run=True).code for user in users} == {FORBIDDEN}
        assert "ams" in kkp.condition("split", "UsageFresh")["message"]
    finally:
        cut.line.mend()

    # It is back: what it used is known, and what is freed there may be used elsewhere.
    eventually_is(
        "its figures are those of now", "True", lambda: kkp.condition("split", "UsageFresh").get("status"), seconds=120
    )
    eventually_is("all is counted", "12", lambda: kkp.used("split").get("cpu"))
    for name in far.names():
        far.delete(name)

    def move() -> bool:
        near.ask(f"m-{len(near.names())}")
        return there(users) == 12

    eventually("all room is usable again", move, seconds=240, every=0.2)
    assert not far.names()
