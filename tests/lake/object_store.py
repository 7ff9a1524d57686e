"""An S3 server on the loopback (moto's), whose network can be made to fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUCKET = "bucket"
_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


@dataclass
class Faults:
    """What happens to requests of objects whose key contains `key`: the first `times` of them fail, as `kind` says."""

    kind: str = ""
    key: str = ""
    times: int = 0
    method: str = "GET"
    struck: int = 0
    requests: list[str] = field(default_factory=list)
    """The method and path of every request."""

    def strike(self, kind: str, key: str, times: int, method: str = "GET") -> None:
        self.kind, self.key, self.times, self.method, self.struck = kind, key, times, method, 0

    def strikes(self, method: str, path: str) -> bool:
        if self.kind and method == self.method and self.key in path and self.struck < self.times:
            self.struck += 1
            return True
        return False


@dataclass
class Store:
    """A running server: what is in the environment to reach it, its faults, and a client."""

    environment: dict[str, str]
    faults: Faults
    client: Any

    def upload(self, folder: Path, key: str) -> str:
        """Put the files of a folder under a key. Returns the address."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.client.put_object(Bucket=BUCKET, Key=f"{key}/{path.relative_to(folder)}", Body=path.read_bytes())
        return f"s3://{BUCKET}/{key}"

    def keys(self, prefix: str) -> list[str]:
        found = self.client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [entry["Key"] for entry in found]


def _faulty(application: Callable[..., Iterable[bytes]], faults: Faults) -> Callable[..., Iterable[bytes]]:
    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        faults.requests.append(f"{environ['REQUEST_METHOD']} {path}")
        if not faults.strikes(environ["REQUEST_METHOD"], path):
            return application(environ, start_response)
        if faults.kind == "lost":  # what was asked for is done, and nobody is told
            b"".join(application(environ, lambda *_: None))
        if faults.kind in ("busy", "lost"):
            start_response("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(_BUSY)))])
            return [_BUSY]
        body = b"".join(application(environ, start_response))
        if faults.kind == "slow":
            return _slowly(body)
        return [body[: len(body) // 2]]  # cut: the connection ends before as much as Content-Length said

    return serve


def _slowly(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), max(1, len(body) // 4)):
        time.sleep(0.1)
        yield body[start : start + max(1, len(body) // 4)]


@contextmanager
def running() -> Iterator[Store]:
    """Run a server with an empty bucket."""
    import boto3
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_: Any) -> None:
            pass

    faults = Faults()
    application = _faulty(DomainDispatcherApplication(create_backend_app), faults)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    environment = {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id="any", aws_secret_access_key="any", region_name="us-east-1"
    )
    client.create_bucket(Bucket=BUCKET)
    try:
        yield Store(environment, faults, client)
    finally:
        server.shutdown()
        server.server_close()
