"""The web page and the API reference: a few local files, read once, compressed, and checked by ETag."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

from cortex.errors import NotFound

WEB = Path(__file__).resolve().parents[2] / "clients" / "web"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGES = {"/": "index.html", "/docs": "docs.html"}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent."""

    body: bytes
    zipped: bytes
    media_type: str
    etag: str


def read_assets(folder: Path) -> dict[str, Asset]:
    """Read the page's files by name; what has no known type is not served."""
    return {
        path.relative_to(folder).as_posix(): _read(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _TYPES
    }


def page_routes() -> APIRouter:
    """Make the routes of the page, the reference and their assets."""
    router = APIRouter(include_in_schema=False)
    assets = read_assets(WEB)

    async def page(request: Request) -> Response:
        return _send(assets[_PAGES[request.url.path]], request)

    async def asset(name: str, request: Request) -> Response:
        if name not in assets or name.endswith(".html"):
            raise NotFound("there is nothing at this address", code="route.unknown")
        return _send(assets[name], request)

    for path, name in _PAGES.items():
        if name in assets:
            router.add_api_route(path, page, methods=["GET", "HEAD"])
    router.add_api_route("/web/{name:path}", asset, methods=["GET", "HEAD"])
    return router


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    etag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    return Asset(body, gzip.compress(body, mtime=0), _TYPES[path.suffix], etag)


def _send(asset: Asset, request: Request) -> Response:
    headers = {"etag": asset.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            asset.zipped, media_type=asset.media_type, headers={**headers, "content-encoding": "gzip"}
        )
    return Response(asset.body, media_type=asset.media_type, headers=headers)
