"""A ledger as the API has it: read into a book, written back, and described for people."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.unit.ledger.world import BEGIN, KIND, World
from ullage.kube.crds.definitions import crd_of, undocumented
from ullage.kube.kinds import Meta
from ullage.kube.objects import find_condition
from ullage.ledger.amounts import Takings, parse_limits
from ullage.ledger.api import LEDGERS, Fullest, Ledger, LedgerSpec, LedgerStatus
from ullage.ledger.book import Book, Observed
from ullage.ledger.codec import SHOWN, LedgerError, book_of, fullest, says_more, status_of, summary
from ullage.ledger.limiting.noticing import with_limits
from ullage.ledger.packing.strings import PackedError
from ullage.ledger.packing.sums import Sums, encode

TIMEOUT = timedelta(seconds=60)
Written = dict[str, dict[str, str]]


def ledger(status: LedgerStatus | None = None, *, limits: Written | None = None) -> Ledger:
    return Ledger(
        metadata=Meta(name="ns-lab", namespace="ullage-system", generation=3),
        spec=LedgerSpec(limits=limits if limits is not None else {"vials/all": {"pieces": "5"}}),
        status=status or LedgerStatus(),
    )


def written(book: Book, *, seconds: int = 0, limits: Written | None = None, before: LedgerStatus | None = None) -> LedgerStatus:
    now = BEGIN + timedelta(seconds=seconds)
    return status_of(book, ledger(before, limits=limits), sources={KIND}, now=now)


def busy() -> World:
    world = World(all=5)
    world.commit(world.create("a", 2))
    world.fold()
    world.wait(0.25)
    world.create("b", 1)
    world.update("a", 3)
    return world


def test_a_book_is_read_as_it_was_written() -> None:
    book = busy().book
    encoded = msgspec.json.encode(ledger(written(book)))
    again = book_of(msgspec.json.decode(encoded, type=Ledger), now=BEGIN)
    assert again == book
    assert (again.used, again.reserved) == (book.used, book.reserved)
    assert written(again) == written(book)


def test_limits_are_noticed_when_a_ledger_is_read() -> None:
    book = book_of(ledger(), now=BEGIN)
    assert (book.limited, book.since) == (frozenset({"vials/all"}), BEGIN)
    later = book_of(ledger(written(book)), now=BEGIN + TIMEOUT)
    assert later.since == BEGIN, "noticed once"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        pytest.param({"pending": "9"}, PackedError, id="what is pending"),
        pytest.param({"lastBooking": "noon"}, LedgerError, id="a time that is none"),
        pytest.param({"lastBooking": "2026-01-01T00:00:00"}, LedgerError, id="a time without a zone"),
        pytest.param({"sums": "9"}, PackedError, id="what is counted"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_ledger(status: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="ledger ns-lab: "):
        book_of(ledger(msgspec.convert(status, LedgerStatus)), now=BEGIN)


PODS = {"pods": {"view": 1, "time": "2026-01-01T00:00:00Z"}}
CUPS = encode(Sums({"cups": Takings.parse({"a/b": {"cpu": "1"}})}))


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        pytest.param({"observed": PODS}, "pods was counted, and has no sums", id="as it was written before sums were packed"),
        pytest.param({"sums": CUPS}, "cups was counted, and has no position", id="sums without the position they belong to"),
        pytest.param({"observed": PODS, "sums": CUPS}, "cups was counted, and has no position", id="of another kind"),
    ],
)
def test_what_was_counted_is_not_taken_for_nothing(status: dict[str, Any], problem: str) -> None:
    remedy = "`ullage ledger rebuild ns-lab` empties it and counts anew"
    with pytest.raises(PackedError, match=f"^ledger ns-lab: status.sums cannot be read: {problem}; {remedy}$"):
        book_of(ledger(msgspec.convert(status, LedgerStatus)), now=BEGIN)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        pytest.param(ledger(limits={"a/b": {"cpu": "-1"}}), "spec.limits.a/b.cpu -1: an amount is not negative", id="a limit"),
        pytest.param(ledger(limits={"a/b": {"cpu": "x"}}), "spec.limits.a/b.cpu x: quantities must", id="a limit that is none"),
    ],
)
def test_an_amount_that_cannot_be_is_refused_with_its_field(read: Ledger, message: str) -> None:
    with pytest.raises(LedgerError, match=f"^ledger ns-lab: {re.escape(message)}"):
        book_of(read, now=BEGIN)


# --- is it worth a write? --------------------------------------------------------------------------------------------


def test_a_fold_that_finds_the_same_is_not_worth_a_write() -> None:
    world = World(all=5)
    world.commit(world.create("a", 2))
    world.fold()
    before = written(world.book)
    world.delete("a")
    world.fold()
    assert says_more(before, written(world.book))
    world.commit(world.create("a", 2))
    world.fold()
    after = written(world.book)
    assert after.observed[KIND].view > before.observed[KIND].view
    assert not says_more(before, after)


def test_a_fold_that_becomes_exact_is_worth_a_write() -> None:
    world = World(all=5)
    world.fold()
    before = written(world.book)
    world.wait(61)
    world.fold()
    assert not says_more(before, written(world.book, seconds=61, before=before))
    world.know_position()
    assert says_more(before, written(world.book, seconds=61, before=before))


def test_every_booking_is_worth_a_write() -> None:
    world = World(all=5)
    world.fold()
    before = written(world.book)
    world.create("b", 1)
    assert says_more(before, written(world.book))


# --- for people ------------------------------------------------------------------------------------------------------


def said(status: LedgerStatus, type: str) -> tuple[str, str, str]:
    found = find_condition(status.conditions, type)
    assert found is not None
    assert found.observed_generation == 3
    return found.status, found.reason, found.message


def test_conditions_of_a_new_ledger() -> None:
    status = written(World(all=5).book)
    ended = f"to be counted after all requests have ended that began before 2026-01-01T00:00:00Z: {KIND}"
    message = f"not counted once yet, so growth of what has a limit is told to try again: {KIND}; {ended}"
    assert said(status, "Ready") == ("False", "Counting", message)
    assert said(status, "WithinLimits") == ("True", "WithinLimits", "nothing is past its limit")


def test_ready_once_counted_after_the_wait() -> None:
    world = World(all=5)
    world.know_position()
    world.fold()
    assert said(written(world.book, seconds=61), "Ready") == ("True", "Exact", "everything is counted")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        pytest.param(["cups//lab/a"], "these cannot be counted, nor their kind with them: cups//lab/a", id="one"),
        pytest.param(
            [f"cups//lab/{name}" for name in "abcdefg"],
            "these cannot be counted, nor their kind with them: "
            "cups//lab/a, cups//lab/b, cups//lab/c, cups//lab/d, cups//lab/e and 2 more",
            id="of many, a few",
        ),
    ],
)
def test_not_ready_while_objects_cannot_be_counted(keys: list[str], message: str) -> None:
    world = World(all=5)
    world.know_position()
    world.fold()
    status = status_of(world.book, ledger(), sources={KIND}, now=BEGIN, uncounted=keys)
    assert said(status, "Ready") == ("False", "Uncountable", message)


def test_limits_that_are_passed_are_spelled_out() -> None:
    world = busy()
    world.limit(all=1)
    assert said(written(world.book), "WithinLimits") == (
        "False",
        "LimitPassed",
        "vials/all pieces: used 2, reserved 2, limit 1, over by 3",
    )


def test_of_many_limits_that_are_passed_a_few_are_spelled_out() -> None:
    limits = {f"a{number}": {"cpu": "0"} for number in range(9)}
    used = Takings.parse({account: {"cpu": "1"} for account in limits})
    book = with_limits(Book.of(limits={}, observed={KIND: Observed(1, BEGIN, used)}), parse_limits(limits), BEGIN)
    _, _, message = said(written(book, limits=limits), "WithinLimits")
    assert message.count("over by") == 5
    assert message.endswith("; and 4 more")


@pytest.mark.parametrize(
    ("limits", "used", "expected"),
    [
        pytest.param({}, {"a": {"cpu": "1"}}, Fullest(), id="no limit"),
        pytest.param(
            {"a": {"cpu": "4"}, "b": {"storage": "10Gi"}},
            {"a": {"cpu": "1"}, "b": {"storage": "9Gi"}},
            Fullest(account="b", resource="storage", used="9Gi", limit="10Gi", percent="90%", reserved="0"),
            id="the one that is closest to its limit",
        ),
        pytest.param(
            {"b": {"cpu": "4"}, "a": {"cpu": "4"}},
            {},
            Fullest(account="a", resource="cpu", used="0", limit="4 cores", percent="0%", reserved="0"),
            id="of equal ones the first by name",
        ),
        pytest.param(
            {"a": {"memory": "10Gi"}},
            {"a": {"memory": "10737418239"}},
            Fullest(account="a", resource="memory", used="10Gi", limit="10Gi", percent="99%", reserved="0"),
            id="not full to the last byte",
        ),
        pytest.param(
            {"a": {"memory": "10Gi"}},
            {"a": {"memory": "10737418241"}},
            Fullest(account="a", resource="memory", used="10.01Gi", limit="10Gi", percent="101%", reserved="0"),
            id="a byte too much",
        ),
        pytest.param(
            {"a": {"cpu": "0"}, "b": {"cpu": "1"}},
            {"a": {"cpu": "1"}, "b": {"cpu": "5"}},
            Fullest(account="a", resource="cpu", used="1 core", limit="0", percent="", reserved="0"),
            id="something where nothing is allowed",
        ),
    ],
)
def test_what_kubectl_get_shows(limits: Written, used: Written, expected: Fullest) -> None:
    book = Book.of(limits=parse_limits(limits), observed={KIND: Observed(1, BEGIN, Takings.parse(used))})
    assert fullest(book) == expected


def used_by(**amounts: str) -> Takings:
    return Takings.parse({account: {"storage": amount} for account, amount in amounts.items()})


MANY = {f"a{number:02}": f"{number + 1}Gi" for number in range(12)}


@pytest.mark.parametrize(
    ("limits", "used", "expected"),
    [
        pytest.param({}, {}, (), id="nothing"),
        pytest.param(
            {"a": "10Gi", "b": "4Gi", "c": "0"},
            {"a": "4Gi", "b": "3Gi", "d": "9Gi", "e": "10Gi"},
            (
                "b storage: used 3Gi, reserved 0, limit 4Gi",
                "a storage: used 4Gi, reserved 0, limit 10Gi",
                "c storage: used 0, reserved 0, limit 0",
                "e storage: used 10Gi, reserved 0, no limit",
                "d storage: used 9Gi, reserved 0, no limit",
            ),
            id="by share of the limit, then by use",
        ),
        pytest.param(
            {},
            MANY,
            (
                *(f"a{number:02} storage: used {number + 1}Gi, reserved 0, no limit" for number in range(11, 1, -1)),
                "and 2 more: see `ullage ledger describe ns-lab`",
            ),
            id="of many the largest, and how many are left out",
        ),
    ],
)
def test_what_kubectl_describe_shows(limits: dict[str, str], used: dict[str, str], expected: tuple[str, ...]) -> None:
    allowed = parse_limits({account: {"storage": amount} for account, amount in limits.items()})
    assert summary(Book.of(limits=allowed, observed={KIND: Observed(1, BEGIN, used_by(**used))}), "ns-lab") == expected


def test_what_the_api_server_walks_through_does_not_grow_with_the_accounts() -> None:
    """Every cell of a status costs it at every booking, so there are as many for a thousand accounts as for eleven."""

    def cells(accounts: int) -> int:
        limits = {f"a{number}": "9Gi" for number in range(accounts)}
        allowed = parse_limits({account: {"storage": amount} for account, amount in limits.items()})
        found = with_limits(Book.of(limits={}, observed={KIND: Observed(1, BEGIN, used_by(**limits))}), allowed, BEGIN)
        return nodes(msgspec.to_builtins(written(found, limits={})))

    assert cells(1000) == cells(11)
    assert cells(1000) <= cells(1) + SHOWN


def nodes(value: object) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return 1 + sum(nodes(one) for one in inside)


def test_every_field_is_explained() -> None:
    crd = crd_of(LEDGERS)
    assert undocumented(crd) == []
    names = [column["name"] for column in crd["spec"]["versions"][0]["additionalPrinterColumns"] if not column.get("priority")]
    assert names == ["Used", "Limit", "%", "Reserved", "Ready", "Age"]
