"""The certificates of a server as a state machine: what the shared Secret holds, and the next step from there.

One authority issues the serving certificate that all replicas share. A renewed serving certificate needs no care: the
same authority vouches for it. A new authority does, since clients (of the webhook: the API servers) must trust it before
anybody shows its certificate. What they trust is published: in the webhook's registration, or in a ConfigMap:

    steady ──introduce──▶ the next authority is made and published next to the present one
           ──(settle)──▶  every client has had time to take the longer bundle
           ──promote───▶  the next authority is the present one, and its certificate is served; the former one is still trusted
           ──(keep)────▶  every replica has had time to take the new certificate
           ──retire────▶  steady

Every replica runs this, without a leader: a step is one compare-and-swap on the Secret, or one on what is published, and
the state says everything, so it can be cut anywhere and continued by anybody. The waits are measured by each replica on
its own clock, from the moment it saw the state: no clock of another machine is believed, and a restart only makes them
longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from ullage import pki
from ullage.pki import BadCertificate, Pair

CA_CERT, CA_KEY = "ca.crt", "ca.key"
TLS_CERT, TLS_KEY = "tls.crt", "tls.key"
NEXT_CERT, NEXT_KEY = "next-ca.crt", "next-ca.key"
FORMER_CERT = "former-ca.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long things last. `settle` and `keep` are seconds of looking at an unchanged state."""

    hosts: tuple[str, ...]
    authority: str = "ullage-webhook"  # its name
    authority_lifetime: timedelta = timedelta(days=3650)
    lifetime: timedelta = timedelta(days=365)
    authority_renewal: timedelta = timedelta(days=365)  # this long before the end
    renewal: timedelta = timedelta(days=90)
    settle: float = 120.0
    keep: float = 3600.0

    def __post_init__(self) -> None:
        for lifetime, renewal in ((self.lifetime, self.renewal), (self.authority_lifetime, self.authority_renewal)):
            if renewal >= lifetime:
                raise ValueError(f"a certificate of {lifetime} cannot be renewed {renewal} before its end")


@dataclass(frozen=True, slots=True, repr=False)
class CertificateSet:
    """What the Secret holds. It has no repr: it holds keys."""

    authority: Pair
    serving: Pair
    coming: Pair | None = None
    former: bytes | None = None

    @property
    def bundle(self) -> bytes:
        """What clients must trust. Its order follows from its content, so a promotion does not change it."""
        found = {self.authority.certificate, self.former, self.coming.certificate if self.coming else None}
        return b"".join(sorted(certificate for certificate in found if certificate))


class Step(Enum):
    RENEW = "a new serving certificate from the same authority"
    PUBLISH = "the bundle is published"
    INTRODUCE = "a next authority is made"
    PROMOTE = "the next authority takes over, and the serving certificate is its own"
    RETIRE = "the former authority is forgotten"


def initial_certificates(terms: Terms, *, now: datetime) -> CertificateSet:
    """What the first replica puts into the Secret."""
    authority = pki.make_ca(terms.authority, now=now, lifetime=terms.authority_lifetime)
    return CertificateSet(authority, pki.issue_serving(authority, terms.hosts, now=now, lifetime=terms.lifetime))


def next_step(current: CertificateSet, terms: Terms, *, now: datetime, published: bytes | None, watched: float) -> Step | None:
    """What to do now, or None.

    `published` is the bundle as it is published, None while nothing is to be, and b"" where its places differ from
    one another. `watched` is for how many seconds both certificates and bundle have been seen as they are.
    """
    if _unusable(current, terms) or _due(current, terms, now=now):
        return Step.RENEW
    if published is None:
        return None  # nobody calls; whoever registers publishes what the Secret holds then
    if published != current.bundle:
        return Step.PUBLISH
    if current.coming is not None:
        expired = current.authority.expires <= now  # nobody trusts it any more: there is nothing to wait for
        return Step.PROMOTE if expired or watched >= terms.settle else None
    if current.former is not None:
        return Step.RETIRE if watched >= terms.keep else None
    return Step.INTRODUCE if current.authority.expires_within(terms.authority_renewal, now=now) else None


def apply_step(step: Step, current: CertificateSet, *, terms: Terms, now: datetime) -> CertificateSet:
    """The certificates after a step. Publishing changes nothing here."""
    match step:
        case Step.RENEW:
            return replace(current, serving=_issue(current.authority, current, terms=terms, now=now))
        case Step.INTRODUCE:
            return replace(current, coming=pki.make_ca(terms.authority, now=now, lifetime=terms.authority_lifetime))
        case Step.PROMOTE:
            if current.coming is None:
                raise ValueError("there is no next authority to promote")
            return CertificateSet(
                current.coming, _issue(current.coming, current, terms=terms, now=now), former=current.authority.certificate
            )
        case Step.RETIRE:
            return replace(current, former=None)
        case Step.PUBLISH:
            return current


def to_secret(current: CertificateSet) -> dict[str, bytes]:
    found = {
        CA_CERT: current.authority.certificate,
        CA_KEY: current.authority.key,
        TLS_CERT: current.serving.certificate,
        TLS_KEY: current.serving.key,
    }
    if current.coming is not None:
        found |= {NEXT_CERT: current.coming.certificate, NEXT_KEY: current.coming.key}
    if current.former is not None:
        found[FORMER_CERT] = current.former
    return found


def from_secret(data: Mapping[str, bytes]) -> CertificateSet:
    """Raises BadCertificate, with the member's name, for a Secret that somebody has filled with something else."""
    coming = _pair(data, NEXT_CERT, NEXT_KEY) if NEXT_CERT in data else None
    former = data.get(FORMER_CERT)
    return CertificateSet(_pair(data, CA_CERT, CA_KEY), _pair(data, TLS_CERT, TLS_KEY), coming, former)


def _pair(data: Mapping[str, bytes], certificate: str, key: str) -> Pair:
    for name in (certificate, key):
        if not data.get(name):
            raise BadCertificate(f"the secret has no {name}")
    pair = Pair(data[certificate], data[key])
    try:
        whole = pki.belongs(pair)
    except BadCertificate as error:
        raise BadCertificate(f"{certificate} or {key} of the secret is {error}") from error
    if not whole:
        raise BadCertificate(f"{key} of the secret is not the key of {certificate}")
    return pair


def _unusable(current: CertificateSet, terms: Terms) -> bool:
    return not pki.issued_by(current.serving.certificate, current.authority) or not set(terms.hosts) <= pki.hosts(
        current.serving.certificate
    )


def _due(current: CertificateSet, terms: Terms, *, now: datetime) -> bool:
    """A certificate ends with its authority at the latest: where it does, a new one from the same authority gains nothing."""
    longest = min(now + terms.lifetime, current.authority.expires)
    return current.serving.expires_within(terms.renewal, now=now) and current.serving.expires < longest


def _issue(authority: Pair, current: CertificateSet, *, terms: Terms, now: datetime) -> Pair:
    """For the hosts asked for and those it had: replicas may differ in what they ask for, and none may lose its name to
    another."""
    hosts = (*terms.hosts, *sorted(pki.hosts(current.serving.certificate) - set(terms.hosts)))
    return pki.issue_serving(authority, hosts, now=now, lifetime=terms.lifetime)
