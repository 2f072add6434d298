"""A Configuration file is decoded strictly: each refusal has the path, the value and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ullage.app.configuration.reading import DEEPEST, LARGEST, MOST, parse, read
from ullage.app.configuration.types import DEFAULT, Spec
from ullage.errors import BadInput

HEAD = "apiVersion: config.ullage.io/v1alpha1\nkind: Configuration\n"


def spec(text: str) -> Spec:
    return parse("c.yaml", f"{HEAD}spec: {text}").spec


def test_a_file_without_fields_is_the_default() -> None:
    assert parse("c.yaml", HEAD) == DEFAULT


def test_each_kind_of_value_is_read() -> None:
    found = spec(
        """
  roles: [master]
  drivers:
    csi: {csi.example.com: unix:///csi/csi.sock, other.example.com: sidecar}
    hostPath: {volumes: [/a, /b], node: "7"}
    longhorn: true
    auditIntervalSeconds: 2.5
    waitingSnapshots: 7
  webhook: {clientCAFile: /etc/ca.crt, port: 0}
"""
    )
    assert found.roles == ("master",)
    assert found.drivers.csi == {"csi.example.com": "unix:///csi/csi.sock", "other.example.com": "sidecar"}
    assert (found.drivers.host_path.volumes, found.drivers.host_path.node) == (("/a", "/b"), "7")
    assert (found.drivers.longhorn, found.drivers.audit_interval_seconds, found.drivers.waiting_snapshots) == (True, 2.5, 7)
    assert (found.webhook.client_ca_file, found.webhook.port) == ("/etc/ca.crt", 0)


def test_json_is_yaml() -> None:
    text = '{"apiVersion": "config.ullage.io/v1alpha1", "kind": "Configuration", "spec": {"roles": ["seed"]}}'
    assert parse("c.json", text).spec.roles == ("seed",)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="the whole spec"),
        pytest.param("{drivers: }", id="a section of which every line is commented out"),
        pytest.param("{engines: {socket: null}}", id="a value that is not set"),
    ],
)
def test_null_says_that_nothing_is_set(text: str) -> None:
    assert spec(text) == DEFAULT.spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[a]", "spec (a list): a mapping with roles, drivers,", id="a section that is a list"),
        pytest.param("{driver: {}}", "spec.driver (unknown): roles, drivers, engines,", id="a section that is not known"),
        pytest.param(
            "{engines: {manages: true}}",
            "spec.engines.manages (unknown): manage or socket is allowed there",
            id="a field that is not known",
        ),
        pytest.param(
            "{webhook: {token: hunter2}}", "spec.webhook.token (unknown): port, bind,", id="a secret, which is not shown"
        ),
        pytest.param(
            "{drivers: {hostPath: {volumes: [/a, x]}}}",
            'spec.drivers.hostPath.volumes[1] "x": an absolute path is allowed',
            id="a relative path in a list",
        ),
        pytest.param(
            "{drivers: {csi: {csi.example.com: csi.sock}}}",
            'spec.drivers.csi["csi.example.com"] "csi.sock": an absolute path of a socket, such as unix:///csi/csi.sock, or '
            "sidecar is allowed",
            id="a relative path in a map",
        ),
        pytest.param('{drivers: {csi: {"a=b": sidecar}}}', 'spec.drivers.csi["a=b"] (key): the name', id="a key of a map"),
        pytest.param("{drivers: {csi: [a]}}", "spec.drivers.csi (a list): a mapping is allowed", id="a map that is a list"),
        pytest.param("{drivers: {provision: a}}", 'spec.drivers.provision "a": a list is allowed', id="a list that is a text"),
        pytest.param(
            "{drivers: {provision: [null]}}", "spec.drivers.provision[0] null: the name of a driver", id="null in a list"
        ),
        pytest.param("{roles: []}", "spec.roles []: a list of 1 or more is allowed", id="no role"),
        pytest.param(
            "{roles: [tenant]}", 'spec.roles[0] "tenant": cluster, master, seed or user-cluster is allowed', id="a role"
        ),
        pytest.param("{projects: {surge: loose}}", 'spec.projects.surge "loose": replace or strict is allowed', id="a mode"),
        pytest.param(
            "{webhook: {port: 65536}}",
            "spec.webhook.port 65536: a whole number from 0 to 65535 is allowed",
            id="one more than a port can be",
        ),
        pytest.param("{webhook: {port: 1.5}}", "spec.webhook.port 1.5: a whole number", id="a part of a number"),
        pytest.param("{webhook: {port: true}}", "spec.webhook.port true: a whole number", id="true as a number"),
        pytest.param("{webhook: {port: null}}", "spec.webhook.port null: a whole number", id="null as a number"),
        pytest.param("{webhook: {port: 010}}", 'spec.webhook.port "010": a whole number', id="an octal number"),
        pytest.param("{webhook: {port: 1:30}}", 'spec.webhook.port "1:30": a whole number', id="a sexagesimal number"),
        pytest.param(
            "{drivers: {auditIntervalSeconds: -1}}",
            "spec.drivers.auditIntervalSeconds -1: a number that is 0 or more is allowed",
            id="less than no time",
        ),
        pytest.param("{api: {drainSeconds: .inf}}", 'spec.api.drainSeconds ".inf": a number', id="an endless time"),
        pytest.param("{api: {drainSeconds: 1e999}}", "spec.api.drainSeconds Infinity: a number", id="more than a number holds"),
        pytest.param(
            "{controller: {leaderElect: no}}", 'spec.controller.leaderElect "no": true or false', id="no, which is no false"
        ),
        pytest.param(
            "{virtualMachines: {kubevirt: {version: 1.4}}}",
            "spec.virtualMachines.kubevirt.version 1.4: a text without spaces is allowed, in quotes",
            id="a version without quotes",
        ),
        pytest.param(
            "{projects: {seedNamespace: Kube}}",
            'spec.projects.seedNamespace "Kube": the name of a namespace is allowed',
            id="no name of a namespace",
        ),
        pytest.param(
            f"{{projects: {{seedNamespace: {'a' * 64}}}}}", "spec.projects.seedNamespace", id="too long a name of a namespace"
        ),
        pytest.param('{api: {bind: "::\\n"}}', 'spec.api.bind "::\\n": a text', id="a line break"),
        pytest.param("{api: {bind: " + "x" * 5000 + "}}", f'spec.api.bind "{"x" * 79}…: a text', id="a text without end"),
        pytest.param(
            "{webhook: {url: https://ann:hunter2@host}}",
            'spec.webhook.url "https://…@host": something like https://host:9443 is allowed',
            id="a password in a URL, which is not shown",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_path(text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        spec(text)
    assert str(caught.value).startswith(f"c.yaml: {message}"), str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "--config c.yaml: has 0 documents; one Configuration is allowed", id="nothing"),
        pytest.param("---\n" + HEAD + "---\n" + HEAD, "--config c.yaml: has 2 documents", id="two documents"),
        pytest.param("a", 'c.yaml: the document "a": a mapping with apiVersion, kind or spec is allowed', id="a text"),
        pytest.param(
            "kind: Configuration", "c.yaml: apiVersion (absent): config.ullage.io/v1alpha1 is needed", id="no version"
        ),
        pytest.param(
            HEAD.replace("v1alpha1", "v2"),
            'c.yaml: apiVersion "config.ullage.io/v2": config.ullage.io/v1alpha1 is allowed',
            id="another version",
        ),
        pytest.param(HEAD.replace("Configuration", "Pod"), 'c.yaml: kind "Pod": Configuration is allowed', id="another kind"),
        pytest.param(HEAD + "metadata: {}", "c.yaml: metadata (unknown): apiVersion, kind or spec", id="an unknown part"),
        pytest.param(HEAD + "kind: Configuration", "--config c.yaml: not YAML: line 3: the key kind stands", id="a key twice"),
        pytest.param(HEAD + "spec: {1: 2}", "--config c.yaml: not YAML: line 3: a key is no text", id="a number as a key"),
        pytest.param(HEAD + "\tx", "--config c.yaml: not YAML: line 3: found character", id="a tab"),
        pytest.param(HEAD + "x: [", "--config c.yaml: not YAML: line 3: ", id="a list that does not end"),
        pytest.param(
            HEAD + "spec: !!python/name:os.system x",
            "--config c.yaml: not YAML: line 3: could not determine a constructor",
            id="a tag that would import",
        ),
        pytest.param(HEAD + "spec: {a: &x 1, b: *x}", "--config c.yaml: line 3: aliases are not allowed", id="an alias"),
        pytest.param(HEAD + "<<: {spec: {}}", "c.yaml: << (unknown)", id="a merge"),
        pytest.param(
            HEAD + "spec: " + "[" * (DEEPEST + 1), f"--config c.yaml: line 3: more than {DEEPEST} levels", id="too deep"
        ),
        pytest.param(f"{HEAD}spec: [{'a, ' * MOST}]", f"--config c.yaml: more than {MOST} values", id="too many values"),
        pytest.param("x: \0", "--config c.yaml: not YAML: ", id="a character that YAML does not have"),
    ],
)
def test_a_document_that_is_no_configuration_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse("c.yaml", text)
    assert str(caught.value).startswith(message), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_may_have_so_many_bytes_and_no_more(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(HEAD + "#" * (LARGEST - len(HEAD)))
    assert read(file) == DEFAULT
    file.write_text(HEAD + "#" * (LARGEST - len(HEAD) + 1))
    with pytest.raises(BadInput, match=f"--config {file}: larger than {LARGEST} bytes"):
        read(file)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(None, "cannot be read: No such file or directory", id="a file that is not there"),
        pytest.param(b"\xff\xfe", "not a text in UTF-8", id="bytes that are no text"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(data: bytes | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(BadInput, match=message) as caught:
        read(file)
    assert str(caught.value).startswith(f"--config {file}: ")
