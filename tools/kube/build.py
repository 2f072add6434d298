"""The programs of a real control plane: where they are, and how they come to be if they are nowhere.

There are no packages of kube-apiserver for every system, so the module in this directory pins its source, and Go builds it
once, in some 6 minutes on 2 cores. `go install name@version` cannot: Kubernetes' go.mod has replace lines.

`python -m tools.kube.build` prints the directory that holds them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

MODULE = Path(__file__).parent
KUBERNETES = "v1.36.3"  # as in go.mod; the program cannot know it by itself, and /version shows it
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
FLAGS = (
    "-mod=readonly",
    "-buildvcs=false",
    "-trimpath",
    f"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES}",
)


class NoPrograms(Exception):
    """Why there is no control plane to start, in one line."""


def programs(environ: Mapping[str, str]) -> Path:
    """A directory with all programs: the one that `KUBEBUILDER_ASSETS` names, or the cache, filled where it is empty."""
    given = environ.get("KUBEBUILDER_ASSETS")
    if given:
        missing = [name for name in PACKAGES if not os.access(Path(given) / name, os.X_OK)]
        if missing:
            raise NoPrograms(f"KUBEBUILDER_ASSETS={given} has no {', no '.join(missing)}")
        return Path(given)
    place = cache(environ) / key()
    if not place.is_dir():
        with locked(place.with_suffix(".lock")):
            if not place.is_dir():  # else somebody built while we waited
                build(place, environ)
    return place


def cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "ullage" / "kube"


def key() -> str:
    """Changes with every pinned version and with how we build."""
    digest = hashlib.sha256("\0".join(FLAGS).encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Two runs at once must not build twice. The lock goes with its holder, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(place: Path, environ: Mapping[str, str]) -> None:
    """Fills a directory of another name and renames it: a build that was cut off is never taken for a whole one."""
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise NoPrograms("no Go on the PATH to build kube-apiserver with; or name a directory in KUBEBUILDER_ASSETS")
    with tempfile.TemporaryDirectory(prefix=f"{place.name}-", dir=place.parent) as unfinished:
        for name, package in PACKAGES.items():
            say(f"building {name} (once; all three take some 6 minutes on 2 cores)")
            command = [go, "build", *FLAGS, "-o", f"{unfinished}/{name}", package]
            done = subprocess.run(command, cwd=MODULE, env={**environ, "CGO_ENABLED": "0", "GOWORK": "off"}, check=False)
            if done.returncode != 0:
                raise NoPrograms(f"{' '.join(command)} in {MODULE} failed with exit code {done.returncode}")
        Path(unfinished).chmod(0o755)
        Path(unfinished).rename(place)
        Path(unfinished).mkdir()  # for TemporaryDirectory to remove


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    try:
        print(programs(os.environ))
    except NoPrograms as problem:
        say(str(problem))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
