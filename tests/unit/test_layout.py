"""The tree stays easy to search: one class of a name in a slice, names from the field, packages with docstrings."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "ullage"
MOST_DOCSTRING_LINES = 8  # of a package
# Words that were pictures of something: CONTRIBUTING.md has the word of the field for each.
PICTURES = frozenset(
    ["desk", "door", "errand", "fleet", "keeper", "patience", "shelf", "shelves", "sighting", "stock", "telling", "teller"]
)


PATHS = sorted(path for path in SOURCE.rglob("*.py") if "_pb2" not in path.name)  # protoc chooses the names of the others


@cache
def modules() -> dict[Path, ast.Module]:
    """Parses when a test runs, since every worker imports this module."""
    return {path: ast.parse(path.read_text()) for path in PATHS}


def shown(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def slice_of(path: Path) -> str:
    """The package that one thing has one name in; on one machine the server, the world and `up` know nothing of each other."""
    parts = path.relative_to(SOURCE).parts
    return "/".join(parts[:2] if parts[0] == "standalone" else parts[:1])


def definitions(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef))


def test_a_class_s_name_means_one_thing_in_a_slice() -> None:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, tree in modules().items():
        for node in definitions(tree):
            if isinstance(node, ast.ClassDef):
                places[slice_of(path), node.name].append(shown(path))
    assert {key: found for key, found in places.items() if len(found) > 1} == {}


def test_nothing_is_named_by_a_picture() -> None:
    names = [
        (shown(path), name)
        for path, tree in modules().items()
        for name in (path.stem, *(one.name for one in definitions(tree)))
    ]
    words = {(path, name): re.findall(r"[A-Z]?[a-z]+", name) for path, name in names}
    assert [key for key, found in words.items() if PICTURES & {word.lower() for word in found}] == []


@pytest.mark.parametrize("path", sorted({path.parent for path in PATHS}), ids=shown)
def test_a_package_says_in_a_few_lines_what_is_in_it(path: Path) -> None:
    said = ast.get_docstring(modules()[path / "__init__.py"]) if (path / "__init__.py").exists() else None
    assert said is not None
    assert len(said.splitlines()) <= MOST_DOCSTRING_LINES
