"""What MachineDeployments are told before their Machines are."""

from __future__ import annotations

import pytest

from tests.unit.projects.machines.builders import LARGE, SMALL, room
from ullage.ledger.amounts import Amounts
from ullage.projects.machines.deployments import Early, Wish, exceeded, review_wish
from ullage.projects.machines.facts import Room
from ullage.projects.machines.wholes import Whole, Wholes
from ullage.quantity import Quantity

ENFORCED = {"ullage.io/enforce-early": "true"}
FULL = room("18", "20", reserved="1")  # of cpu; one core is left


def wish(replicas: int | None, size: Amounts | None = SMALL) -> Wish:
    return Wish(replicas=replicas, size=size)


def answer(before: Wish | None, after: Wish, rooms: dict[str, Room]) -> Early | None:
    return review_wish("web", before, after, room=rooms, project="p-1", annotations={})


@pytest.mark.parametrize(
    ("before", "after", "rooms", "told"),
    [
        pytest.param(None, wish(1), room("18", "20"), False, id="created, and exactly full is allowed"),
        pytest.param(None, wish(1), room("18", "20", reserved="1m"), True, id="created, and a thousandth over"),
        pytest.param(None, wish(None), room("19", "20"), True, id="created without replicas is one"),
        pytest.param(None, wish(0), room("30", "20"), False, id="created without machines, over the limit"),
        pytest.param(None, wish(3), room("0", None), False, id="no limit"),
        pytest.param(None, wish(1), room("0", "0"), True, id="a limit of zero allows none"),
        pytest.param(None, wish(3), {}, False, id="no quota at all"),
        pytest.param(wish(3), wish(4), FULL, True, id="scaled up"),
        pytest.param(wish(3), wish(3), FULL, False, id="edited otherwise"),
        pytest.param(wish(4), wish(3), room("99", "20"), False, id="scaled down, over the limit"),
        pytest.param(wish(None), wish(2), FULL, True, id="from the one that it had without saying so"),
        pytest.param(wish(2), wish(2, LARGE), FULL, True, id="to larger machines"),
        pytest.param(wish(4), wish(2, LARGE), FULL, False, id="to fewer and larger ones that take the same"),
        pytest.param(wish(3), wish(9, None), FULL, False, id="a size that nobody knows is looked up first"),
        pytest.param(wish(3, None), wish(4), FULL, False, id="a size that nobody knew is not asked for as new"),
        pytest.param(wish(-5), wish(0), FULL, False, id="less than none is none"),
        pytest.param(None, wish(2**31 - 1), room("0", "1E"), False, id="as many as there can be, in a quota that holds them"),
        pytest.param(None, wish(1), room("0", "1Mi", resource="gpu"), False, id="a limit on what it does not take"),
    ],
)
def test_growth_that_does_not_fit_is_told(before: Wish | None, after: Wish, rooms: dict[str, Room], told: bool) -> None:
    found = answer(before, after, rooms)
    assert (found is not None) == told
    assert found is None or not found.refused
    enforced = review_wish("web", before, after, room=rooms, project="p-1", annotations=ENFORCED)
    assert (enforced is not None and enforced.refused) == told


def test_a_warning_has_the_numbers_of_all_machines_together() -> None:
    rooms = room("18", "20", reserved="1") | room("0", "10Gi", resource="memory")
    assert answer(None, wish(4), rooms) == Early(
        False,
        "MachineDeployment web: 4 machines do not fit the project's quota: cpu is over by 7 cores, memory is over by 6Gi;"
        " what is beyond is refused",
    )


def test_a_refusal_says_why_it_is_one() -> None:
    found = review_wish("web", wish(3), wish(5), room=FULL, project="p-1", annotations=ENFORCED)
    assert found is not None
    assert found.message.startswith(
        "MachineDeployment web would not get its 5 machines (ullage.io/enforce-early is true): requested CPU"
        ' "4" would exceed current quota (quota/used "20"/"18"): asked 4 cores, used 18 cores, reserved 1 core, quota 20 cores,'
        " over by 3 cores. Next: ullage usage --group-by cluster project/p-1"
    )


@pytest.mark.parametrize(
    ("used", "refused"),
    [
        pytest.param("57", True, id="the project is full on all seeds"),
        pytest.param("25", False, id="only this seed's part is: its machines ask for more"),
        pytest.param(None, False, id="nobody knows what the others use"),
    ],
)
def test_a_deployment_is_refused_only_where_the_project_has_no_room(used: str | None, refused: bool) -> None:
    whole = Whole(Quantity.parse("60"), Quantity.parse(used) if used is not None else None)
    found = review_wish("web", wish(3), wish(5), room=FULL, project="p-1", annotations=ENFORCED, wholes=Wholes({"cpu": whole}))
    assert found is not None
    assert found.refused is refused
    assert ("room may come from others" in found.message) is not refused
    assert ('(quota/used "60"/"57"): asked 4 cores, used 57 cores on all seeds' in found.message) is refused


@pytest.mark.parametrize("value", ["True", "false", "", "1", " true"])
def test_only_true_enforces(value: str) -> None:
    found = review_wish("web", None, wish(9), room=FULL, project="p-1", annotations={"ullage.io/enforce-early": value})
    assert found is not None
    assert not found.refused


def test_what_is_exceeded_comes_in_the_order_of_kkp() -> None:
    rooms = room("0", "0", resource="storage") | room("0", "0", resource="memory") | room("0", "0")
    assert [one.resource for one in exceeded(SMALL, rooms)] == ["cpu", "memory", "storage"]
