"""Answers of providers in the shape that they document, short; and catalogues that are filled with them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from ullage.projects.sizes.answers import decode
from ullage.projects.sizes.catalogue import Catalogue, Place

Json = dict[str, Any]

ASKED: Final = datetime(2026, 11, 16, 20, 0, tzinfo=UTC)

ALIBABA: Final[Json] = {
    "RequestId": "4C8F9B5E-2B0A-4D2B-9F1B-6E1E1B1A2C3D",
    "NextToken": "",
    "InstanceTypes": {
        "InstanceType": [
            {
                "InstanceTypeId": "ecs.g6.large",
                "InstanceTypeFamily": "ecs.g6",
                "CpuCoreCount": 2,
                "MemorySize": 8.0,
                "GPUAmount": 0,
                "LocalStorageCategory": "",
            },
            {"InstanceTypeId": "ecs.t5-lc2m1.nano", "InstanceTypeFamily": "ecs.t5", "CpuCoreCount": 1, "MemorySize": 0.5},
        ]
    },
}
AWS: Final[Json] = {
    "InstanceTypes": [
        {
            "InstanceType": "t3.small",
            "CurrentGeneration": True,
            "Hypervisor": "nitro",
            "ProcessorInfo": {"SupportedArchitectures": ["x86_64"], "SustainedClockSpeedInGhz": 2.5},
            "VCpuInfo": {"DefaultVCpus": 2, "DefaultCores": 1, "DefaultThreadsPerCore": 2},
            "MemoryInfo": {"SizeInMiB": 2048},
            "InstanceStorageSupported": False,
        },
        {
            "InstanceType": "m5d.24xlarge",
            "VCpuInfo": {"DefaultVCpus": 96, "DefaultCores": 48, "DefaultThreadsPerCore": 2},
            "MemoryInfo": {"SizeInMiB": 393216},
            "InstanceStorageSupported": True,
            "InstanceStorageInfo": {"TotalSizeInGB": 3600, "Disks": [{"SizeInGB": 900, "Count": 4, "Type": "ssd"}]},
        },
    ],
    "NextToken": "eyJ2IjoiMiJ9",
}
AZURE_SIZES: Final[Json] = {
    "value": [
        {
            "name": "Standard_B2s",
            "numberOfCores": 2,
            "osDiskSizeInMB": 1047552,
            "resourceDiskSizeInMB": 8192,
            "memoryInMB": 4096,
            "maxDataDiskCount": 4,
        }
    ]
}
AZURE_SKUS: Final[Json] = {
    "value": [
        {
            "resourceType": "virtualMachines",
            "name": "Standard_D2s_v3",
            "tier": "Standard",
            "size": "D2s_v3",
            "locations": ["westeurope"],
            "capabilities": [
                {"name": "MaxResourceVolumeMB", "value": "16384"},
                {"name": "vCPUs", "value": "2"},
                {"name": "MemoryGB", "value": "8"},
                {"name": "HyperVGenerations", "value": "V1,V2"},
            ],
            "restrictions": [],
        },
        {
            "resourceType": "virtualMachines",
            "name": "Standard_E4-2s_v3",
            "locations": ["westeurope"],
            "capabilities": [
                {"name": "vCPUs", "value": "4"},
                {"name": "vCPUsAvailable", "value": "2"},
                {"name": "MemoryGB", "value": "32"},
            ],
        },
        {
            "resourceType": "virtualMachines",
            "name": "Standard_A0",
            "capabilities": [{"name": "vCPUs", "value": "1"}, {"name": "MemoryGB", "value": "0.75"}],
        },
        {"resourceType": "disks", "name": "Premium_LRS", "capabilities": [{"name": "MaxSizeGiB", "value": "4"}]},
    ]
}
DIGITALOCEAN: Final[Json] = {
    "sizes": [
        {
            "slug": "s-1vcpu-1gb",
            "memory": 1024,
            "vcpus": 1,
            "disk": 25,
            "transfer": 1.0,
            "price_monthly": 6.0,
            "price_hourly": 0.00893,
            "regions": ["fra1", "nyc1"],
            "available": True,
            "description": "Basic",
        }
    ],
    "links": {},
    "meta": {"total": 1},
}
EQUINIX: Final[Json] = {
    "plans": [
        {
            "id": "18e285e0-1872-11ea-8d71-362b9e155667",
            "slug": "c3.small.x86",
            "name": "c3.small.x86",
            "line": "baremetal",
            "specs": {
                "cpus": [{"count": 1, "type": "Intel Xeon E-2278G 8-Core Processor @ 3.40GHz"}],
                "memory": {"total": "32GB"},
                "drives": [{"count": 2, "size": "480GB", "type": "SSD", "category": "boot"}],
                "nics": [{"count": 2, "type": "10Gbps"}],
                "features": {"raid": False, "txt": True},
            },
        },
        {
            "slug": "n3.xlarge.x86",
            "name": "n3.xlarge.x86",
            "specs": {
                "cpus": [{"count": 2, "cores": 32, "type": "Intel Xeon Gold 6338"}],
                "memory": {"total": "1TB"},
                "drives": [
                    {"count": 2, "size": "25 GB", "type": "SSD", "category": "boot"},
                    {"count": 2, "size": "3.8TB", "type": "NVME", "category": "storage"},
                ],
            },
        },
    ]
}
GCE: Final[Json] = {
    "kind": "compute#machineTypeList",
    "id": "projects/p/zones/europe-west3-a/machineTypes",
    "items": [
        {
            "kind": "compute#machineType",
            "name": "n1-standard-2",
            "guestCpus": 2,
            "memoryMb": 7680,
            "imageSpaceGb": 0,
            "maximumPersistentDisks": 128,
            "maximumPersistentDisksSizeGb": "263168",
            "zone": "europe-west3-a",
            "isSharedCpu": False,
        }
    ],
}
HETZNER: Final[Json] = {
    "server_types": [
        {
            "id": 22,
            "name": "cpx11",
            "description": "CPX 11",
            "cores": 2,
            "memory": 2.0,
            "disk": 40,
            "prices": [{"location": "fsn1", "price_monthly": {"net": "4.3500000000", "gross": "5.1765000000000000"}}],
            "storage_type": "local",
            "cpu_type": "shared",
            "architecture": "x86",
        }
    ],
    "meta": {"pagination": {"page": 1, "per_page": 25, "next_page": None, "last_page": 1}},
}
KUBEVIRT: Final[Json] = {
    "apiVersion": "instancetype.kubevirt.io/v1beta1",
    "kind": "VirtualMachineClusterInstancetypeList",
    "metadata": {"resourceVersion": "1"},
    "items": [
        {
            "apiVersion": "instancetype.kubevirt.io/v1beta1",
            "kind": "VirtualMachineClusterInstancetype",
            "metadata": {"name": "u1.medium"},
            "spec": {"cpu": {"guest": 1}, "memory": {"guest": "4Gi"}},
        }
    ],
}
OPENSTACK: Final[Json] = {
    "flavors": [
        {
            "id": "2",
            "name": "m1.small",
            "ram": 2048,
            "disk": 20,
            "vcpus": 1,
            "swap": "",
            "OS-FLV-EXT-DATA:ephemeral": 0,
            "OS-FLV-DISABLED:disabled": False,
            "os-flavor-access:is_public": True,
            "rxtx_factor": 1.0,
            "links": [{"rel": "self", "href": "http://openstack.example.com/v2.1/flavors/2"}],
        },
        {"id": "9", "name": "v1.small", "ram": 4096, "disk": 0, "vcpus": 2},
    ]
}

ANSWERS: Final = {
    "alibaba": ALIBABA,
    "aws": AWS,
    "azure": {"value": [*AZURE_SIZES["value"], *AZURE_SKUS["value"]]},
    "digitalocean": DIGITALOCEAN,
    "equinixmetal": EQUINIX,
    "gce": GCE,
    "hetzner": HETZNER,
    "kubevirt": KUBEVIRT,
    "openstack": OPENSTACK,
}


def filled(place: Place) -> Catalogue:
    """What is known after the provider has answered for this place, and for no other."""
    return Catalogue().refreshed(place, decode(place.provider, ANSWERS[place.provider]).flavours, source="test", at=ASKED)


def value(provider: str, **spec: Any) -> Json:
    """A Machine's spec.providerSpec.value."""
    return {
        "cloudProvider": provider,
        "cloudProviderSpec": spec,
        "operatingSystem": "ubuntu",
        "operatingSystemSpec": {"distUpgradeOnBoot": False},
        "sshPublicKeys": [],
    }
