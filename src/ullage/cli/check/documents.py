"""Objects in files: what `ullage check -f` reads. Pure but for the reading itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ullage.errors import BadInput
from ullage.kube.objects import Json

LARGEST: Final = 16 * 1024 * 1024  # bytes of one file


@dataclass(frozen=True, slots=True)
class Document:
    """One object, as it is written."""

    body: Json

    @property
    def group(self) -> str:
        return str(self.body["apiVersion"]).rpartition("/")[0]

    @property
    def version(self) -> str:
        return str(self.body["apiVersion"]).rpartition("/")[2]

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"].get("name") or "")

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"].get("namespace") or "")

    @property
    def shown(self) -> str:
        """As kubectl names it."""
        group = f".{self.group}" if self.group else ""
        return f"{self.kind.lower()}{group}/{self.name or str(self.body['metadata'].get('generateName', ''))}"


def read(file: str) -> list[Document]:
    """The objects of a file, those in lists too; `-` is standard input. Raises BadInput."""
    try:
        text = sys.stdin.read(LARGEST + 1) if file == "-" else _text(Path(file))
    except OSError as error:
        raise BadInput("-f", file, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput("-f", file, "is no text") from None
    if len(text) > LARGEST:
        raise BadInput("-f", file, f"more than {LARGEST} bytes are not read")
    return parse(file, text)


def parse(file: str, text: str) -> list[Document]:
    try:
        loaded = [one for one in yaml.safe_load_all(text) if one is not None]
    except (yaml.YAMLError, RecursionError) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise BadInput("-f", file, f"neither YAML nor JSON: {said}") from None
    found = [Document(body) for one in loaded for body in _objects(file, one)]
    if not found:
        raise BadInput("-f", file, "there is no object in it")
    return found


def _text(path: Path) -> str:
    with path.open(encoding="utf-8") as opened:
        return opened.read(LARGEST + 1)


def _objects(file: str, loaded: Any) -> list[Json]:
    if isinstance(loaded, dict) and loaded.get("kind") == "List" and isinstance(loaded.get("items"), list):
        return [body for item in loaded["items"] for body in _objects(file, item)]
    metadata = loaded.get("metadata") if isinstance(loaded, dict) else None
    named = isinstance(metadata, dict) and (metadata.get("name") or metadata.get("generateName"))
    if not (isinstance(loaded, dict) and loaded.get("apiVersion") and loaded.get("kind") and named):
        raise BadInput("-f", file, "an object in it lacks apiVersion, kind or metadata.name")
    return [loaded]
