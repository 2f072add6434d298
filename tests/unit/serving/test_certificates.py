"""The rotation of authorities, cut at every step: at no moment may an API server meet a certificate that it does not trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage import pki
from ullage.pki import BadCertificate, Pair
from ullage.serving.certificates import (
    CertificateSet,
    Step,
    Terms,
    apply_step,
    from_secret,
    initial_certificates,
    next_step,
    to_secret,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TERMS = Terms(hosts=("127.0.0.1",), settle=60.0, keep=600.0)
API_SERVER_LAG = 50.0  # seconds until an API server uses a bundle that was published: less than `settle`
REPLICA_LAG = 500.0  # seconds until a replica serves a certificate that is in the Secret: less than `keep`


def made(*, authority_days: float = 3650, days: float = 365, hosts: tuple[str, ...] = ("127.0.0.1",)) -> CertificateSet:
    authority = pki.make_ca("ullage-webhook", now=START, lifetime=authority_days * DAY)
    return CertificateSet(authority, pki.issue_serving(authority, hosts, now=START, lifetime=days * DAY))


def step_of(
    found: CertificateSet, *, published: bytes | None = b"same", watched: float = 0.0, terms: Terms = TERMS
) -> Step | None:
    shown = found.bundle if published == b"same" else published
    return next_step(found, terms, now=START, published=shown, watched=watched)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(step_of(made()), None, id="fresh certificates need nothing"),
        pytest.param(step_of(made(days=89)), Step.RENEW, id="a certificate near its end is renewed"),
        pytest.param(step_of(made(hosts=("other",))), Step.RENEW, id="a certificate for another host is renewed"),
        pytest.param(
            step_of(CertificateSet(made().authority, made().serving)),
            Step.RENEW,
            id="a certificate of another authority is renewed",
        ),
        pytest.param(step_of(made(), published=b"old"), Step.PUBLISH, id="a bundle that differs is published"),
        pytest.param(step_of(made(), published=b""), Step.PUBLISH, id="a bundle that is not the same everywhere is published"),
        pytest.param(step_of(made(), published=None), None, id="what is not registered is not published"),
        pytest.param(step_of(made(authority_days=364)), Step.INTRODUCE, id="an authority near its end gets a successor"),
        pytest.param(
            step_of(made(authority_days=364), published=None),
            None,
            id="nothing is introduced while nobody is told of it",
        ),
        pytest.param(
            step_of(made(authority_days=80, days=80)),
            Step.INTRODUCE,
            id="a certificate that ends with its authority is not renewed for ever",
        ),
    ],
)
def test_the_next_step(step: Step | None, expected: Step | None) -> None:
    assert step is expected


def test_a_certificate_is_renewed_for_the_hosts_that_it_had_too() -> None:
    renewed = apply_step(Step.RENEW, made(hosts=("a.svc",)), terms=TERMS, now=START)

    assert pki.hosts(renewed.serving.certificate) == {"127.0.0.1", "a.svc"}
    assert step_of(renewed) is None
    assert step_of(renewed, terms=Terms(hosts=("a.svc",))) is None, "two replicas with different hosts do not fight"


def test_a_promotion_does_not_change_what_is_trusted() -> None:
    both = apply_step(Step.INTRODUCE, made(), terms=TERMS, now=START)

    assert apply_step(Step.PROMOTE, both, terms=TERMS, now=START).bundle == both.bundle


def test_an_authority_that_has_ended_is_replaced_without_waiting() -> None:
    both = apply_step(Step.INTRODUCE, made(authority_days=1, days=1), terms=TERMS, now=START + 2 * DAY)

    assert next_step(both, TERMS, now=START + 2 * DAY, published=both.bundle, watched=0.0) is Step.PROMOTE
    assert next_step(both, TERMS, now=START, published=both.bundle, watched=0.0) is None


def test_a_secret_holds_the_vault_at_every_stage() -> None:
    both = apply_step(Step.INTRODUCE, made(), terms=TERMS, now=START)
    after = apply_step(Step.PROMOTE, both, terms=TERMS, now=START)

    for found in (made(), both, after, apply_step(Step.RETIRE, after, terms=TERMS, now=START)):
        assert from_secret(to_secret(found)) == found


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(lambda data: data.pop("ca.key"), "no ca.key", id="a member is missing"),
        pytest.param(lambda data: data.update({"tls.crt": b"x"}), "tls.crt or tls.key .* not a certificate", id="rubbish"),
        pytest.param(lambda data: data.update({"tls.key": data["ca.key"]}), "not the key of tls.crt", id="another's key"),
        pytest.param(lambda data: data.update({"next-ca.crt": data["ca.crt"]}), "no next-ca.key", id="half a successor"),
    ],
)
def test_a_spoilt_secret_is_named_member_by_member(change: Callable[[dict[str, bytes]], object], problem: str) -> None:
    data = to_secret(made())
    change(data)

    with pytest.raises(BadCertificate, match=problem):
        from_secret(data)


def test_keys_are_not_shown() -> None:
    assert "PRIVATE" not in repr(made())


def test_terms_under_which_everything_is_always_due_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be renewed"):
        Terms(hosts=(), lifetime=DAY, renewal=DAY)


@dataclass
class World:
    """A Secret, a registration, API servers and replicas that lag, and the clock that all of them live by."""

    secret: CertificateSet
    published: bytes
    terms: Terms = TERMS
    clock: float = 0.0
    secrets: list[tuple[float, CertificateSet]] = field(default_factory=list)
    bundles: list[tuple[float, bytes]] = field(default_factory=list)
    issuers: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.secrets.append((self.clock, self.secret))
        self.bundles.append((self.clock, self.published))

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.clock)

    def swap(self, seen: CertificateSet, new: CertificateSet) -> bool:
        if self.secret is not seen:
            return False
        self.secret = new
        self.secrets.append((self.clock, new))
        return True

    def publish(self, seen: bytes, new: bytes) -> bool:
        if self.published is not seen:
            return False
        self.published = new
        self.bundles.append((self.clock, new))
        return True

    def check(self) -> None:
        """Each API server uses some bundle of the last moments, each replica some certificate: any of them must do."""
        for bundle in _recent(self.bundles, self.clock - API_SERVER_LAG):
            for served in _recent(self.secrets, self.clock - REPLICA_LAG):
                issuer = self.issuer_of(served.serving)
                assert issuer in bundle, f"at {self.clock}: a certificate is shown that is not trusted"

    def issuer_of(self, serving: Pair) -> bytes:
        if serving.certificate not in self.issuers:
            authorities = [found.authority for _, found in self.secrets]
            issuer = next(one for one in authorities if pki.issued_by(serving.certificate, one))
            self.issuers[serving.certificate] = issuer.certificate
        return self.issuers[serving.certificate]


T = TypeVar("T")


def _recent(history: list[tuple[float, T]], since: float) -> list[T]:
    """What was in force at any time since then: everything newer, and the last one before."""
    before = [value for at, value in history if at <= since][-1:]
    return before + [value for at, value in history if at > since]


@dataclass
class Replica:
    """What the rotation does, without the network: look, in this order, at registration and Secret; later, perhaps, act."""

    world: World
    seen: tuple[bytes, CertificateSet] | None = None
    watching: tuple[bytes, CertificateSet] | None = None
    since: float = 0.0

    def look(self) -> None:
        self.seen = (self.world.published, self.world.secret)
        if self.watching != self.seen:
            self.watching, self.since = self.seen, self.world.clock

    def act(self) -> Step | None:
        if self.seen is None:
            return None
        (published, found), self.seen = self.seen, None
        world = self.world
        watched = world.clock - self.since
        step = next_step(found, world.terms, now=world.now, published=published, watched=watched)
        if step is Step.PUBLISH:
            return step if world.publish(published, found.bundle) else None
        if step is None:
            return None
        new = apply_step(step, found, terms=world.terms, now=world.now)
        return step if world.swap(found, new) else None


def aging_world(terms: Terms = TERMS) -> World:
    old = made(authority_days=360, days=360)
    return World(old, old.bundle, terms)


ROTATION = [Step.INTRODUCE, Step.PUBLISH, Step.PROMOTE, Step.RETIRE, Step.PUBLISH]


def run(world: World, *, ends_after: int = 1000) -> list[Step]:
    """A replica that looks every forty seconds, until nothing is left to do or it has taken so many steps."""
    replica, steps = Replica(world), list[Step]()
    idle = 0
    while len(steps) < ends_after and idle < 20:
        replica.look()
        step = replica.act()
        world.check()
        if step is not None:
            steps.append(step)
        idle = 0 if step is not None else idle + 1
        world.clock += 40.0
        world.check()
    return steps


def test_a_rotation_ends_with_the_new_authority_alone() -> None:
    world = aging_world()
    old = world.secret

    assert run(world) == ROTATION
    assert world.secret.authority != old.authority
    assert world.published == world.secret.authority.certificate


@pytest.mark.parametrize("cut", range(len(ROTATION) + 1))
def test_a_rotation_that_is_cut_after_any_step_is_continued_by_the_next_process(cut: int) -> None:
    world = aging_world()

    done = run(world, ends_after=cut)
    rest = run(world)  # another process: it remembers nothing

    assert done + rest == ROTATION


def test_without_the_waits_the_check_fails() -> None:
    for terms in (Terms(hosts=TERMS.hosts, settle=0.0, keep=600.0), Terms(hosts=TERMS.hosts, settle=60.0, keep=0.0)):
        with pytest.raises(AssertionError, match="not trusted"):
            run(aging_world(terms))


moves = st.lists(
    st.tuples(st.sampled_from(["look", "act", "crash", "wait"]), st.integers(0, 2), st.sampled_from([1.0, 15.0, 70.0, 700.0])),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(moves=moves)
def test_replicas_that_stall_race_and_crash_never_show_an_untrusted_certificate(
    moves: list[tuple[str, int, float]],
) -> None:
    world = aging_world()
    replicas = [Replica(world) for _ in range(3)]
    for move, who, seconds in moves:
        match move:
            case "look":
                replicas[who].look()
            case "act":
                replicas[who].act()
            case "crash":
                replicas[who] = Replica(world)
            case "wait":
                world.clock += seconds
        world.check()
    run(world)
    assert world.secret.former is None
    assert world.secret.coming is None
    assert world.published == world.secret.bundle


def test_the_first_replica_makes_what_needs_nothing_more() -> None:
    found = initial_certificates(TERMS, now=START)

    assert step_of(found) is None
    assert found.bundle == found.authority.certificate
