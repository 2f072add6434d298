"""Files as `ullage check` reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.cli.check.documents import parse, read
from ullage.errors import BadInput

ONE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def test_every_object_of_a_file_is_found_those_of_lists_too() -> None:
    items = "items:\n- {apiVersion: a.io/v1, kind: Thing, metadata: {generateName: x-, namespace: n}}\n"
    found = parse("f", f"---\n{ONE}---\n---\napiVersion: v1\nkind: List\n{items}")
    assert [(one.group, one.version, one.kind, one.name, one.namespace) for one in found] == [
        ("", "v1", "ConfigMap", "a", ""),
        ("a.io", "v1", "Thing", "", "n"),
    ]
    assert [one.shown for one in found] == ["configmap/a", "thing.a.io/x-"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "there is no object in it", id="nothing"),
        pytest.param("a: [", "neither YAML nor JSON: ", id="no YAML"),
        pytest.param("!!python/object:os.system {}", "neither YAML nor JSON: ", id="YAML that would run something"),
        pytest.param("[1]", "lacks apiVersion, kind or metadata.name", id="a list"),
        pytest.param("kind: Pod", "lacks apiVersion, kind or metadata.name", id="half an object"),
        pytest.param("apiVersion: v1\nkind: Pod\nmetadata: {}", "lacks apiVersion, kind or metadata.name", id="without a name"),
    ],
)
def test_what_is_no_object_is_refused_with_the_file(text: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as refused:
        parse("some.yaml", text)
    assert str(refused.value).startswith("-f some.yaml: ")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file or directory"):
        read(str(tmp_path / "none.yaml"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(BadInput, match="is no text"):
        read(str(tmp_path / "bytes"))
    (tmp_path / "good.yaml").write_text(ONE)
    assert [one.name for one in read(str(tmp_path / "good.yaml"))] == ["a"]
