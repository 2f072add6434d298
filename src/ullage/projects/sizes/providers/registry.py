"""The providers that are asked, by machine-controller's name. All others say how large their machines are in the machines' own
specs; what they leave open (the disk of a template) is written by people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.projects.sizes.providers.alibaba import Alibaba
from ullage.projects.sizes.providers.aws import Aws
from ullage.projects.sizes.providers.azure import Azure
from ullage.projects.sizes.providers.contract import Provider
from ullage.projects.sizes.providers.digitalocean import DigitalOcean
from ullage.projects.sizes.providers.equinixmetal import EquinixMetal
from ullage.projects.sizes.providers.gce import Google
from ullage.projects.sizes.providers.hetzner import Hetzner
from ullage.projects.sizes.providers.openstack import OpenStack

PROVIDERS: Final[Mapping[str, Provider]] = {
    "alibaba": Alibaba(),
    "aws": Aws(),
    "azure": Azure(),
    "digitalocean": DigitalOcean(),
    "equinixmetal": EquinixMetal(),
    "gce": Google(),
    "hetzner": Hetzner(),
    "openstack": OpenStack(),
}
