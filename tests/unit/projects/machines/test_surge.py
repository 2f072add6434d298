"""How far a rolling replacement may pass the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.projects.machines.builders import LARGE, SMALL, room, size
from ullage.ledger.amounts import Amounts
from ullage.projects.machines.facts import Room, times
from ullage.projects.machines.surge import (
    DeploymentFacts,
    OwnedMachine,
    SetFacts,
    SurgeAllowance,
    SurgeSetting,
    allowance,
    max_surge_of,
    within,
)
from ullage.quantity import Quantity

WEB = DeploymentFacts(uid="d-1", name="web", replicas=10, template="new", max_surge=1)
OLD = SetFacts(uid="s-old", owner="d-1", template="old", revision="1")
NEW = SetFacts(uid="s-new", owner="d-1", template="new", revision="2")
FULL = room("20", "20")  # ten machines of two cores


def owned(number: int, owner: str = "s-old", amounts: Amounts = SMALL) -> list[OwnedMachine]:
    return [OwnedMachine(uid=f"{owner}-{one}", owner=owner, amounts=amounts) for one in range(number)]


def found(
    deployment: DeploymentFacts = WEB,
    sets: tuple[SetFacts, ...] = (OLD, NEW),
    machines: list[OwnedMachine] | None = None,
    *,
    setting: SurgeSetting = "replace",
    creator: str = "s-new",
    amounts: Amounts = SMALL,
    rooms: dict[str, Room] = FULL,
) -> SurgeAllowance:
    held = owned(10) if machines is None else machines
    return allowance(deployment, sets, held, setting=setting, creator=creator, size=amounts, room=rooms)


@pytest.mark.parametrize(
    ("written", "replicas", "surge"),
    [
        pytest.param(None, 10, 1, id="nothing said"),
        pytest.param(3, 10, 3, id="a number"),
        pytest.param(0, 10, 0, id="none"),
        pytest.param("25%", 10, 3, id="a percentage is rounded up"),
        pytest.param("20%", 10, 2, id="a percentage that needs no rounding"),
        pytest.param("1%", 3, 1, id="the least is one"),
        pytest.param("0%", 3, 0, id="nothing of a hundred"),
        pytest.param("100%", 7, 7, id="all"),
        pytest.param("50%", 0, 0, id="of no replicas"),
        pytest.param(-1, 10, 0, id="less than none"),
        pytest.param("-5%", 10, 0, id="less than none of a hundred"),
        pytest.param("3", 10, 0, id="a number as text"),
        pytest.param("abc", 10, 0, id="no number"),
        pytest.param("9" * 5000 + "%", 10, 0, id="of hostile length"),
        pytest.param(True, 10, 0, id="a truth"),
        pytest.param([1], 10, 0, id="a list"),
    ],
)
def test_max_surge_is_read_as_kubernetes_does(written: object, replicas: int, surge: int) -> None:
    assert max_surge_of(written, replicas) == surge


def test_a_replacement_may_pass_the_limit_by_what_it_replaces() -> None:
    assert found() == SurgeAllowance(
        number=1, amounts=SMALL, revision=2, new=0, old=10, why="MachineDeployment web replaces machines by those of revision 2"
    )


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        pytest.param({"setting": "strict"}, "the setting surge is strict", id="strict"),
        pytest.param(
            {"deployment": replace(WEB, paused=True)},
            "MachineDeployment web is not replacing machines: it is paused",
            id="paused",
        ),
        pytest.param(
            {"deployment": replace(WEB, deleting=True)},
            "MachineDeployment web is not replacing machines: it is being deleted",
            id="being deleted",
        ),
        pytest.param(
            {"deployment": replace(WEB, rolling=False)},
            "MachineDeployment web is not replacing machines: its strategy is another",
            id="not rolling",
        ),
        pytest.param(
            {"creator": "s-old"},
            "the Machine is not of the newest MachineSet of MachineDeployment web",
            id="an old set scales up",
        ),
        pytest.param(
            {"creator": ""}, "the Machine is not of the newest MachineSet of MachineDeployment web", id="made by hand"
        ),
        pytest.param(
            {"machines": [*owned(10), *owned(1, "s-new")]},
            "MachineDeployment web has all its replicas, and 1 beyond",
            id="used up",
        ),
        pytest.param(
            {"machines": [*owned(1), *owned(10, "s-new")]},
            "MachineDeployment web has all its replicas, and 1 beyond",
            id="all new",
        ),
        pytest.param(
            {"machines": []}, "MachineDeployment web would not fit when all is replaced", id="nothing to replace, full"
        ),
        pytest.param(
            {"amounts": LARGE}, "MachineDeployment web would not fit when all is replaced", id="by larger ones that do not fit"
        ),
        pytest.param(
            {"deployment": replace(WEB, replicas=11)},
            "MachineDeployment web would not fit when all is replaced",
            id="scaled up in the same breath",
        ),
        pytest.param(
            {"rooms": room("20", "19")}, "MachineDeployment web would not fit when all is replaced", id="the limit was lowered"
        ),
    ],
)
def test_there_is_no_allowance(changed: dict[str, Any], why: str) -> None:
    none = found(**changed)
    assert none.why == why
    assert (none.number, none.amounts) == (0, Amounts())


@pytest.mark.parametrize(
    ("changed", "replaces"),
    [
        pytest.param({"setting": "strict"}, True, id="a replacement that the setting does not let in"),
        pytest.param({"amounts": LARGE}, True, id="a replacement by larger machines"),
        pytest.param({"machines": owned(3, "s-new")}, False, id="more of the newest, where no other is left"),
        pytest.param({"creator": "s-old"}, False, id="more of an old set"),
        pytest.param({"creator": "", "setting": "strict"}, False, id="made by hand"),
    ],
)
def test_whoever_replaces_is_told_how_to_make_room_first(changed: dict[str, Any], replaces: bool) -> None:
    none = found(**changed)
    assert none.amounts == Amounts()
    assert none.replaces == replaces


@pytest.mark.parametrize(
    "sets",
    [
        pytest.param((OLD, replace(NEW, owner="")), id="the new one is nobody's"),
        pytest.param((OLD, replace(NEW, owner="d-2")), id="the new one is another deployment's"),
        pytest.param((OLD, replace(NEW, revision="")), id="the new one has no revision"),
        pytest.param((OLD, replace(NEW, revision="1")), id="both have one revision"),
        pytest.param((replace(OLD, revision="3"), NEW), id="the old one claims a later revision"),
        pytest.param((OLD, replace(NEW, revision="9" * 5000)), id="a revision of hostile length"),
        pytest.param((OLD, replace(NEW, revision="-1")), id="a revision below nothing"),
        pytest.param((OLD, replace(NEW, revision="\u0662")), id="a revision in other digits"),
        pytest.param((replace(OLD, revision="x"), NEW), id="the old one has no revision that can be read"),
        pytest.param((OLD, replace(NEW, template="third")), id="the new one is not of the deployment's template"),
        pytest.param((replace(OLD, template="new"), NEW), id="both are of one template"),
        pytest.param((), id="there are none"),
    ],
)
def test_a_revision_that_is_not_certainly_the_newest_gets_none(sets: tuple[SetFacts, ...]) -> None:
    assert found(sets=sets).amounts == Amounts()


def test_a_deployment_without_a_uid_owns_nothing() -> None:
    sets = (replace(OLD, owner=""), replace(NEW, owner=""))
    assert found(replace(WEB, uid=""), sets).amounts == Amounts()


@pytest.mark.parametrize(
    ("max_surge", "old", "number"),
    [
        pytest.param(1000, 10, 10, id="a thousand are as many as there are old ones"),
        pytest.param("100%", 10, 10, id="all of them"),
        pytest.param("100%", 4, 4, id="all that are still there"),
        pytest.param("25%", 10, 3, id="a quarter, rounded up"),
        pytest.param(2, 1, 1, id="one old machine is left"),
        pytest.param(5, 0, 0, id="no old machine is left"),
    ],
)
def test_never_more_than_old_machines_are_there(max_surge: object, old: int, number: int) -> None:
    new = 10 - old
    held = [*owned(old), *owned(max(0, new - 1), "s-new")]
    rooms = room(str(2 * len(held)), "20")
    result = found(replace(WEB, max_surge=max_surge), machines=held, rooms=rooms)
    assert (result.number, result.amounts) == (number, times(SMALL, number))


def test_of_machines_that_differ_the_smallest_are_what_is_replaced() -> None:
    tiny = size("1", "8Gi", "20Gi")
    held = [*owned(2), OwnedMachine(uid="t", owner="s-old", amounts=tiny)]
    result = found(replace(WEB, replicas=3, max_surge=2), machines=held, rooms=room("5", "6"))
    assert result.amounts == size("3", "8Gi", "40Gi")


def test_larger_machines_may_pass_it_by_what_the_smaller_ones_take() -> None:
    """Where all of them fit in the end."""
    result = found(replace(WEB, replicas=2), machines=owned(2), amounts=LARGE, rooms=room("4", "8"))
    assert result.amounts == SMALL


def test_machines_of_others_are_not_what_is_replaced() -> None:
    held = [*owned(10, "s-of-others"), *owned(2)]
    result = found(replace(WEB, replicas=2, max_surge="100%"), machines=held, rooms=room("24", "24"))
    assert (result.number, result.old) == (2, 2)


def test_one_machine_that_is_listed_twice_is_one() -> None:
    result = found(replace(WEB, replicas=1, max_surge=9), machines=[*owned(1), *owned(1)], rooms=room("2", "2"))
    assert (result.number, result.old) == (1, 1)


def test_what_was_let_in_beyond_the_limit_is_not_replaced_by_more() -> None:
    """A deployment of ten at the limit, with as many again for a replacement. Its template is changed a second time: those
    twenty are no reason to let in twenty more, nor are twenty replicas."""
    third = SetFacts(uid="s-3", owner="d-1", template="third", revision="3")
    held = [*owned(10), *owned(10, "s-new")]
    changed = replace(WEB, template="third", max_surge="100%")
    for replicas in (10, 20, 1000):
        result = found(replace(changed, replicas=replicas), (OLD, NEW, third), held, creator="s-3", rooms=room("40", "20"))
        assert result.amounts == Amounts()


@pytest.mark.parametrize(
    ("over", "may"),
    [
        pytest.param({"cpu": "2"}, True, id="exactly what is replaced"),
        pytest.param({"cpu": "2001m"}, False, id="a thousandth more"),
        pytest.param({"cpu": "-5", "memory": "4Gi"}, True, id="what is not over does not matter"),
        pytest.param({"cpu": "1", "memory": "5Gi"}, False, id="all resources have to be within"),
        pytest.param({"gpu": "1"}, False, id="what it does not take"),
        pytest.param({}, True, id="nothing is over"),
    ],
)
def test_the_whole_project_has_to_be_within_the_allowance_of_one(over: dict[str, str], may: bool) -> None:
    assert within(found(), {name: Quantity.parse(text) for name, text in over.items()}) == may
