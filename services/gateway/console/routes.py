from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, RedirectResponse

FOLDER = Path(__file__).parent
# The page may load its own files and talk to its own origin; nothing else.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
FILES = {path.name: path for path in FOLDER.iterdir() if path.suffix in {".css", ".js", ".svg"}}


def console_router() -> APIRouter:
    """The routes; open, because the page holds no data of its own."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def root() -> RedirectResponse:
        return RedirectResponse("/console")

    @router.get("/console")
    async def page() -> FileResponse:
        return FileResponse(FOLDER / "index.html", headers=HEADERS)

    for name, path in FILES.items():
        router.add_api_route(f"/console/{name}", _serving(path))
    return router


def _serving(path: Path) -> Callable[[], Awaitable[FileResponse]]:
    async def serve() -> FileResponse:
        return FileResponse(path, headers=HEADERS)

    return serve
