"""What the server is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the store, in bytes."""

    live: int = 2 << 30  # of all objects: etcd's default quota
    one: int = 1536 << 10  # of one object: etcd's default for a request
    history: int = 48 << 20  # of old versions on disk, however young: the disk is somebody's laptop
    recent: int = 16 << 20  # of events that are kept in memory for watches, all kinds together


@dataclass(frozen=True, slots=True)
class Settings:
    data_dir: Path
    port: int = 0
    ephemeral: bool = False
    request_timeout: float = 60.0  # kube-apiserver's default
    history: float = 300.0  # seconds for which old versions are kept for watches and paged lists
    event_ttl: float = 3600.0  # seconds after its last write at which an Event goes; kube-apiserver's default
    limits: Limits = field(default_factory=Limits)

    @property
    def database(self) -> Path:
        return self.data_dir / "state.db"

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.data_dir / "pki"
