"""The console: built files of console/, which any browser may load; they hold no data."""

import gzip
import mimetypes
from functools import cache
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

SITE = Path(__file__).parent / "site"
# The page may load its own files and talk to its own origin; no text becomes markup.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
# Their names change with their content.
ASSETS = "assets"
LASTING, EVERY_TIME = "public, max-age=31536000, immutable", "no-store"
COMPRESSED_BYTES_MIN = 1_000


def console_router() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def root() -> RedirectResponse:
        return RedirectResponse("/console")

    @router.get("/console")
    @router.get("/console/{path:path}")
    async def serve(request: Request, path: str = "") -> Response:
        """A built file, or the page, which shows what the path names."""
        is_asset = path.startswith(f"{ASSETS}/")
        name = path if path in _names() else "index.html"
        if is_asset and name != path:
            # A part of an earlier build: the page reloads for one that is there.
            return Response(status_code=404)
        headers = {
            "content-security-policy": POLICY,
            "cache-control": LASTING if is_asset else EVERY_TIME,
            "vary": "accept-encoding",
        }
        body = (SITE / name).read_bytes()
        if len(body) >= COMPRESSED_BYTES_MIN and "gzip" in request.headers.get(
            "accept-encoding", ""
        ):
            body = _compressed(name)
            headers["content-encoding"] = "gzip"
        media = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(body, media_type=media, headers=headers)

    return router


@cache
def _names() -> frozenset[str]:
    return frozenset(
        path.relative_to(SITE).as_posix() for path in SITE.rglob("*") if path.is_file()
    )


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress((SITE / name).read_bytes(), mtime=0)
