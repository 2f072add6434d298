"""The master's record, as it is stored and read back."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.projects.escrow.world import BEGIN
from ullage.errors import BadInput
from ullage.ledger.amounts import Cell
from ullage.projects.escrow.terms import Escrow, Part, Share
from ullage.quantity import Quantity

FULL: dict[str, Any] = {
    "eu": {
        "change": 7,
        "reached": 6,
        "target": {"cpu": "1500m", "memory": "2Gi"},
        "granted": {"cpu": "3"},
        "turn": "2026-11-16T12:00:00.000000Z",
        "drained": True,
        "taken": {"cpu": "0"},
    },
    "us": {"change": 2},
}


def test_it_reads_as_it_was_written() -> None:
    escrow = Escrow(
        {
            "us": Share(2),
            "eu": Share(
                7,
                6,
                {
                    "memory": Part(None, Quantity.parse("2Gi")),
                    "cpu": Part(Quantity.of(3), Quantity.parse("1.5")),
                },
                BEGIN,
                drained=True,
                taken={"cpu": Quantity.of(0)},
            ),
        }
    )
    assert escrow.written() == FULL
    assert list(escrow.written()) == ["eu", "us"], "in order"
    assert Escrow.parse(FULL) == escrow
    assert Escrow.parse({}) == Escrow()


def test_a_share_s_limits_are_its_targets() -> None:
    share = Escrow.parse(FULL).shares["eu"]
    assert share.limits == {
        Cell("machines", "cpu"): Quantity.parse("1.5"),
        Cell("machines", "memory"): Quantity.parse("2Gi"),
    }


@pytest.mark.parametrize(
    ("stored", "granted"),
    [
        pytest.param({"eu": {"change": 1, "target": {"cpu": "3"}, "granted": {"cpu": "5"}}}, "5", id="not what it is told"),
        pytest.param({"eu": {"change": 1, "target": {"cpu": "3"}}}, None, id="it may be without a limit"),
        pytest.param({"eu": {"change": 1}}, None, id="it has none"),
        pytest.param(
            {
                "eu": {"change": 1, "target": {"cpu": "3"}, "granted": {"cpu": "5"}},
                "us": {"change": 1, "target": {"cpu": "0"}, "granted": {"cpu": "500m"}},
            },
            "5500m",
            id="the sum",
        ),
    ],
)
def test_what_is_granted(stored: object, granted: str | None) -> None:
    assert Escrow.parse(stored).granted("cpu") == (None if granted is None else Quantity.parse(granted))


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        pytest.param(None, "escrow None: an object is allowed here", id="no record at all is not an empty one"),
        pytest.param({"eu": 3}, "escrow.eu 3: an object is allowed here", id="a seed that is a number"),
        pytest.param({3: {}}, "escrow {3: {}}: an object is allowed here", id="a seed without a name"),
        pytest.param({"eu": {"change": -1}}, "escrow.eu.change -1: a whole number of 0 or more is allowed", id="below zero"),
        pytest.param({"eu": {"change": "7"}}, "escrow.eu.change 7: a whole number of 0 or more is allowed", id="a text"),
        pytest.param({"eu": {"reached": True}}, "escrow.eu.reached True: a whole number of 0 or more is allowed", id="a yes"),
        pytest.param({"eu": {"target": ["cpu"]}}, "escrow.eu.target ['cpu']: an object of texts is allowed here", id="a list"),
        pytest.param(
            {"eu": {"target": {"cpu": 3}}}, "escrow.eu.target {'cpu': 3}: an object of texts is allowed here", id="a number"
        ),
        pytest.param(
            {"eu": {"target": {"cpu": "3"}, "granted": {"cpu": "2"}}},
            "escrow.eu.granted.cpu 2: no less than the target of 3 is allowed",
            id="less granted than told",
        ),
        pytest.param({"eu": {"target": {"cpu": "-3"}}}, "escrow.eu.target.cpu -3: an amount is not negative", id="negative"),
        pytest.param(
            {"eu": {"target": {"cpu": "3"}, "granted": {"disk": "2"}}},
            "escrow.eu.granted disk: only what has a target is allowed: cpu",
            id="granted without a target",
        ),
        pytest.param(
            {"eu": {"granted": {"disk": "2"}}},
            "escrow.eu.granted disk: only what has a target is allowed: nothing",
            id="granted without any target",
        ),
        pytest.param(
            {"eu": {"turn": "noon"}},
            "escrow.eu.turn noon: a time like 2026-11-16T21:00:00Z is allowed",
            id="a text that is no time",
        ),
        pytest.param({"eu": {"drained": "yes"}}, "escrow.eu.drained yes: true or false is allowed", id="a text for a yes"),
        pytest.param(
            {"eu": {"taken": {"cpu": "-1"}}}, "escrow.eu.taken.cpu -1: an amount is not negative", id="less than none"
        ),
        pytest.param(
            {"eu": {"turn": 3}}, "escrow.eu.turn 3: a time like 2026-11-16T21:00:00Z is allowed", id="a number for a time"
        ),
    ],
)
def test_a_damaged_record_is_not_taken_for_another(stored: object, message: str) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
        Escrow.parse(stored)


def test_no_less_is_granted_than_told() -> None:
    with pytest.raises(BadInput, match=r"^granted 2: no less than the target of 3 is allowed$"):
        Part(Quantity.of(2), Quantity.of(3))
