"""What a project would use, and the lines that say of what it is too much. Every sum is written out."""

from __future__ import annotations

import pytest

from ullage.errors import BadInput
from ullage.ledger.amounts import Amounts
from ullage.projects.calculation import MOST_REPLICAS, Replicas, calculate
from ullage.quantity import Quantity


def amounts(text: str) -> Amounts:
    """`5 10Gi 100G`: cpu, memory and storage; `-` for none."""
    return Amounts.parse(
        {name: one for name, one in zip(("cpu", "memory", "storage"), text.split(), strict=True) if one != "-"}
    )


def limits(text: str) -> dict[str, Quantity]:
    """In the same way, where `-` is no limit and 0 allows nothing."""
    written = zip(("cpu", "memory", "storage"), text.split(), strict=True)
    return {name: Quantity.parse(one) for name, one in written if one != "-"}


def machines(text: str) -> Replicas:
    """`3 x 2 4Gi 20G`."""
    count, size = text.split(" x ")
    return Replicas(int(count), amounts(size))


CPU = "Calculated cpu ({}) exceeds resource quota ({})\n"
MEMORY = "Calculated memory ({}) exceeds resource quota ({})\n"
DISK = "Calculated disk size ({}) exceeds resource quota ({})\n"


@pytest.mark.parametrize(
    ("quota", "used", "added", "replaced", "usage", "message"),
    [
        pytest.param("5 - -", "0 - -", "1 x 5 - -", None, "5 - -", "", id="exactly the quota is allowed"),
        pytest.param("5 - -", "2 - -", "3 x 2 - -", None, "8 - -", CPU.format(8, 5), id="one line in the peer's words"),
        pytest.param("5 - -", "5 - -", "1 x 1m - -", None, "5001m - -", CPU.format("5001m", 5), id="a thousandth is too much"),
        pytest.param("1500m - -", "- - -", "2 x 1 - -", None, "2 - -", CPU.format(2, "1500m"), id="a quota of parts of CPUs"),
        pytest.param("999 - -", "- - -", "1000 x 1 - -", None, "1k - -", CPU.format(1000, 999), id="1000 CPUs are not 1k"),
        pytest.param("1000m - -", "- - -", "1 x 1 - -", None, "1 - -", "", id="1000m are 1"),
        pytest.param("- - -", "9 9Gi 9Gi", "99 x 9 9Gi 9Gi", None, "900 900Gi 900Gi", "", id="what is absent has no limit"),
        pytest.param("0 0 0", "- - -", "0 x 9 9Gi 9Gi", None, "- - -", "", id="nothing fits into nothing"),
        pytest.param("0 - -", "- - -", "1 x 1 9Gi 9Gi", None, "1 9Gi 9Gi", CPU.format(1, 0), id="0 allows none"),
        pytest.param("- 0 -", "- - -", "1 x 1 1Gi 9Gi", None, "1 1Gi 9Gi", MEMORY.format("1Gi", 0), id="no memory"),
        pytest.param(
            "5 10Gi 100Gi",
            "4 8Gi 90Gi",
            "2 x 2 4Gi 10Gi",
            None,
            "8 16Gi 110Gi",
            CPU.format(8, 5) + MEMORY.format("16Gi", "10Gi") + DISK.format("110Gi", "100Gi"),
            id="a line for each, in order",
        ),
        pytest.param("5 - 100G", "5 - 80G", "1 x 1 - 20G", None, "6 - 100G", CPU.format(6, 5), id="only what is exceeded"),
        pytest.param("- 10Gi -", "- - -", "1 x - 10G -", None, "- 10G -", "", id="10G are less than 10Gi"),
        pytest.param(
            "- 10G -", "- - -", "1 x - 10Gi -", None, "- 10Gi -", MEMORY.format("10Gi", "9.31Gi"), id="10Gi are more than 10G"
        ),
        pytest.param(
            "- - 100G", "- - 50Gi", "1 x - - 50G", None, "- - 103687091200", DISK.format("96.57Gi", "93.13Gi"), id="Gi and G"
        ),
        pytest.param("- - 104G", "- - 50Gi", "1 x - - 50G", None, "- - 103687091200", "", id="50Gi and 50G fit into 104G"),
        pytest.param(
            "- 10Gi -",
            "- 10Gi -",
            "1 x - 1 -",
            None,
            "- 10737418241 -",
            MEMORY.format("10.01Gi", "10Gi"),
            id="a byte too many does not read like the quota",
        ),
        pytest.param("- 2G -", "- 500M -", "3 x - 500M -", None, "- 2G -", "", id="M and G are of one family"),
        pytest.param("- 1Ti -", "- 512Gi -", "2 x - 256Gi -", None, "- 1Ti -", "", id="Gi and Ti, too"),
        pytest.param("5 - -", "4 - -", "2 x 2 - -", "2 x 2 - -", "4 - -", "", id="what is replaced makes room first"),
        pytest.param("5 - -", "4 - -", "3 x 2 - -", "2 x 2 - -", "6 - -", CPU.format(6, 5), id="and no more than that"),
        pytest.param("5 - -", "4 - -", "0 x 2 - -", "2 x 2 - -", "- - -", "", id="scaled down to nothing"),
        pytest.param(
            "5 - -", "1 - -", "6 x 1 - -", "9 x 9 - -", "6 - -", CPU.format(6, 5), id="more than used is not taken off"
        ),
        pytest.param(
            "5 8Gi -", "2 9Gi -", "1 x 1 2Gi -", "9 x 1 1Gi -", "1 2Gi -", "", id="each resource is taken off for itself"
        ),
        pytest.param(
            "- - 30G", "- - 20Gi", "1 x - - 20Gi", "1 x - - 20G", "- - 22949672960", "", id="20G come off 20Gi, and 20Gi go on"
        ),
        pytest.param(
            "5 - -", "7 - -", "1 x 2 - -", "1 x 2 - -", "7 - -", CPU.format(7, 5), id="a quota that was lowered is still told"
        ),
        pytest.param("5 - -", "7 - -", "1 x 1 - -", "1 x 3 - -", "5 - -", "", id="shrinking back into a lowered quota fits"),
    ],
)
def test_what_a_project_would_use(quota: str, used: str, added: str, replaced: str | None, usage: str, message: str) -> None:
    found = calculate(limits(quota), amounts(used), added=machines(added), replaced=machines(replaced) if replaced else None)
    assert found is not None
    assert found.quota == limits(quota)
    assert found.usage == amounts(usage)
    assert found.message == message
    assert found.fits is not bool(message)


def test_without_a_quota_there_is_nothing_to_say() -> None:
    assert calculate(None, amounts("9 9Gi 9Gi"), added=machines("9 x 9 9Gi 9Gi")) is None


@pytest.mark.parametrize(
    ("added", "replaced", "text"),
    [
        (-1, 0, "replicas -1: 0 to 1000000 are allowed"),
        (MOST_REPLICAS + 1, 0, "replicas 1000001: 0 to 1000000 are allowed"),
        (0, -5, "replacedResources.replicas -5: 0 to 1000000 are allowed"),
        (0, 10**9, "replacedResources.replicas 1000000000: 0 to 1000000 are allowed"),
    ],
)
@pytest.mark.parametrize("quota", [None, "5 - -"], ids=["no quota", "a quota"])
def test_so_many_machines_are_none(quota: str | None, added: int, replaced: int, text: str) -> None:
    one = amounts("1 - -")
    with pytest.raises(BadInput) as error:
        calculate(limits(quota) if quota else None, one, added=Replicas(added, one), replaced=Replicas(replaced, one))
    assert str(error.value) == text
