"""What the commands of `ullage volume` can be told, checked before a cluster is asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from ullage.cli.common import arguments
from ullage.cli.volume.reading import Named
from ullage.errors import BadInput

PIECE: Final = 1 << 20  # bytes


def target(given: str) -> Named:
    """NAMESPACE/CLAIM, or the name of a volume."""
    where = "NAMESPACE/CLAIM|VOLUME"
    if given.count("/") > 1:
        raise BadInput(where, given, "NAMESPACE/CLAIM, or the name of a volume is allowed")
    namespace, slash, name = given.rpartition("/")
    if slash:
        arguments.name(where, namespace)
    return Named(namespace, arguments.name(where, name))


def claim(given: str) -> str:
    """The name in pvc/NAME."""
    kind, slash, name = given.partition("/")
    if not slash or kind not in ("pvc", "persistentvolumeclaim"):
        raise BadInput("WHAT", given or "(empty)", "pvc/NAME is allowed")
    return arguments.name("WHAT", name)


def offset(given: str) -> int:
    return 0 if given == "0" else arguments.size("--offset", given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What is to be written: so many bytes of `file`, or random ones, or zeros."""

    length: int
    random: bool = False
    file: Path | None = None

    def pieces(self) -> Iterator[bytes]:
        if self.file is not None:
            with self.file.open("rb") as opened:
                yield from _of_file(opened, self.length)
        else:
            for start in range(0, self.length, PIECE):
                size = min(PIECE, self.length - start)
                yield os.urandom(size) if self.random else bytes(size)


def data(*, random: bool, zero: bool, file: Path | None, length: str | None) -> Data:
    chosen = [name for name, given in (("--random", random), ("--zero", zero), ("--from", file is not None)) if given]
    if len(chosen) != 1:
        given = " ".join(chosen) or "(none of them)"
        raise BadInput("--random, --zero, --from", given, "exactly one of them is allowed")
    if file is None:
        if length is None:
            raise BadInput("--length", "(absent)", f"{chosen[0]} needs it: how many bytes, such as 4Mi")
        return Data(random=random, length=arguments.size("--length", length))
    if not file.is_file():
        raise BadInput("--from", file, "an existing file is allowed")
    there = file.stat().st_size
    wanted = arguments.size("--length", length) if length is not None else there
    if wanted > there:
        raise BadInput("--length", length, f"{file} has {there} bytes; as many are allowed at most")
    return Data(file=file, length=wanted)


def within(*, offset: int, length: int | None, size: int) -> int:
    """The length, where it fits into the volume; the rest of the volume where none was given."""
    rest = size - offset
    if rest < 0 or (length is not None and length > rest):
        given = f"{offset} with --length {length}" if length is not None else str(offset)
        raise BadInput("--offset", given, f"the volume has {size} bytes, and that is past its end")
    return rest if length is None else length


def _of_file(opened: BinaryIO, left: int) -> Iterator[bytes]:
    while left > 0 and (piece := opened.read(min(PIECE, left))):
        yield piece
        left -= len(piece)
