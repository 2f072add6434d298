"""What one machine costs: the amounts of a Machine's `spec.providerSpec.value`, as machine-controller has it.

There are three answers. Amounts: it costs that much. Unknown: nobody can tell now; it says why, and which look-up would tell.
BadInput: no machine can be made of it, whatever is looked up; it names the field.

Pure, and quick whatever is in the spec: this runs inside admission, on what a tenant wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ullage.ledger.amounts import Amounts
from ullage.projects.sizes import flavoured, stated
from ullage.projects.sizes.catalogue import Catalogue
from ullage.projects.sizes.fields import Fields, Hidden, shown
from ullage.projects.sizes.lookups import ANYWHERE, MachineConfig, NotKnown, Site, Unknown

FIELD: Final = "spec.providerSpec.value"

# By machine-controller's names. A machine of any other is of unknown size.
READERS: Final[Mapping[str, Callable[[MachineConfig], Amounts]]] = {
    "alibaba": flavoured.alibaba,
    "aws": flavoured.aws,
    "azure": flavoured.azure,
    "digitalocean": flavoured.digitalocean,
    "equinixmetal": flavoured.equinixmetal,
    "external": stated.fake,
    "fake": stated.fake,
    "gce": flavoured.gce,
    "hetzner": flavoured.hetzner,
    "kubevirt": stated.kubevirt,
    "nutanix": stated.nutanix,
    "openstack": flavoured.openstack,
    "vsphere": stated.vsphere,
}
# The name that Equinix had when it was another company.
_RENAMED: Final = {"packet": "equinixmetal"}


def size_of(provider_spec: object, catalogue: Catalogue, *, site: Site = ANYWHERE) -> Amounts | Unknown:
    """cpu, memory and storage. `site` is where the cluster's machines are made. Raises BadInput, which names the field."""
    config = Fields(provider_spec, FIELD)
    try:
        named = config.needed_text("cloudProvider", "a provider")
        provider = _RENAMED.get(named, named)
        reader = READERS.get(provider)
        if reader is None:
            return Unknown(f"Provider {shown(named)} not supported")
        return reader(
            MachineConfig(
                provider=provider,
                spec=config.part("cloudProviderSpec"),
                operating_system=config.text("operatingSystem"),
                catalogue=catalogue,
                site=site,
            )
        )
    except Hidden as error:
        return Unknown(str(error))
    except NotKnown as error:
        return error.unknown
