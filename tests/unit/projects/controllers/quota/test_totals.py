"""What a project uses on all seeds: sums, seeds that are out of reach, seeds that have said nothing yet."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from tests.unit.projects.builders import NOW, details, quota, usage
from ullage.kube.objects import Condition
from ullage.projects.api.amounts import ResourceDetails
from ullage.projects.api.quotas import ResourceQuota, ResourceQuotaStatus, SeedUsage
from ullage.projects.controllers.quota_status_rules import SeedReport, Totals, age_of, next_step, totals, with_totals
from ullage.projects.quota import usage_of
from ullage.times import timestamp


def says(seed: str, used: ResourceDetails | None, **more: object) -> SeedReport:
    status = ResourceQuotaStatus(local_usage=used or details(), **more)  # type: ignore[arg-type]
    return SeedReport(seed, reachable=True, copy=quota(uid=f"on-{seed}", status=status))


def silent(seed: str) -> SeedReport:
    return SeedReport(seed, reachable=False)


def uncopied(seed: str) -> SeedReport:
    return SeedReport(seed, reachable=True)


def remembering(*seeds: SeedUsage, said: ResourceDetails | None = None) -> ResourceQuota:
    return quota(status=ResourceQuotaStatus(seeds=seeds, global_usage=said or details()))


def written(found: Totals) -> ResourceDetails | None:
    return None if found.usage is None else usage_of(found.usage)


HOUR_AGO = timestamp(NOW - timedelta(hours=1))
TWO = SeedUsage(name="b", usage=usage("2"))
LAST = "its last figures count"
NOT_KNOWN = "what it uses is not known"


@pytest.mark.parametrize(
    ("before", "reports", "total", "stale", "unknown"),
    [
        pytest.param(remembering(), [], usage("0"), (), (), id="no seed: zeros"),
        pytest.param(
            remembering(),
            [says("a", usage("1", "1Gi")), says("b", usage("2", "1Gi", "5Gi")), says("c", usage())],
            usage("3", "2Gi", "5Gi"),
            (),
            (),
            id="the sum of what all seeds say",
        ),
        pytest.param(
            remembering(TWO, said=usage("3")),
            [says("a", usage("4")), silent("b")],
            usage("6"),
            (f"seed b: out of reach for under a minute (since {timestamp(NOW)}); {LAST}",),
            (),
            id="a seed out of reach keeps its last figures",
        ),
        pytest.param(
            remembering(SeedUsage(name="b", usage=usage("2"), stale_since=HOUR_AGO)),
            [says("a", usage("1")), silent("b")],
            usage("3"),
            (f"seed b: out of reach for 1 hour (since {HOUR_AGO}); {LAST}",),
            (),
            id="and gets older",
        ),
        pytest.param(
            remembering(SeedUsage(name="b", usage=usage("2"), stale_since=HOUR_AGO)),
            [says("b", usage("5"))],
            usage("5"),
            (),
            (),
            id="until it says something again",
        ),
        pytest.param(
            remembering(TWO, said=usage("3")), [says("a", usage("1"))], usage("1"), (), (), id="a seed that was removed is gone"
        ),
        pytest.param(
            remembering(),
            [says("a", usage("1")), uncopied("b")],
            usage("1"),
            (),
            (f"seed b: the quota is not there yet; {NOT_KNOWN}",),
            id="a seed without a copy is unknown, not empty",
        ),
        pytest.param(
            remembering(said=usage("9", "1Gi")),
            [says("a", usage("1", "2Gi")), uncopied("b")],
            usage("9", "2Gi"),
            (),
            (f"seed b: the quota is not there yet; {NOT_KNOWN}",),
            id="while one is unknown nothing falls below what was said",
        ),
        pytest.param(
            remembering(TWO),
            [uncopied("b")],
            usage("2"),
            (),
            (f"seed b: the quota is not there yet; {LAST}",),
            id="a copy that somebody deleted takes no figures along",
        ),
        pytest.param(
            remembering(),
            [says("a", None)],
            None,
            (),
            (f"seed a: nobody has counted there yet; {NOT_KNOWN}",),
            id="while nobody has counted there is no total",
        ),
        pytest.param(
            remembering(),
            [silent("a")],
            None,
            (f"seed a: out of reach for under a minute (since {timestamp(NOW)}); {NOT_KNOWN}",),
            (),
            id="a seed that was never reached is unknown",
        ),
        pytest.param(
            remembering(said=usage("7")),
            [silent("a")],
            usage("7"),
            (f"seed a: out of reach for under a minute (since {timestamp(NOW)}); {NOT_KNOWN}",),
            (),
            id="where the definition drops what each seed said the total stays",
        ),
        pytest.param(
            remembering(TWO),
            [says("b", usage("-90"))],
            usage("2"),
            (),
            (f"seed b: status.localUsage.cpu -90: an amount is not negative; {LAST}",),
            id="less than nothing makes no room",
        ),
        pytest.param(
            remembering(SeedUsage(name="b", usage=usage("-90"))),
            [silent("b"), says("a", usage("1"))],
            usage("1"),
            (f"seed b: out of reach for under a minute (since {timestamp(NOW)}); {NOT_KNOWN}",),
            (),
            id="nor does less than nothing that is remembered",
        ),
        pytest.param(
            remembering(),
            [SeedReport("b", reachable=True, copy=quota("other", status=ResourceQuotaStatus(local_usage=usage("1"))))],
            None,
            (),
            (f"seed b: the quota there is about project other; {NOT_KNOWN}",),
            id="figures of another project do not count",
        ),
    ],
)
def test_what_is_used_on_all_seeds(
    before: ResourceQuota,
    reports: list[SeedReport],
    total: ResourceDetails | None,
    stale: tuple[str, ...],
    unknown: tuple[str, ...],
) -> None:
    found = totals(before, reports, now=NOW)
    assert (written(found), found.stale, found.unknown) == (total, stale, unknown)
    assert [seed.name for seed in found.seeds] == sorted(report.name for report in reports)


def test_what_a_seed_says_about_its_own_figures_is_passed_on_with_since_when() -> None:
    condition = Condition(
        type="LocalUsageFresh",
        status="False",
        reason="Incomplete",
        message="cluster x is not counted yet",
        last_transition_time=HOUR_AGO,
    )
    found = totals(quota(), [says("a", usage("1"), conditions=(condition,))], now=NOW)
    assert (written(found), found.unknown) == (usage("1"), ("seed a: cluster x is not counted yet",))
    assert found.seeds == (SeedUsage(name="a", usage=usage("1"), incomplete_since=HOUR_AGO),)
    whole = msgspec.structs.replace(condition, status="True")
    found = totals(quota(), [says("a", usage("1"), conditions=(whole,))], now=NOW)
    assert (found.unknown, found.seeds) == ((), (SeedUsage(name="a", usage=usage("1")),))


def test_a_seed_that_is_away_for_a_week_is_stale_since_the_first_moment_and_written_rarely() -> None:
    """What would be written changes a few times in the first hour and once a day after that, not every second."""
    kept, written_statuses = remembering(TWO, said=usage("2")), set()
    for minute in range(7 * 24 * 60):
        now = NOW + timedelta(minutes=minute)
        found = totals(kept, [silent("b")], now=now)
        kept = quota(status=with_totals(kept.status, found))
        written_statuses.add((found.stale, found.seeds))
    assert kept.status.seeds == (SeedUsage(name="b", usage=usage("2"), stale_since=timestamp(NOW)),)
    assert len(written_statuses) == 15
    assert totals(kept, [silent("b")], now=NOW + timedelta(days=7)).stale == (
        f"seed b: out of reach for 7 days (since {timestamp(NOW)}); {LAST}",
    )


@pytest.mark.parametrize(
    ("passed", "said", "next_in"),
    [
        (timedelta(seconds=59), "under a minute", timedelta(seconds=1)),
        (timedelta(minutes=1), "1 minute", timedelta(minutes=4)),
        (timedelta(minutes=9), "5 minutes", timedelta(minutes=1)),
        (timedelta(minutes=59), "30 minutes", timedelta(minutes=1)),
        (timedelta(hours=2), "1 hour", timedelta(hours=1)),
        (timedelta(hours=23), "12 hours", timedelta(hours=1)),
        (timedelta(hours=24), "1 day", timedelta(hours=24)),
        (timedelta(days=9, hours=1), "9 days", timedelta(hours=23)),
        (timedelta(hours=-3), "under a minute", timedelta(minutes=1)),
    ],
)
def test_an_age_is_said_in_steps_and_comes_up_again_at_the_next(passed: timedelta, said: str, next_in: timedelta) -> None:
    since = timestamp(NOW - passed)
    assert age_of(since, now=NOW) == said
    seeds = [SeedUsage(name="a"), SeedUsage(name="b", stale_since=since)]
    assert next_step(seeds, now=NOW) == next_in


def test_where_every_seed_is_there_nothing_comes_up_again() -> None:
    assert next_step([SeedUsage(name="a")], now=NOW) is None


def test_an_amount_that_has_not_changed_stays_as_it_is_written() -> None:
    before = ResourceQuotaStatus(global_usage=details(cpu="1000m", memory="0", storage="0"), local_usage=usage("1"))
    found = totals(quota(status=before), [says("a", usage("1"))], now=NOW)
    after = with_totals(before, found)
    assert (after.global_usage, after.local_usage) == (before.global_usage, usage("1"))
    assert with_totals(before, Totals(None, ())).global_usage == before.global_usage
