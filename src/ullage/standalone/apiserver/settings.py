"""What the server is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    data_dir: Path
    port: int = 0
    ephemeral: bool = False
    request_timeout: float = 60.0  # kube-apiserver's default
    history: float = 300.0  # seconds for which old versions are kept for watches and paged lists

    @property
    def database(self) -> Path:
        return self.data_dir / "state.db"

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.data_dir / "pki"
