import asyncio
import hashlib
import sys
from pathlib import Path

import httpx
import yaml

from chart import crd_schemas

SOURCES = Path(__file__).with_name("crds.yaml")
FILES = "https://raw.githubusercontent.com"


async def fetch() -> None:
    """Raises httpx.HTTPError, and ValueError for a file that is not the one tested with."""
    sources = yaml.safe_load(SOURCES.read_text())
    crd_schemas.FOLDER.mkdir(parents=True, exist_ok=True)
    async with httpx.AsyncClient(base_url=FILES, timeout=60) as client, asyncio.TaskGroup() as all_:
        for project, source in sources.items():
            for path, digest in source["files"].items():
                all_.create_task(fetch_one(client, f"/{project}/{source['commit']}/{path}", digest))


async def fetch_one(client: httpx.AsyncClient, url: str, digest: str) -> None:
    crd = (await client.get(url)).raise_for_status().content
    if hashlib.sha256(crd).hexdigest() != digest:
        raise ValueError(f"{url} is not the file of {SOURCES.name}: its SHA-256 differs")
    (crd_schemas.FOLDER / url.rsplit("/", 1)[-1]).write_bytes(crd)


if __name__ == "__main__":
    try:
        asyncio.run(fetch())
    except* (httpx.HTTPError, ValueError) as errors:
        sys.exit(f"could not fetch the CRDs: {errors.exceptions[0]}")
