"""What virt-handler answers to virt-api: the guest of an instance is to pause, or to go on."""

from __future__ import annotations

import contextlib
import re
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from tests.e2e.api import Api
from tests.e2e.snapshot_scene import eventually

from .kubevirt_nodes import KIND, with_pause

_CALL: Final = re.compile(r"/v1/namespaces/([^/]+)/virtualmachineinstances/([^/]+)/(pause|unpause)")


class Handler:
    """One server for all nodes. It writes as virt-handler's account does."""

    def __init__(self, api: Api, certificates: Path) -> None:
        self._api = api
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "handler.crt", certificates / "handler.key")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._requests())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @contextlib.contextmanager
    def serving(self) -> Iterator[Handler]:
        thread = threading.Thread(target=self._server.serve_forever, name="virt-handler")
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def _requests(self) -> type[BaseHTTPRequestHandler]:
        pause = self._pause

        class Requests(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                call = _CALL.fullmatch(self.path)
                if call is not None:
                    pause(call[1], call[2], paused=call[3] == "pause")
                self.send_response(202 if call is not None else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: the tests say what was asked."""

        return Requests

    def _pause(self, namespace: str, name: str, *, paused: bool) -> None:
        every = f"/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances"

        def written() -> bool:  # virt-controller writes the same object at any time
            found = next(one for one in self._api.get(every).obj["items"] if one["metadata"]["name"] == name)
            return self._api.call("PUT", f"{every}/{name}", with_pause(found | KIND, paused=paused)).code == 200

        eventually(f"{name} is written", written)
