"""What `ullage up` may be asked for, and the one line that it answers otherwise."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ullage.errors import BadInput
from ullage.standalone.up import settings
from ullage.standalone.up.settings import parse


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param(
            {"XDG_DATA_HOME": "/data", "HOME": "/home/ann"}, "/data/ullage", id="the user's data directory, where it is set"
        ),
        pytest.param({"HOME": "/home/ann"}, "/home/ann/.local/share/ullage", id="else the usual one in the home directory"),
        pytest.param(
            {"XDG_DATA_HOME": "data", "HOME": "/home/ann"}, "/home/ann/.local/share/ullage", id="a relative one is ignored"
        ),
        pytest.param({"XDG_DATA_HOME": "", "HOME": "/home/ann"}, "/home/ann/.local/share/ullage", id="an empty one is ignored"),
    ],
)
def test_where_the_data_lives_when_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], expected: str
) -> None:
    monkeypatch.setenv("HOME", environ["HOME"])
    assert parse(data_dir=None, port="0", ephemeral=False, environ=environ).data_dir == Path(expected)


def test_a_relative_directory_is_taken_from_where_the_command_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse(data_dir="here", port="0", ephemeral=False, environ={}).data_dir == tmp_path / "here"


def test_an_ephemeral_one_has_no_directory_of_the_users() -> None:
    asked = parse(data_dir=None, port="0", ephemeral=True, environ={})
    assert asked.ephemeral
    assert asked.data_dir is None


@pytest.mark.parametrize("port", ["abc", "", "-1", "65536", "99999999999999999999", "1.5", "0x50", "8_0", " 80", "٣"])
def test_a_port_that_is_none_is_refused_with_the_option_the_value_and_the_range(port: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse(data_dir="/x", port=port, ephemeral=False, environ={})
    assert str(refused.value).startswith(f"--port {port or repr(port)}: not a port; ")
    assert "from 0 to 65535" in str(refused.value)


def test_a_port_that_is_taken_is_refused_where_it_was_asked_for(taken: int) -> None:
    with pytest.raises(BadInput, match=f"--port {taken}: taken by another program"):
        parse(data_dir="/x", port=str(taken), ephemeral=False, environ={})


def test_a_default_port_that_is_taken_gives_way_to_a_free_one(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    monkeypatch.setattr(settings, "DEFAULT_PORT", taken)
    asked = parse(data_dir="/x", port=None, ephemeral=False, environ={})
    assert (asked.port, asked.port_fallback) == (0, taken)


def test_a_default_port_that_is_free_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    monkeypatch.setattr(settings, "DEFAULT_PORT", free)
    asked = parse(data_dir="/x", port=None, ephemeral=False, environ={})
    assert (asked.port, asked.port_fallback) == (free, None)


@pytest.mark.parametrize("directory", ["", "  "])
def test_an_empty_directory_name_is_refused(directory: str) -> None:
    with pytest.raises(BadInput, match=r"--data-dir '\s*': empty"):
        parse(data_dir=directory, port="0", ephemeral=False, environ={})


def test_a_directory_that_would_be_removed_must_not_be_the_users() -> None:
    with pytest.raises(BadInput, match=r"--data-dir /x: not allowed with --ephemeral"):
        parse(data_dir="/x", port="0", ephemeral=True, environ={})


@pytest.mark.parametrize(("given", "count"), [(None, 2), ("1", 1), ("50", 50), ("1000", 1000)])
def test_there_are_two_nodes_for_migrations_unless_another_number_is_asked_for(given: str | None, count: int) -> None:
    assert parse(data_dir=None, port="0", ephemeral=True, environ={}, nodes=given).nodes == count


@pytest.mark.parametrize("given", ["0", "-1", "1001", "2.5", "many", "", "\u0663"])
def test_a_number_of_nodes_that_is_none_is_refused_with_what_is_allowed(given: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse(data_dir=None, port="0", ephemeral=True, environ={}, nodes=given)
    assert str(refused.value) == f"--nodes {given or repr(given)}: a whole number from 1 to 1000 is allowed"


@pytest.mark.parametrize(("given", "count"), [pytest.param(None, 0, id="none where it is not said"), ("1", 1), ("5", 5)])
def test_how_many_seeds_there_are(given: str | None, count: int) -> None:
    assert parse(data_dir=None, port="0", ephemeral=True, environ={}, seeds=given).seeds == count


@pytest.mark.parametrize("given", ["0", "6", "-1", "1.0", "", "two"])
def test_a_number_of_seeds_that_cannot_be_is_refused(given: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse(data_dir=None, port="0", ephemeral=True, environ={}, seeds=given)
    assert str(refused.value) == f"--seeds {given or repr(given)}: a whole number from 1 to 5 is allowed"
