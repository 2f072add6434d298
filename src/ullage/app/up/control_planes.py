"""The control planes that `ullage up --seeds N` has beside its own: what they are called, and where they are. Pure.

Each seed has one user cluster: `seed-1` has `u1`. All of it is below the data directory, so that one directory is everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SEEDS: Final = "seeds"
USER_CLUSTERS: Final = "clusters"
KUBECONFIG: Final = "kubeconfig"
PROJECT: Final = "demo"  # whose the user clusters are


@dataclass(frozen=True, slots=True)
class SeedPlane:
    """A seed, and the user cluster that it has."""

    name: str
    cluster: str

    def directory(self, data: Path) -> Path:
        """`data` is that of the master."""
        return data / SEEDS / self.name

    def cluster_directory(self, own: Path) -> Path:
        """`own` is the directory of the seed."""
        return own / USER_CLUSTERS / self.cluster


def seed_planes(count: int) -> tuple[SeedPlane, ...]:
    return tuple(SeedPlane(f"seed-{number}", f"u{number}") for number in range(1, count + 1))


def kubeconfigs(data: Path, count: int) -> Mapping[str, Path]:
    """Of all seeds and their user clusters, by name."""
    found = {}
    for plane in seed_planes(count):
        directory = plane.directory(data)
        found[plane.name] = directory / KUBECONFIG
        found[plane.cluster] = plane.cluster_directory(directory) / KUBECONFIG
    return found
