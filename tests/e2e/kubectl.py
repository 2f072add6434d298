"""kubectl as a person runs it: arguments in, text out."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .control_plane import ControlPlane

SECONDS = 120


@dataclass(frozen=True, slots=True)
class Ran:
    """A finished kubectl."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def row(self, name: str) -> list[str]:
        """The cells of the line that starts with a name."""
        return next(line.split() for line in self.lines if line.split()[:1] == [name])


class Kubectl:
    """kubectl with a cache of its own, in one namespace."""

    def __init__(self, plane: ControlPlane, *, namespace: str, home: Path) -> None:
        self.namespace = namespace
        self.embedded = plane.embedded
        self.home = home
        self._base = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), "--cache-dir", str(home / "cache")]

    def command(self, *args: str) -> list[str]:
        return [*self._base, "--namespace", self.namespace, *args]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TERM": "dumb", **(more or {})}

    def run(self, *args: str, stdin: object = None, env: Mapping[str, str] | None = None) -> Ran:
        """Runs to the end, whatever the exit code."""
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        done = subprocess.run(
            self.command(*args),
            input=text,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=self.environment(env),
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def __call__(self, *args: str, stdin: object = None, env: Mapping[str, str] | None = None) -> Ran:
        """Runs and must succeed."""
        ran = self.run(*args, stdin=stdin, env=env)
        assert ran.code == 0, f"kubectl {' '.join(args)}: exit {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    def fails(self, *args: str, stdin: object = None) -> str:
        """Runs, must fail, and returns what it printed as the error."""
        ran = self.run(*args, stdin=stdin)
        assert ran.code != 0, f"kubectl {' '.join(args)} succeeded:\n{ran.out}"
        return ran.err
