"""What the documents point at is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
STARTS = (
    "",
    "src/ullage",
    "src/ullage/standalone/apiserver",
    "src/ullage/snapshots",
)  # a document may say once where its files are
ENDS = (".py", ".md", ".csv", ".txt", ".toml")
PATH = re.compile(r"`([a-z0-9_]+(?:/[a-z0-9_.]+)+/?)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


def _paths(text: str) -> Iterator[str]:
    for found in PATH.findall(text):
        if found.endswith(ENDS) or found.split("/")[0] in ("src", "tests", "tools", "bench", "docs"):
            yield found


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_document_names_are_there(document: Path) -> None:
    missing = [path for path in _paths(document.read_text()) if not any((ROOT / start / path).exists() for start in STARTS)]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    broken = []
    for target, anchor in LINK.findall(text):
        file = document.parent / target if target else document
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file.read_text())):
            broken.append(f"{target}#{anchor}")
    assert broken == []


def test_the_example_of_a_controller_is_the_code() -> None:
    page = (ROOT / "docs/design/controllers.md").read_text()
    source = (ROOT / "src/ullage/space/controllers/quota_limits.py").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    assert [block for block in blocks if block not in source] == []


def test_the_overview_is_short_enough_to_be_read() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) < 200
