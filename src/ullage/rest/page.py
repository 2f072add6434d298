"""The page at `/`, from the OpenAPI document: what can be asked for, with a command to try. Pure.

It is plain HTML and one style sheet, both served by us: nothing is fetched from anywhere else, and no script runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec

from ullage.kube.objects import Json
from ullage.kube.routes import Route
from ullage.rest.answers import JSON, Header, Page
from ullage.rest.openapi import document

STYLE: Final = "/assets/style.css"
_SAFE: Final[tuple[Header, ...]] = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-cache"),
)
_EXAMPLE: Final = {"namespace": "team-a", "name": "db", "id": "abc"}


def public_pages(routes: Sequence[Route]) -> dict[str, Page]:
    """What everybody may see, by path."""
    told = document(routes)
    style = (Path(__file__).parent / "assets" / "style.css").read_bytes()
    return {
        "/": Page(200, html(told).encode(), b"text/html; charset=utf-8", _SAFE),
        "/openapi.json": Page(200, msgspec.json.format(msgspec.json.encode(told), indent=2), JSON, _SAFE),
        STYLE: Page(200, style, b"text/css; charset=utf-8", _SAFE),
    }


def html(told: Json) -> str:
    info = told["info"]
    operations = [
        (path, method, operation)
        for path, methods in told["paths"].items()
        for method, operation in methods.items()
        if method != "parameters"
    ]
    links = "".join(
        f'<li><a href="#{escape(operation["operationId"])}"><code>{method.upper()} {escape(path)}</code></a></li>'
        for path, method, operation in operations
    )
    sections = "".join(_section(path, method, operation, told) for path, method, operation in operations)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(info["title"])}</title>
<link rel="stylesheet" href="{STYLE}">
</head>
<body>
<header>
<h1>{escape(info["title"])} <small>{escape(info["version"])}</small></h1>
<p>{escape(info["description"])}</p>
<p><a href="/openapi.json">OpenAPI document</a> · <a href="/healthz">health</a> · <a href="/readyz">readiness</a> ·
<a href="/metrics">metrics</a></p>
</header>
<nav><ul>{links}</ul></nav>
<main>{sections}</main>
</body>
</html>
"""


def _section(path: str, method: str, operation: Json, told: Json) -> str:
    old = ' <span class="old">another spelling</span>' if operation.get("deprecated") else ""
    parameters = [*told["paths"][path]["parameters"], *operation.get("parameters", ())]
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td><td>{_values(one)}</td></tr>"
        for one in parameters
    )
    answers = "".join(
        f"<tr><td><code>{code}</code></td><td>{escape(answer['description'])}</td></tr>"
        for code, answer in operation["responses"].items()
    )
    return f"""
<section id="{escape(operation["operationId"])}">
<h2><span class="method">{method.upper()}</span> <code>{escape(path)}</code>{old}</h2>
{_paragraphs(operation["description"])}
<h3>Parameters</h3>
<table>{rows}</table>
{_body(operation, told)}<h3>Try it</h3>
<pre>{escape(_command(path, method, operation, told))}</pre>
<h3>Answers</h3>
<table>{answers}</table>
</section>
"""


def _values(parameter: Json) -> str:
    allowed = parameter["schema"].get("enum")
    return escape(parameter["description"]) + (f" <code>{escape(' | '.join(allowed))}</code>" if allowed else "")


def _paragraphs(text: str) -> str:
    return "\n".join(f"<p>{_marked(paragraph)}</p>" for paragraph in text.split("\n\n"))


def _marked(text: str) -> str:
    """Text with `code` in it."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _schemas(operation: Json, told: Json) -> list[tuple[str, Json]]:
    schema: Json = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    references: list[Any] = schema.get("oneOf", [schema] if schema else [])
    names = [str(one["$ref"]).rpartition("/")[2] for one in references]
    return [(name, told["components"]["schemas"][name]) for name in names]


def _body(operation: Json, told: Json) -> str:
    made = ""
    for _, schema in _schemas(operation, told):
        rows = "".join(
            f"<tr><td><code>{escape(name)}</code></td><td>{escape(_type(field))}</td>"
            f"<td>{_marked(field.get('description', ''))}</td></tr>"
            for name, field in schema.get("properties", {}).items()
        )
        made += f"<h3>Body</h3>\n<table>{rows}</table>\n"
    return made


def _type(schema: Json) -> str:
    found = schema.get("type", "")
    return " or ".join(found) if isinstance(found, list) else str(found)


def _command(path: str, method: str, operation: Json, told: Json) -> str:
    for name, value in _EXAMPLE.items():
        path = path.replace(f"{{{name}}}", value)
    action = next((one["schema"]["enum"][0] for one in operation.get("parameters", ()) if one["name"] == "action"), "")
    query = f"?action={action}" if action else ""
    lines = [f'curl --cacert ca.crt -X {method.upper()} -H "Authorization: Bearer $TOKEN"']
    for _, schema in _schemas(operation, told)[:1]:
        body = {name: (field.get("examples") or ["…"])[0] for name, field in schema.get("properties", {}).items()}
        lines.append(f"  -H 'Content-Type: application/json' -d '{msgspec.json.encode(body).decode()}'")
    lines.append(f'  "https://HOST:PORT{path}{query}"')
    return " \\\n".join(lines)
