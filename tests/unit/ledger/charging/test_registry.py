"""One service for all slices of a process: who registers, what they get back, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest

from tests.unit.kube.virtual_time import in_virtual_time
from tests.unit.ledger.counted import counted
from tests.unit.ledger.simulated import ACCOUNT, BY_TEAM, CUPS, LEDGER, Cup, CupSpec, Server, ledger, takes, team_of
from tests.unit.ledger.slices import PLATES, review, running, slice_of, wired
from ullage.kube.cache.cache import Cache
from ullage.kube.cache.indexer import Key
from ullage.kube.identities import OWN
from ullage.kube.kinds import Kind, Meta
from ullage.kube.slices import Part
from ullage.ledger.api import LEDGERS, NAMESPACE, Ledger
from ullage.ledger.book import Book
from ullage.ledger.charging import registry as registry_module
from ullage.ledger.charging.registry import registry_of
from ullage.ledger.charging.stamps import read_stamp, write_stamp
from ullage.ledger.codec import book_of
from ullage.ledger.service.expiry import Settings
from ullage.ledger.service.views import Evaluator, KindView
from ullage.ledger.slice import LEDGER as LEDGER_SLICE
from ullage.ledger.slice import ledger as ledger_slice

BRIEF = ledger_slice(Settings(request_timeout=5.0, expiry=7.0))
BY_STAMP = Evaluator[Cup](ledger_of=team_of, takes=lambda found: read_stamp(found.metadata))


BOTH = (BRIEF, slice_of(CUPS), slice_of(PLATES))


def made(kind: Kind[Cup], name: str, size: int = 1) -> Cup:
    return Cup(metadata=Meta(name=name, namespace="team", uid=f"uid-{name}"), spec=CupSpec(size=size))


def simulated(test: Callable[[Server], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        await test(Server())

    def wrapped() -> None:
        in_virtual_time(run())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


# --- two kinds on one ledger ---


@simulated
async def test_what_objects_take_is_known_before_there_is_a_ledger(server: Server) -> None:
    server.put(CUPS, made(CUPS, "a", 2))
    server.put(PLATES, made(PLATES, "b", 3))
    wiring = wired(server)
    wiring.hooks(BOTH)
    async with running(wiring):
        registry = registry_of(wiring)
        assert registry.look(LEDGER) is None
        assert registry.counted(LEDGER) == takes(5)
        assert not registry.counted("another")


@simulated
async def test_kinds_of_two_slices_share_a_limit_through_one_service(server: Server) -> None:
    server.put(LEDGERS, ledger(3))
    wiring = wired(server)
    cups, plates = wiring.hooks(BOTH)
    async with running(wiring):
        asked = [one.answer(review(kind, f"n-{n}")) for n in range(4) for one, kind in ((cups, CUPS), (plates, PLATES))]
        answers = await asyncio.gather(*asked)
        assert sum(one.allowed for one in answers) == 3
        (refused, *_) = [one for one in answers if not one.allowed]
        assert refused.code == 403
        assert refused.message.startswith("does not fit: cups size: asked 1, used 0, reserved 3, limit 3, over by 1. Next: ")
        assert server.calls.count("PUT ledgers") == 1, "all are decided in order and written once"


@simulated
async def test_kinds_of_two_slices_are_counted_by_one_folder_and_the_ledger_is_ready(server: Server) -> None:
    server.put(LEDGERS, ledger(9))
    server.put(CUPS, made(CUPS, "a", 2))
    server.put(PLATES, made(PLATES, "b", 3))
    wiring = wired(server)
    controllers = wiring.controllers(BOTH)
    assert [one.name for one in controllers] == ["ledgers"]
    async with running(wiring, controllers):
        await asyncio.sleep(20)
        server.put(CUPS, made(CUPS, "c", 1))
        server.put(PLATES, made(PLATES, "d", 1))
        await asyncio.sleep(20)
        status = server.ledger().status
        assert {kind: sums["cups"]["size"] for kind, sums in counted(status.sums).items()} == {
            CUPS.name: "3",
            PLATES.name: "4",
        }
        assert {one.type: one.status for one in status.conditions}["Ready"] == "True"
        shown = generate_latest(wiring.metrics.registry).decode()
        assert 'ullage_ledger_used{account="cups",ledger="ns-team",resource="size"} 7.0' in shown


async def test_each_kind_is_watched_once_and_so_are_the_ledgers() -> None:
    wiring = wired(Server())
    wiring.hooks(BOTH)
    wiring.controllers((BRIEF,))
    assert [one.kind for one in wiring.caches] == [CUPS, PLATES, LEDGERS]


@simulated
async def test_a_process_has_one_watch_of_each_kind_whoever_needs_it(server: Server) -> None:
    """Service, folder and metrics in one process, and the slices' own caches of what they charge for."""
    server.put(LEDGERS, ledger(9))
    server.put(CUPS, made(CUPS, "a", 2))
    wiring = wired(server)
    (cups, _) = wiring.hooks(BOTH)
    controllers = wiring.controllers((BRIEF,))
    own: Part[Cache[Cup]] = Part(make=lambda wiring: [wiring.cache(CUPS)], watches=(CUPS,))
    wiring.made(own)
    async with running(wiring, controllers):
        assert (await cups.answer(review(CUPS, "b"))).allowed
        await asyncio.sleep(20)
        assert 'ullage_ledger_used{account="cups"' in generate_latest(wiring.metrics.registry).decode()
        assert +server.watches == {CUPS.name: 1, PLATES.name: 1, LEDGERS.name: 1}
    assert +server.watches == {}


async def test_while_nothing_is_charged_for_nothing_is_watched() -> None:
    wiring = wired(Server())
    assert (wiring.hooks((LEDGER_SLICE,)), wiring.controllers((LEDGER_SLICE,)), wiring.caches) == ([], [], [])


# --- what is refused ---


async def test_who_comes_after_the_service_has_started_is_told_where_to_register() -> None:
    wiring = wired(Server())
    wiring.hooks((BRIEF, slice_of(CUPS)))
    with pytest.raises(RuntimeError, match=r"plates\.test\.ullage\.io: registered too late.*register in `shared`"):
        wiring.hooks((slice_of(PLATES),))


async def test_a_kind_that_nobody_registered_is_not_decided() -> None:
    with pytest.raises(LookupError, match=r"plates\.test\.ullage\.io: nobody has registered it"):
        registry_of(wired(Server())).registered(PLATES)


@simulated
async def test_without_the_ledgers_slice_nothing_is_admitted(server: Server) -> None:
    (hook,) = wired(server).hooks((slice_of(CUPS),))
    with pytest.raises(LookupError, match="the slice `ledger` is not among its slices"):
        await hook.answer(review(CUPS, "a"))


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param({"labels": "a=b"}, id="those with a label"),
        pytest.param({"fields": "metadata.name=a"}, id="those with a field"),
        pytest.param({"namespace": "team"}, id="those of one namespace"),
    ],
)
async def test_a_cache_of_some_objects_is_refused(chosen: dict[str, Any]) -> None:
    cache = Cache(Server(), CUPS, **chosen)
    with pytest.raises(ValueError, match=r"cups\.test\.ullage\.io: a cache of some objects counts too little"):
        KindView(cache, BY_TEAM, client=Server())


# --- whose word counts ---


@pytest.mark.parametrize(
    ("user", "allowed"),
    [
        pytest.param("person", False, id="of a person it is not believed"),
        pytest.param("system:serviceaccount:team:controller", False, id="nor of an account of that name elsewhere"),
        *(pytest.param(name, True, id=f"of {name} it is") for name in sorted(OWN)),
    ],
)
def test_growth_that_has_happened_is_told_by_our_own_identities_alone(user: str, allowed: bool) -> None:
    async def run() -> None:
        server = Server()
        server.put(LEDGERS, ledger(3))
        wiring = wired(server)
        (hook,) = wiring.hooks((BRIEF, slice_of(CUPS, past_limit=True)))
        async with running(wiring):
            assert (await hook.answer(review(CUPS, "a", 9, old=1, user=user))).allowed is allowed

    in_virtual_time(run())


@pytest.mark.parametrize(
    ("stamp", "code"),
    [
        pytest.param(write_stamp(takes(2)), 200, id="as it was stamped it is booked"),
        pytest.param(write_stamp(takes(1)), 429, id="less than was stamped is another webhook's doing"),
        pytest.param(write_stamp(takes(3)), 429, id="more too"),
        pytest.param(None, 429, id="one that was taken off is missed"),
    ],
)
def test_a_stamp_that_a_later_webhook_changed_is_seen(stamp: str | None, code: int) -> None:
    async def run() -> None:
        server = Server()
        server.put(LEDGERS, ledger(3))
        wiring = wired(server)
        (hook,) = wiring.hooks((BRIEF, slice_of(CUPS, BY_STAMP, estimate=takes(2))))
        async with running(wiring):
            answer = await hook.answer(review(CUPS, "a", stamp=stamp))
            assert answer.code == code, answer.message
            assert bool(server.ledger().status.pending) is answer.allowed

    in_virtual_time(run())


# --- looking ---


@simulated
async def test_a_slice_sees_the_book_and_what_its_objects_take(server: Server) -> None:
    server.put(LEDGERS, ledger(3))
    wiring = wired(server)
    (hook,) = wiring.hooks((BRIEF, slice_of(CUPS)))
    charged = registry_of(wiring).registered(CUPS)
    assert charged.look(LEDGER) is None, "nothing is known yet"
    async with running(wiring):
        assert (await hook.answer(review(CUPS, "a", 2))).allowed
        await asyncio.sleep(1)
        book = charged.look(LEDGER)
        assert book is not None
        assert (book.reserved, charged.look("ns-other")) == (takes(2), None)
        explained = charged.explain(made(CUPS, "b", 4))
        assert (explained.ledger, explained.takes) == (LEDGER, takes(4))
        assert [(one.name, one.resource) for one in explained.accounts] == [ACCOUNT]
        assert str(explained) == "cups size: takes 4, used 0, reserved 2, limit 3, free 1"


def test_a_book_is_read_once_for_each_state_of_its_ledger_and_kept_as_long_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counting(found: Ledger, *, now: datetime) -> Book:
        read.append(found.metadata.resource_version)
        return book_of(found, now=now)

    monkeypatch.setattr(registry_module, "book_of", counting)

    async def run() -> None:
        server = Server()
        server.put(LEDGERS, ledger(3))
        wiring = wired(server)
        (hook,) = wiring.hooks((BRIEF, slice_of(CUPS)))
        registry = registry_of(wiring)
        async with running(wiring):
            await asyncio.sleep(1)
            books = [registry.look(LEDGER) for _ in range(5)]
            assert len(read) == 1
            assert all(book is books[0] for book in books)
            assert (await hook.answer(review(CUPS, "a", 2))).allowed
            await asyncio.sleep(1)
            read.clear()
            after = [registry.look(LEDGER) for _ in range(5)]
            assert [book and book.reserved for book in after] == [takes(2)] * 5
            assert len(read) == 1
            server.drop(LEDGERS, Key(NAMESPACE, LEDGER))
            await asyncio.sleep(1)
            assert (registry.look(LEDGER), registry._books) == (None, {})

    in_virtual_time(run())


@pytest.mark.parametrize(
    ("evaluator", "limit", "said"),
    [
        pytest.param(Evaluator[Cup](lambda cup: "", BY_TEAM.takes), 3, "takes nothing", id="in no ledger"),
        pytest.param(Evaluator[Cup](lambda cup: "ns-other", BY_TEAM.takes), 3, "nothing is limited", id="no such ledger"),
        pytest.param(
            BY_TEAM, None, "cups size: takes 1, used 0, reserved 0, no limit", id="an account without a limit, unused"
        ),
        pytest.param(
            BY_STAMP,
            3,
            "cannot be counted: metadata.annotations[ullage.io/takes]: it is missing",
            id="an object that cannot be counted",
        ),
    ],
)
def test_an_explanation_is_a_sentence(evaluator: Evaluator[Cup], limit: int | None, said: str) -> None:
    async def run() -> None:
        server = Server()
        server.put(LEDGERS, ledger(limit))
        wiring = wired(server)
        wiring.hooks((BRIEF, slice_of(CUPS, evaluator)))
        async with running(wiring):
            assert str(registry_of(wiring).registered(CUPS).explain(made(CUPS, "a"))) == said

    in_virtual_time(run())
