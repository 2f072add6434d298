"""The page of neighbours says what the reports say, and the versions that are pinned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.peers.page import NEIGHBOURS, PAGE, ROOT, Neighbour, page, stories, version

REPORT = """<testsuites><testsuite>
<testcase classname="tests.e2e.test_csi_sanity" name="test_our_driver_is_one[v1]" time="1"/>
<testcase classname="tests.e2e.test_csi_sanity" name="test_more" time="1"><failure message="no">x</failure></testcase>
<testcase classname="tests.peers.test_kubevirt" name="test_it_runs" time="1"><skipped message="no Go on the PATH"/></testcase>
</testsuite></testsuites>"""


def test_each_result_is_told(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    some = (Neighbour("a", "csi", "x", ("e2e/csi_sanity",), "What."), Neighbour("b", "kube", "y", ("peers/kubevirt",), "What."))
    said = page(list(stories([report])), {"a": "v1.2.3", "b": "v4"}, some)
    assert "| [a](#a) | v1.2.3 | 1 | 1 | 0 |\n| [b](#b) | v4 | 0 | 0 | 1 |" in said
    assert "  - our driver is one (v1): passed\n  - more: failed\n" in said
    assert "  - it runs: skipped: no Go on the PATH\n" in said


def test_a_suite_that_did_not_run_is_not_passed_over() -> None:
    some = (Neighbour("a", "csi", "x", ("e2e/csi_sanity",), "What."),)
    said = page([], {"a": "v1"}, some)
    assert "| [a](#a) | v1 | 0 | 0 | 0 |" in said
    assert "- `tests/e2e/test_csi_sanity.py`: did not run\n" in said


@pytest.mark.parametrize("one", NEIGHBOURS, ids=lambda one: one.name)
def test_the_page_has_the_versions_that_are_pinned(one: Neighbour) -> None:
    assert f"| [{one.name}](#{one.name}) | {version(one)} | " in PAGE.read_text(), "run: make neighbours"


def test_every_suite_of_peers_is_on_the_page() -> None:
    files = [file for file in (ROOT / "tests" / "peers").glob("test_*.py") if "pytest.mark.peers" in file.read_text()]
    here = {f"peers/{file.stem.removeprefix('test_')}" for file in files}
    named = {test for one in NEIGHBOURS for test in one.tests}
    assert here <= named, "name them in tools/peers/page.py"
    for test in sorted(named):
        folder, _, name = test.rpartition("/")
        assert (ROOT / "tests" / folder / f"test_{name}.py").is_file()


def test_a_version_that_is_not_pinned_is_an_error(tmp_path: Path) -> None:
    module = tmp_path / "tools" / "peers" / "a"
    module.mkdir(parents=True)
    (module / "go.mod").write_text("module x\n\nrequire (\n\texample.test/a v1.0.0\n\texample.test/b v2.0.0 // indirect\n)\n")
    assert version(Neighbour("a", "a", "example.test/a", (), ""), tmp_path) == "v1.0.0"
    with pytest.raises(LookupError, match=r"^tools/peers/a/go.mod does not require example.test/c$"):
        version(Neighbour("a", "a", "example.test/c", (), ""), tmp_path)
