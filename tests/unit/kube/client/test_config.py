"""Kubeconfigs: what is read, which file wins, and that every mistake is told by file and field."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ullage.kube.client.config import BadConfig, Config, Impersonation
from ullage.kube.client.proxy import from_environment

PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()


def kubeconfig(cluster: Any = None, user: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": "https://host:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        **more,
    }


def write(directory: Path, content: Any, name: str = "config") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def load(directory: Path, content: Any, context: str | None = None) -> Config:
    return Config.load(write(directory, content), context, environ={})


def test_everything_a_cluster_can_say(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        kubeconfig(
            {
                "server": "https://host:6443/k8s/c-1/",
                "certificate-authority-data": PEM,
                "tls-server-name": "api.example.com",
                "proxy-url": "http://me:pw@proxy:3128",
                "disable-compression": True,
            }
        ),
    )
    assert config == Config(
        server="https://host:6443/k8s/c-1",
        context="main",
        ca=b"-----BEGIN CERTIFICATE-----",
        server_name="api.example.com",
        proxy="http://me:pw@proxy:3128",
        compress=False,
    )


def test_everything_a_user_can_say(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        kubeconfig(
            user={
                "token": "t",
                "client-certificate-data": PEM,
                "client-key-data": base64.encodebytes(b"key" * 50).decode(),  # with line ends inside
                "as": "jane",
                "as-uid": "1",
                "as-groups": ["a", "b"],
                "as-user-extra": {"scopes": ["x", "y"]},
            }
        ),
    )
    assert (config.token, config.certificate, config.key) == ("t", b"-----BEGIN CERTIFICATE-----", b"key" * 50)
    assert config.acting_as == Impersonation("jane", "1", ("a", "b"), {"scopes": ("x", "y")})


def test_json_nulls_and_unknown_fields_are_fine(tmp_path: Path) -> None:
    content = kubeconfig({"certificate-authority": None, "brand-new": 1}, {"token": "t", "exec": None}, preferences=None)
    assert load(tmp_path, json.dumps(content)).token == "t"


def test_relative_files_start_at_the_kubeconfig_that_names_them(tmp_path: Path) -> None:
    write(tmp_path / "pki", "ca", "ca.crt")
    write(tmp_path / "pki", "token", "token")
    config = load(tmp_path, kubeconfig({"certificate-authority": "pki/ca.crt"}, {"tokenFile": str(tmp_path / "pki" / "token")}))
    assert (config.ca_file, config.token_file) == (str(tmp_path / "pki" / "ca.crt"), str(tmp_path / "pki" / "token"))


def test_a_context_is_chosen_by_name(tmp_path: Path) -> None:
    other = {"name": "other", "context": {"cluster": "c", "namespace": "team"}}
    content = kubeconfig(user={"token": "t"})
    content["contexts"].append(other)
    assert (load(tmp_path, content).namespace, load(tmp_path, content).token) == ("default", "t")
    assert (load(tmp_path, content, "other").namespace, load(tmp_path, content, "other").token) == ("team", "")


def test_the_first_file_wins_entry_by_entry(tmp_path: Path) -> None:
    first = kubeconfig({"server": "https://first"}, {"token": "first"})
    second = kubeconfig({"server": "https://second", "tls-server-name": "second"}, {"username": "second", "password": "x"})
    second["clusters"].append({"name": "only", "cluster": {"server": "https://only"}})
    second["contexts"].append({"name": "only", "context": {"cluster": "only", "user": "u"}})
    second["current-context"] = "only"
    paths = [write(tmp_path / "1", first), tmp_path / "missing", write(tmp_path / "2", second)]
    environ = {"KUBECONFIG": "::".join(map(str, [*paths, paths[0]]))}
    main, only = Config.load(environ=environ), Config.load(context="only", environ=environ)
    assert (main.server, main.server_name, main.token, main.username) == ("https://first", "", "first", "")
    assert (only.server, only.token) == ("https://only", "first")


def test_a_named_file_is_the_only_one(tmp_path: Path) -> None:
    path = write(tmp_path, kubeconfig({"server": "https://named"}))
    other = write(tmp_path, kubeconfig({"server": "https://other"}), "other")
    assert Config.load(path, environ={"KUBECONFIG": str(other)}).server == "https://named"


def test_the_home_directory_comes_after_kubeconfig(tmp_path: Path) -> None:
    write(tmp_path / "home" / ".kube", kubeconfig({"server": "https://home"}))
    other = write(tmp_path, kubeconfig({"server": "https://other"}))
    assert Config.load(environ={"HOME": str(tmp_path / "home")}).server == "https://home"
    assert Config.load(environ={"HOME": str(tmp_path / "home"), "KUBECONFIG": ""}).server == "https://home"
    assert Config.load(environ={"HOME": str(tmp_path / "home"), "KUBECONFIG": str(other)}).server == "https://other"


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("content", "field", "problem"),
    [
        pytest.param("a: ]", "CONFIG", "no valid YAML at line 1", id="no YAML"),
        pytest.param("- a", "(the file)", "Expected `object`, got `array`", id="no mapping"),
        pytest.param(kubeconfig({"server": 5}), "clusters[0].cluster.server", "Expected `str`, got `int`", id="a wrong type"),
        pytest.param(kubeconfig({"server": "host:6443"}), "clusters[c].cluster.server", "must be a URL", id="no scheme"),
        pytest.param(kubeconfig({"server": ""}), "clusters[c].cluster.server", "must be a URL", id="no server"),
        pytest.param(kubeconfig({"server": "https://h:port"}), "clusters[c].cluster.server", "must be a URL", id="no port"),
        pytest.param(
            kubeconfig({"server": "https://me:pw@h"}), "clusters[c].cluster.server", "credentials", id="a password in the URL"
        ),
        pytest.param(
            kubeconfig({"certificate-authority-data": "s3cret!"}),
            "clusters[c].cluster.certificate-authority-data",
            "not base64",
            id="no base64",
        ),
        pytest.param(
            kubeconfig({"certificate-authority": "no.crt"}),
            "clusters[c].cluster.certificate-authority",
            "there is no file",
            id="a file that is not there",
        ),
        pytest.param(
            kubeconfig({"certificate-authority": "config", "certificate-authority-data": PEM}),
            "clusters[c].cluster.certificate-authority-data",
            "only one",
            id="an authority twice",
        ),
        pytest.param(
            kubeconfig({"certificate-authority-data": PEM, "insecure-skip-tls-verify": True}),
            "clusters[c].cluster.insecure-skip-tls-verify",
            "needs none",
            id="an authority that is not used",
        ),
        pytest.param(
            kubeconfig({"proxy-url": "socks5://h"}), "clusters[c].cluster.proxy-url", "only http", id="a proxy of another kind"
        ),
        pytest.param(kubeconfig(user={"client-certificate-data": PEM}), "users[u].user.client-key", "go together", id="no key"),
        pytest.param(
            kubeconfig(user={"client-key-data": PEM}), "users[u].user.client-certificate", "go together", id="no certificate"
        ),
        pytest.param(
            kubeconfig(user={"client-key-data": PEM, "client-key": "config"}),
            "users[u].user.client-key-data",
            "only one",
            id="a key twice",
        ),
        pytest.param(
            kubeconfig(user={"token": "s3cret!", "username": "me"}), "users[u].user.username", "only one way", id="two ways in"
        ),
        pytest.param(kubeconfig(user={"tokenFile": "no"}), "users[u].user.tokenFile", "there is no file", id="no token file"),
        pytest.param(kubeconfig(user={"as-groups": ["g"]}), "users[u].user.as", "missing", id="groups without a user"),
        pytest.param(kubeconfig(user={"auth-provider": {}}), "users[u].user.auth-provider", "exec", id="an old provider"),
        pytest.param(
            kubeconfig(user={"exec": {**EXEC, "command": ""}}), "users[u].user.exec.command", "missing", id="no command"
        ),
        pytest.param(
            kubeconfig(user={"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
            "users[u].user.exec.apiVersion",
            "must be one of",
            id="an old plugin",
        ),
        pytest.param(
            kubeconfig(user={"exec": {**EXEC, "interactiveMode": ""}}),
            "users[u].user.exec.interactiveMode",
            "must be one of Never, IfAvailable, Always",
            id="a plugin that does not say whether it asks",
        ),
        pytest.param(
            kubeconfig(user={"exec": {**EXEC, "env": [{"value": "s3cret!"}]}}),
            "users[0].user.exec.env[0]",
            "`name`",
            id="a variable without a name",
        ),
        pytest.param(
            kubeconfig(**{"current-context": ""}), "current-context", "no context is chosen; there are main", id="no context"
        ),
        pytest.param(
            kubeconfig(**{"current-context": "x"}), "context x", "none of this name; there are main", id="an unknown context"
        ),
        pytest.param(
            kubeconfig(clusters=[]), "contexts[main].context.cluster", "no cluster 'c'; there are none", id="no cluster"
        ),
        pytest.param(kubeconfig(users=[]), "contexts[main].context.user", "no user 'u'; there are none", id="no user"),
        pytest.param(kubeconfig(users=[{"name": "u"}, {"name": "u"}]), "users[u]", "two entries", id="a name twice"),
        pytest.param("token: s3cret!: x", "CONFIG", "no valid YAML at line 1", id="a secret in a line that is no YAML"),
    ],
)
def test_a_mistake_is_told_by_file_and_field(tmp_path: Path, content: Any, field: str, problem: str) -> None:
    with pytest.raises(BadConfig) as caught:
        load(tmp_path, content)
    text = str(caught.value)
    path = str(tmp_path / "config")
    assert f" {field.replace('CONFIG', path)}: " in text
    assert path in text
    assert problem in text
    assert "s3cret" not in text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="there is no such file"):
        Config.load(tmp_path / "none", environ={})
    with pytest.raises(BadConfig, match=r"\.kube/config: there is no such file; name one, or set KUBECONFIG"):
        Config.load(environ={"HOME": str(tmp_path)})


def test_a_proxy_of_another_kind_in_the_environment(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="HTTPS_PROXY: only http"):
        Config.load(write(tmp_path, kubeconfig()), environ={"HTTPS_PROXY": "socks5://h"})


def test_secrets_are_not_shown() -> None:
    config = Config(server="https://h", token="s3cret", password="s3cret", key=b"s3cret", proxy="http://u:s3cret@p")
    assert "s3cret" not in repr(config)


def test_a_plugin_is_not_shown_with_its_secrets(tmp_path: Path) -> None:
    config = load(tmp_path, kubeconfig(user={"exec": {**EXEC, "args": ["s3cret"], "env": [{"name": "A", "value": "s3cret"}]}}))
    assert config.plugin is not None
    assert (config.plugin.command, config.plugin.args, config.plugin.env) == ("login", ("s3cret",), (("A", "s3cret"),))
    assert "s3cret" not in repr(config)


def test_a_plugin_is_told_about_the_cluster_if_it_asks(tmp_path: Path) -> None:
    write(tmp_path, "-----BEGIN CERTIFICATE-----", "ca.crt")
    cluster = {
        "certificate-authority": "ca.crt",
        "tls-server-name": "n",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
    }
    told = load(tmp_path, kubeconfig(cluster, {"exec": {**EXEC, "provideClusterInfo": True}})).plugin
    untold = load(tmp_path, kubeconfig(cluster, {"exec": EXEC})).plugin
    assert told is not None
    assert untold is not None
    assert told.cluster == {
        "server": "https://host:6443",
        "tls-server-name": "n",
        "certificate-authority-data": PEM,
        "config": {"audience": "x"},
    }
    assert untold.cluster is None


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def account(directory: Path) -> Path:
    for name, content in (("token", "t"), ("ca.crt", "ca"), ("namespace", "team\n")):
        write(directory, content, name)
    return directory


def test_in_a_pod(tmp_path: Path) -> None:
    config = Config.in_cluster(POD, account(tmp_path))
    assert (config.server, config.namespace) == ("https://10.0.0.1:443", "team")
    assert (config.token_file, config.ca_file) == (str(tmp_path / "token"), str(tmp_path / "ca.crt"))
    assert Config.in_cluster({**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path).server == "https://[fd00::1]:443"


def test_a_pod_is_used_only_where_no_kubeconfig_says_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ullage.kube.client.config.SERVICE_ACCOUNT", account(tmp_path / "account"))
    assert Config.load(environ={**POD, "HOME": str(tmp_path)}).server == "https://10.0.0.1:443"
    write(tmp_path / ".kube", kubeconfig())
    assert Config.load(environ={**POD, "HOME": str(tmp_path)}).server == "https://host:6443"


@pytest.mark.parametrize(
    ("environ", "missing", "text"),
    [
        pytest.param({}, "", "KUBERNETES_SERVICE_HOST", id="no pod"),
        pytest.param(POD, "token", "token: cannot be read", id="no token"),
        pytest.param(POD, "ca.crt", "ca.crt: cannot be read", id="no authority"),
    ],
)
def test_a_pod_that_lacks_something(tmp_path: Path, environ: dict[str, str], missing: str, text: str) -> None:
    account(tmp_path)
    if missing:
        (tmp_path / missing).unlink()
    with pytest.raises(BadConfig, match=text):
        Config.in_cluster(environ, tmp_path)


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        pytest.param("https://api.corp:6443", {"HTTPS_PROXY": "http://p:1"}, "http://p:1", id="the proxy for https"),
        pytest.param("https://api.corp:6443", {"https_proxy": "p:1"}, "http://p:1", id="small letters, and no scheme"),
        pytest.param("https://api.corp:6443", {"HTTP_PROXY": "http://p:1"}, "", id="the proxy for http is not for https"),
        pytest.param("http://api.corp", {"HTTP_PROXY": "http://p:1"}, "http://p:1", id="the proxy for http"),
        pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, "", id="this machine"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": "http://p:1"}, "", id="this machine in the new way"),
        pytest.param("https://localhost:6443", {"HTTPS_PROXY": "http://p:1"}, "", id="this machine by name"),
        pytest.param("https://api.corp", {"HTTPS_PROXY": "p", "NO_PROXY": "*"}, "", id="none at all"),
        pytest.param("https://api.corp", {"HTTPS_PROXY": "p", "NO_PROXY": "x, corp"}, "", id="a domain and what is in it"),
        pytest.param("https://corp", {"HTTPS_PROXY": "p", "NO_PROXY": "corp"}, "", id="the domain itself"),
        pytest.param("https://corp", {"HTTPS_PROXY": "p", "NO_PROXY": ".corp"}, "http://p", id="only what is in the domain"),
        pytest.param("https://api.corp", {"HTTPS_PROXY": "p", "NO_PROXY": "*.corp"}, "", id="a star in front of the domain"),
        pytest.param("https://apicorp", {"HTTPS_PROXY": "p", "NO_PROXY": "corp"}, "http://p", id="another domain"),
        pytest.param("https://10.1.2.3", {"HTTPS_PROXY": "p", "NO_PROXY": "10.0.0.0/8"}, "", id="a network"),
        pytest.param("https://11.1.2.3", {"HTTPS_PROXY": "p", "NO_PROXY": "10.0.0.0/8"}, "http://p", id="another network"),
        pytest.param("https://10.1.2.3", {"HTTPS_PROXY": "p", "NO_PROXY": "10.1.2.3"}, "", id="an address"),
        pytest.param("https://[fd00::1]", {"HTTPS_PROXY": "p", "NO_PROXY": "fd00::1"}, "", id="a new address"),
        pytest.param("https://api.corp:1", {"HTTPS_PROXY": "p", "NO_PROXY": "api.corp:1"}, "", id="a port"),
        pytest.param("https://api.corp:1", {"HTTPS_PROXY": "p", "NO_PROXY": "api.corp:2"}, "http://p", id="another port"),
        pytest.param("https://api.corp", {"HTTPS_PROXY": "p", "NO_PROXY": "api.corp:443"}, "", id="the port that goes unsaid"),
        pytest.param("https://api.corp", {"HTTPS_PROXY": "p", "NO_PROXY": "bad/net,,"}, "http://p", id="nonsense"),
    ],
)
def test_the_environments_proxy(server: str, environ: dict[str, str], proxy: str) -> None:
    assert from_environment(server, environ) == proxy


def test_the_kubeconfigs_proxy_comes_before_the_environments(tmp_path: Path) -> None:
    environ = {"HTTPS_PROXY": "http://environment"}
    own = write(tmp_path, kubeconfig({"proxy-url": "http://own"}))
    none = write(tmp_path, kubeconfig(), "none")
    assert Config.load(own, environ=environ).proxy == "http://own"
    assert Config.load(none, environ=environ).proxy == "http://environment"
