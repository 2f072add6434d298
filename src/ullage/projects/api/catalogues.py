"""MachineCatalogue: what a provider's flavours cost, at one place, and since when that is known.

Objects of this kind are on the seed. The leader fills them in the background, the webhook reads them from its cache and makes
an empty one where a machine names a place that nobody has asked yet. Whoever administers the seed writes one by hand where a
provider cannot be asked: the disk of a template, say. Users of clusters cannot write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from ullage.kube.kinds import AGE, Column, Kind, Object, Rule, Value
from ullage.names import LABEL_LIMIT, LABEL_PATTERN
from ullage.projects.sizes.catalogue import MOST_FLAVOURS

GROUP: Final = "ullage.io"
VERSION: Final = "v1alpha1"
MANUAL: Final = "manual"  # the source of what people write
WANTED: Final = f"{GROUP}/wanted"  # annotation: when a flavour that is not in it was last asked for


def _mark(**schema: object) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema=schema)


_TIME: Final = _mark(format="date-time")
# Written as a whole: a field manager's record of every flavour would be larger than the map itself.
_LINES: Final = _mark(**{"x-kubernetes-map-type": "atomic", "maxProperties": MOST_FLAVOURS})
_AMOUNT: Final = r"(-|[0-9]{1,19}(\.[0-9]+)?([KMGTPE]i|[numkMGTPE])?)"
_LINE: Final = _mark(pattern=f"^{_AMOUNT} {_AMOUNT} {_AMOUNT}$", maxLength=128)
_WORD: Final = _mark(maxLength=512)


class CatalogueSpec(Value):
    """Whose flavours they are. What is not said holds for all: a catalogue that is written by hand need not name a region or a
    credential."""

    provider: Annotated[str, _mark(minLength=1, maxLength=LABEL_LIMIT, pattern=LABEL_PATTERN)]
    """The provider, by machine-controller's name: aws, azure, gce, openstack, vsphere, and others."""
    region: Annotated[str, _WORD] = ""
    """The region; the zone at Google. Some providers have the same flavours everywhere."""
    credential: Annotated[str, _WORD] = ""
    """The Secret that the provider is asked with, as `namespace/name`: only one that a Cluster of this seed names is read."""
    endpoint: Annotated[str, _WORD] = ""
    """The address of the cloud where there are many of one kind: OpenStack."""


class CatalogueFailure(Value):
    """A refresh that does not succeed any more. The sizes stay in use."""

    since: Annotated[str, _TIME]
    """When it failed first."""
    last: Annotated[str, _TIME]
    """When it failed last."""
    reason: str = ""
    """Why."""


class CatalogueData(Value):
    """What is known of the place."""

    source: Annotated[str, _mark(maxLength=256)] = ""
    """Who said so: a call of the provider's API; `manual`: people. What is manual is never asked for and never changed."""
    refreshed: Annotated[str, _TIME] = ""
    """When the provider last answered. Absent: it has never."""
    failure: CatalogueFailure | None = None
    """Why it cannot be asked now. Absent: it can."""
    flavours: Annotated[Mapping[str, Annotated[str, _LINE]], _LINES] = {}
    """The flavours by name, each with its cpu, memory and storage: `t3.small: "2 2Gi -"`. `-` is what a flavour does
    not say. One that is withdrawn stays: machines of it may exist."""


class CatalogueShown(Value):
    """What `kubectl get` shows."""

    flavours: int = 0
    """How many flavours are known."""
    problem: str = ""
    """What is wrong with what was written by hand; empty: nothing is."""


class MachineCatalogue(Object):
    """What machines of a provider's flavours take, at one place."""

    spec: CatalogueSpec
    """The place."""
    data: CatalogueData = CatalogueData()
    """What is known of it."""
    shown: CatalogueShown = CatalogueShown()
    """What `kubectl get` shows."""


CATALOGUES: Final = Kind(
    GROUP,
    VERSION,
    "MachineCatalogue",
    "machinecatalogues",
    MachineCatalogue,
    namespaced=False,
    status=False,  # people write `data` too
    short_names=("mcat",),
    categories=("ullage",),
    columns=(
        Column("Provider", ".spec.provider", description="The provider."),
        Column("Region", ".spec.region", description="The region."),
        Column("Flavours", ".shown.flavours", type="integer", description="How many flavours are known."),
        Column("Refreshed", ".data.refreshed", type="date", description="When the provider last answered."),
        Column("Failing", ".data.failure.reason", description="Why it cannot be asked now."),
        Column("Source", ".data.source", description="Who said so.", priority=1),
        Column("Credential", ".spec.credential", description="The Secret that it is asked with.", priority=1),
        Column("Endpoint", ".spec.endpoint", description="The address of the cloud.", priority=1),
        Column("Problem", ".shown.problem", description="What is wrong with what was written by hand.", priority=1),
        AGE,
    ),
    rules=(Rule("self == oldSelf", "the place of a catalogue cannot be changed: make another one", path="spec"),),
)
