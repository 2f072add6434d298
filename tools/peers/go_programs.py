"""Programs that Go builds once from a module with pinned versions, and that wait in the user's cache from then on.

For peers that have no packages for every system. `go install name@version` cannot build them: their go.mod has replace lines.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_FLAGS = ("-mod=readonly", "-buildvcs=false", "-trimpath")


class NoPrograms(Exception):
    """Why there is nothing to start, in one line."""


@dataclass(frozen=True, slots=True)
class CLibrary:
    """A library in C that a program is linked with, as its header shows it."""

    header: str
    package: str  # what brings it on Debian

    def problem(self, environ: Mapping[str, str]) -> str:
        """Why nothing can be linked with it; empty where all is well."""
        compiler = shutil.which(environ.get("CC") or "cc", path=environ.get("PATH"))
        if compiler is None:
            return "there is no C compiler on the PATH"
        asked = [compiler, "-fsyntax-only", "-xc", "-include", self.header, os.devnull]
        found = subprocess.run(asked, env=dict(environ), capture_output=True, check=False)
        return "" if found.returncode == 0 else f"there is no {self.header} (Debian: {self.package})"


@dataclass(frozen=True, slots=True)
class Edit:
    """A change to a copy of a module: the path goes, or each regular expression there is replaced by a text."""

    path: str
    replacements: tuple[tuple[str, str], ...] = ()

    def apply(self, copy: Path) -> None:
        place = copy / self.path
        if not self.replacements:
            shutil.rmtree(place)
            return
        text = place.read_text()
        for pattern, replacement in self.replacements:
            text, count = re.subn(pattern, replacement, text)
            if count == 0:
                raise NoPrograms(f"{self.path} of the pinned version has nothing that matches {pattern!r}")
        place.write_text(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoPrograms:
    """What one module pins: programs by name, each with the package that it is built from."""

    what: str  # the one that people know them by
    module: Path  # the directory of go.mod and go.sum
    cache: str  # the name of their directory in the cache
    packages: Mapping[str, str]
    time: str  # how long the build takes on 2 cores, for whoever waits
    command: tuple[str, ...] = ("build",)  # of Go; ("test", "-c") makes a program of a package's tests
    defines: tuple[str, ...] = ()  # `name=value` of variables to set
    hint: str = ""  # what else can be done where there is no Go
    library: CLibrary | None = None  # without one no C compiler is needed
    copied: str = ""  # the pinned module that is built in a copy of its own, with its own go.mod
    edits: tuple[Edit, ...] = ()  # to that copy

    def place(self, environ: Mapping[str, str]) -> Path:
        """The directory in the cache with all programs, filled where it is empty."""
        place = cache(environ) / self.cache / self.key()
        if not place.is_dir():
            with locked(place.with_suffix(".lock")):
                if not place.is_dir():  # else somebody built while we waited
                    self._build(place, environ)
        return place

    def key(self) -> str:
        """Changes with every pinned version and with how we build."""
        digest = hashlib.sha256("\0".join(self._flags()).encode())
        for name in ("go.mod", "go.sum"):
            digest.update((self.module / name).read_bytes())
        if self.copied:
            digest.update(repr((self.copied, self.edits, sorted(self.packages))).encode())
        return digest.hexdigest()[:16]

    def _flags(self) -> tuple[str, ...]:
        return (*_FLAGS, " ".join(("-ldflags=-s -w", *(f"-X {define}" for define in self.defines))))

    def _build(self, place: Path, environ: Mapping[str, str]) -> None:
        """Fills a directory of another name and renames it: a build that was cut off is never taken for a whole one."""
        go = shutil.which("go", path=environ.get("PATH"))
        if go is None:
            raise NoPrograms(f"no Go on the PATH to build {self.what} with{self.hint}")
        if self.library is not None and (problem := self.library.problem(environ)):
            raise NoPrograms(f"{self.what} cannot be built: {problem}")
        settings = {**environ, "CGO_ENABLED": "0" if self.library is None else "1", "GOWORK": "off"}
        prefix = f"{place.name}-"
        with (
            self._sources(go, settings) as sources,
            tempfile.TemporaryDirectory(prefix=prefix, dir=place.parent) as unfinished,
        ):
            for name, package in self.packages.items():
                say(f"building {name} (once; all of it takes {self.time} on 2 cores)")
                command = [go, *self.command, *self._flags(), "-o", f"{unfinished}/{name}", package]
                done = subprocess.run(command, cwd=sources, env=settings, check=False)
                if done.returncode != 0:
                    raise NoPrograms(f"{' '.join(command)} in {sources} failed with exit code {done.returncode}")
            Path(unfinished).chmod(0o755)
            Path(unfinished).rename(place)
            Path(unfinished).mkdir()  # for TemporaryDirectory to remove

    @contextlib.contextmanager
    def _sources(self, go: str, settings: Mapping[str, str]) -> Iterator[Path]:
        """The directory to build in: the module, or the edited copy of the one that it pins."""
        if not self.copied:
            yield self.module
            return
        with tempfile.TemporaryDirectory(prefix="ullage-peer-") as folder:
            copy = Path(folder) / "module"
            shutil.copytree(self._downloaded(go, settings), copy, copy_function=shutil.copyfile)
            for place in (copy, *copy.rglob("*")):
                place.chmod(0o755 if place.is_dir() else 0o644)  # the module cache is read-only
            for edit in self.edits:
                edit.apply(copy)
            yield copy

    def _downloaded(self, go: str, settings: Mapping[str, str]) -> Path:
        """The directory of the pinned module in Go's cache, checked against go.sum."""
        command = [go, "mod", "download", "-json", self.copied]
        done = subprocess.run(command, cwd=self.module, env=settings, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoPrograms(f"{' '.join(command)} failed with exit code {done.returncode}: {done.stderr or done.stdout}")
        return Path(json.loads(done.stdout)["Dir"])


def cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "ullage"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Two runs at once must not build twice. The lock goes with its holder, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def print_place(place: Callable[[Mapping[str, str]], Path]) -> int:
    """The command line of a module that builds: prints the directory, or says why there is none."""
    try:
        print(place(os.environ))
    except NoPrograms as problem:
        say(str(problem))
        return 1
    return 0
