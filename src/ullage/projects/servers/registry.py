"""The providers that are asked for servers, by machine-controller's name. Where any other has made one, a Machine that went
counts for the set time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ullage.projects.servers.alibaba import AlibabaServers
from ullage.projects.servers.aws import AwsServers
from ullage.projects.servers.azure import AzureServers
from ullage.projects.servers.contract import ServerSource
from ullage.projects.servers.digitalocean import DigitalOceanServers
from ullage.projects.servers.equinixmetal import EquinixMetalServers
from ullage.projects.servers.gce import GoogleServers
from ullage.projects.servers.hetzner import HetznerServers
from ullage.projects.servers.openstack import OpenStackServers

SERVERS: Final[Mapping[str, ServerSource]] = {
    "alibaba": AlibabaServers(),
    "aws": AwsServers(),
    "azure": AzureServers(),
    "digitalocean": DigitalOceanServers(),
    "equinixmetal": EquinixMetalServers(),
    "gce": GoogleServers(),
    "hetzner": HetznerServers(),
    "openstack": OpenStackServers(),
}
