"""`python -m rest_search`: no input to the REST API makes a server error.

schemathesis, in an environment of its own, sends what the served OpenAPI document allows and what
it forbids to every operation of a whole platform: the one of `podium up` with a scripted model.
Continues after a failure, and prints a table of the operations that failed at the end. Ends with
schemathesis's status: 1 for an answer of 5xx, for a status that is not documented, and for a method
that is not allowed and answered with anything but 405 and the methods that are.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from xml.etree import ElementTree

import httpx

from clients.environments import Client
from clients.model import MODEL
from local_platforms import local_platform
from openai_server import OpenAiServer
from podium_operations.local.state import Connection
from temporary_files import server_folder

CONFIGURATION = Path(__file__).resolve().with_name("schemathesis.toml")
SCHEMATHESIS = Client("schemathesis", "schemathesis", ("schemathesis",))
UNLIMITED = {"requests_per_s": 1e5, "burst": 100_000, "concurrency": 1000}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="rest_search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--examples", type=int, default=8, help="most inputs of an operation")
    parser.add_argument("others", nargs="*", help="options of schemathesis, after --")
    given = parser.parse_args()
    sys.exit(asyncio.run(search(given.examples, given.others)))


async def search(examples: int, others: list[str]) -> int:
    await SCHEMATHESIS.install()
    with server_folder("rest") as folder, OpenAiServer(models=[MODEL]) as model:
        async with local_platform(folder, model.base_url, MODEL) as (_, connection):
            await unlimit(connection)
            report = folder / "report.xml"
            status = await searched(connection, examples, others, report)
            print(table(report))
            return status


async def unlimit(connection: Connection) -> None:
    headers = {"authorization": f"Bearer {connection.admin_key}"}
    async with httpx.AsyncClient(base_url=connection.gateway_url, headers=headers) as client:
        tenant = (await client.get("/v1/limits")).json()["tenant"]
        changed = await client.put(f"/v1/tenants/{tenant}/limits", json=UNLIMITED)
        changed.raise_for_status()


async def searched(connection: Connection, examples: int, others: list[str], report: Path) -> int:
    process = await asyncio.create_subprocess_exec(
        str((SCHEMATHESIS.folder / "bin" / "schemathesis").resolve()),
        "--config-file",
        str(CONFIGURATION),
        "run",
        f"{connection.gateway_url}/openapi.json",
        "--header",
        # The platform's admin may do everything, so no operation ends at its door.
        f"Authorization: Bearer {connection.admin_key}",
        "--max-examples",
        str(examples),
        "--phases",
        "coverage,fuzzing",
        "--suppress-health-check",
        "all",
        "--request-timeout",
        "60",
        "--continue-on-failure",
        "--no-shrink",
        "--report",
        "junit",
        "--report-junit-path",
        str(report),
        *others,
        # What it keeps of failures lies beside it.
        cwd=SCHEMATHESIS.folder,
    )
    return await process.wait()


def table(report: Path) -> str:
    if not report.exists():
        return "schemathesis ended without a report"
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {
        case.get("name", ""): found
        for case in cases
        if (found := [each for kind in ("failure", "error") for each in case.iter(kind)])
    }
    rows = [("operation", "problem"), ("---", "---")]
    rows += [(name, _first_line(found[0])) for name, found in failed.items()]
    lines = [f"| {' | '.join(row)} |" for row in rows] if failed else []
    names = {case.get("name") for case in cases}
    return "\n".join((*lines, f"{len(names)} operations tried, {len(failed)} failed"))


def _first_line(problem: ElementTree.Element) -> str:
    said = (problem.get("message") or problem.text or "").strip()
    lines = [line.strip(" -") for line in said.splitlines() if line.strip().startswith("- ")]
    return (lines or said.splitlines() or ["no details"])[0][:120]


if __name__ == "__main__":
    main()
