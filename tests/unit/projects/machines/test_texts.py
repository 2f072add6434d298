"""What people are told about Machines and MachineDeployments."""

from __future__ import annotations

import pytest

from tests.unit.projects.machines.builders import over, size
from ullage.ledger.book import Over
from ullage.projects.machines.texts import (
    LONGEST_WARNING,
    away_text,
    changed_cost_text,
    early_refusal_text,
    early_warning_text,
    over_text,
    refusal_text,
    rolling_step,
    room_step,
    surge_text,
    unknown_size_text,
)
from ullage.projects.machines.wholes import Whole, Wholes
from ullage.quantity import Quantity

CPU = over("cpu", "6", "18", "20", reserved="1")
MEMORY = over("memory", "16Gi", "20Gi", "32Gi")
DISK = over("storage", "100Gi", "950Gi", "1Ti", reserved="50Gi")


@pytest.mark.parametrize(
    ("one", "said"),
    [
        pytest.param(CPU, 'requested CPU "6" would exceed current quota (quota/used "20"/"18")', id="cpu"),
        pytest.param(MEMORY, 'requested Memory "16Gi" would exceed current quota (quota/used "32Gi"/"20Gi")', id="memory"),
        pytest.param(DISK, 'requested disk size "100Gi" would exceed current quota (quota/used "1Ti"/"950Gi")', id="disk"),
        pytest.param(
            over("cpu", "500m", "0", "0"),
            'requested CPU "500m" would exceed current quota (quota/used "0"/"0")',
            id="zero is none",
        ),
    ],
)
def test_it_begins_in_the_words_of_kkp(one: Over, said: str) -> None:
    assert over_text(one).startswith(f"{said}: asked ")


def test_all_that_is_exceeded_is_said_at_once_with_every_number_and_a_next_step() -> None:
    assert refusal_text([DISK, MEMORY, CPU], next_step=room_step("p-1")) == (
        'requested CPU "6" would exceed current quota (quota/used "20"/"18"): asked 6 cores, used 18 cores, reserved 1 core,'
        " quota 20 cores, over by 5 cores; "
        'requested Memory "16Gi" would exceed current quota (quota/used "32Gi"/"20Gi"): asked 16Gi, used 20Gi, reserved 0,'
        " quota 32Gi, over by 4Gi; "
        'requested disk size "100Gi" would exceed current quota (quota/used "1Ti"/"950Gi"): asked 100Gi, used 950Gi,'
        " reserved 50Gi, quota 1Ti, over by 76Gi. "
        "Next: ullage usage --group-by cluster project/p-1, then delete machines or scale down, or have the quota raised"
    )


def wholes(limit: str, used: str | None, *, stale: str = "", resource: str = "cpu") -> Wholes:
    return Wholes({resource: Whole(Quantity.parse(limit), Quantity.parse(used) if used is not None else None)}, stale)


OVER_ALL = (
    'requested CPU "6" would exceed current quota (quota/used "60"/"58"): asked 6 cores, used 58 cores on all seeds, quota 60'
    " cores, over by 4 cores (on this seed: used 18 cores, reserved 1 core, granted to it 20 cores)"
)
OVER_PART = (
    'requested CPU "6" would exceed current quota (quota/used "60"/"25") on this seed: asked 6 cores, used 18 cores on this'
    " seed, reserved 1 core, granted to it 20 cores, over by 5 cores (on all seeds: used 25 cores of 60 cores)"
)
AGAIN = "Next: try again in a moment, since room may come from other seeds, or x"


@pytest.mark.parametrize(
    ("quota", "said"),
    [
        pytest.param(wholes("60", "58"), f"{OVER_ALL}. Next: x", id="the project is full on all seeds"),
        pytest.param(wholes("60", "25"), f"{OVER_PART}. {AGAIN}", id="only this seed's part is: others may give room"),
        pytest.param(
            wholes("60", "54"),
            f"{OVER_PART.replace('25', '54')}. {AGAIN}",
            id="it would fit the whole exactly: so it is the part",
        ),
        pytest.param(
            wholes("60", "25", stale="out of reach: b since 2026-05-01T10:00:00Z; the last figures count"),
            f"{OVER_PART}. What is used on all seeds is not all of now: out of reach: b since 2026-05-01T10:00:00Z; the last"
            f" figures count. {AGAIN}",
            id="figures that are not of now are said to be so",
        ),
        pytest.param(
            wholes("60", "3"),
            f"{OVER_PART.replace('25', '18')}. {AGAIN}",
            id="the master is behind: no less than is used here",
        ),
        pytest.param(
            wholes("60", None, stale="nobody has counted"),
            'requested CPU "6" would exceed current quota (quota/used "20"/"18") on this seed: asked 6 cores, used 18 cores on'
            " this seed, reserved 1 core, granted to it 20 cores of 60 cores in all, over by 5 cores (what is used on all seeds"
            f" is not known). {AGAIN}",
            id="nobody has counted all seeds: no number stands for that",
        ),
        pytest.param(
            wholes("20", "24"),
            'requested CPU "6" would exceed current quota (quota/used "20"/"24"): asked 6 cores, used 24 cores on all seeds,'
            " quota 20 cores, over by 10 cores (on this seed: used 18 cores, reserved 1 core, granted to it 20 cores). Next: x",
            id="it has the whole, and others use some past their limits",
        ),
    ],
)
def test_the_project_s_usage_stands_beside_its_quota_and_this_seed_s_beside_its_part(quota: Wholes, said: str) -> None:
    assert refusal_text([CPU], next_step="x", wholes=quota) == said


def test_where_one_resource_is_full_on_all_seeds_nobody_is_told_to_try_again() -> None:
    memory = wholes("96Gi", "40Gi", resource="memory")
    said = refusal_text([MEMORY, CPU], next_step="x", wholes=Wholes({**wholes("60", "58").of, **memory.of}))
    assert said == (
        f'{OVER_ALL}; requested Memory "16Gi" would exceed current quota (quota/used "96Gi"/"40Gi") on this seed: asked 16Gi,'
        " used 20Gi on this seed, reserved 0, granted to it 32Gi, over by 4Gi (on all seeds: used 40Gi of 96Gi). Next: x"
    )


@pytest.mark.parametrize("used", ["18", "3", None])
def test_a_seed_that_has_the_whole_quota_says_nothing_of_parts(used: str | None) -> None:
    said = refusal_text([CPU], next_step="x", wholes=wholes("20000m", used, stale="somebody is away"))
    assert said == (
        'requested CPU "6" would exceed current quota (quota/used "20"/"18"): asked 6 cores, used 18 cores, reserved 1 core,'
        " quota 20 cores, over by 5 cores. Next: x"
    )


def test_amounts_without_a_suffix_are_shown_with_a_unit_too() -> None:
    assert "asked 16Gi, used 1 byte, reserved 0, quota 0, over by 16.01Gi" in over_text(over("memory", "17179869184", "1", "0"))


def test_a_rolling_replacement_is_told_what_to_set() -> None:
    assert refusal_text([CPU], next_step=rolling_step("web")).endswith(
        "Next: let machines be removed before new ones come: set spec.strategy.rollingUpdate.maxUnavailable of"
        " MachineDeployment web to 1 and maxSurge to 0, or have the quota raised"
    )


@pytest.mark.parametrize(
    ("looked_up", "step"),
    [
        pytest.param(True, "it is being looked up, try again in a minute", id="somebody asks the provider"),
        pytest.param(
            False, "correct spec.providerSpec, or ask the administrator which sizes there are", id="only an edit helps"
        ),
    ],
)
def test_an_unknown_flavour_is_named(looked_up: bool, step: str) -> None:
    assert unknown_size_text("web-1", "the size of 't9.huge' of aws is not known yet", looked_up=looked_up) == (
        "error getting machine resource request: the size of 't9.huge' of aws is not known yet. The project has a quota, so"
        f" Machine web-1 is not created. Next: {step}"
    )


def test_a_reason_of_hostile_length_is_cut() -> None:
    said = unknown_size_text("web-1", "r" * 1_000_000, looked_up=False)
    assert f": {'r' * 511}…. The project" in said


def test_where_nobody_can_be_asked_it_says_what_goes_on_all_the_same() -> None:
    assert away_text("web-1", problem="the ledger project-p-1 did not answer within 8 s") == (
        "Machine web-1 is not created: whether it fits the project's quota cannot be asked now (the ledger project-p-1 did not"
        " answer within 8 s). Machines that are there are not touched, and may be changed and deleted. Next: try again in a"
        " moment"
    )


def test_a_changed_cost_names_only_what_changes() -> None:
    said = changed_cost_text("web-1", size("2", "4Gi", "0"), size("2", "4Gi", "25Gi"))
    assert said.startswith("spec.providerSpec: Machine web-1 would take storage 25Gi instead of 0; a server keeps the size")


def test_a_deployment_that_is_refused_is_told_why_and_by_what() -> None:
    assert early_refusal_text("web", 5, [CPU], next_step=room_step("p-1")) == (
        "MachineDeployment web would not get its 5 machines (ullage.io/enforce-early is true): "
        'requested CPU "6" would exceed current quota (quota/used "20"/"18"): asked 6 cores, used 18 cores, reserved 1 core,'
        " quota 20 cores, over by 5 cores."
        " Next: ullage usage --group-by cluster project/p-1, then delete machines or scale down, or have the quota raised"
    )


def test_a_warning_is_short_enough_to_be_shown_whole() -> None:
    said = early_warning_text("web", 1, [MEMORY, CPU])
    assert said == (
        "MachineDeployment web: 1 machine does not fit the project's quota: cpu is over by 5 cores, memory is over by 4Gi;"
        " what is beyond is refused"
    )
    longest = early_warning_text("w" * 63, 2**31 - 1, [CPU, MEMORY, DISK])
    assert len(longest) <= LONGEST_WARNING
    assert longest.endswith("what is beyond is refused")
    assert len(early_warning_text("w" * 253, 2**31 - 1, [CPU, MEMORY, DISK])) == LONGEST_WARNING


def test_a_warning_of_a_part_says_so_and_is_shown_whole_too() -> None:
    assert early_warning_text("web", 2, [CPU], wholes=wholes("60", "25")) == (
        "MachineDeployment web: 2 machines do not fit this seed's part of the quota now: cpu is over by 5 cores; room may come"
        " from others"
    )
    every = Wholes({one: Whole(Quantity.parse("9Ei"), Quantity.parse("0")) for one in ("cpu", "memory", "storage")})
    longest = early_warning_text("w" * 63, 2**31 - 1, [CPU, MEMORY, DISK], wholes=every)
    assert longest.endswith("; room may come from others")


def test_a_surge_says_what_is_replaced_and_what_is_passed() -> None:
    assert surge_text("web", revision=3, new=1, old=9, over=[CPU]) == (
        "MachineDeployment web is replacing 9 machines by those of revision 3, of which there are 1; until that is done the"
        " quota is passed: cpu by 5 cores"
    )
