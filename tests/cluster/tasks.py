import json
import re
from decimal import Decimal

import yaml

from chart.rendering import ROOT
from cluster.finding import require
from cluster.release import Json, Release, run

QUESTION = "What is the capital of Burkina Faso?"
MODEL_SKU, TOOL, TOOL_SKU = (
    "orchestrator/smollm2-135m-podium",
    "country_facts",
    "tool/country_facts",
)


def first_task(release: Release) -> str:
    """The second printed command answers by the bundled policy, and the answer has a price."""
    # The answer goes to stdout, the turns and what they cost to stderr.
    said = run("bash", "-c", f"exec 2>&1; {release.printed_commands()[1]}")
    require("Ouagadougou" in said, said)
    require("unknown price" not in said, said)
    cost = re.search(r"\$(\d+\.\d+)", said)
    require(cost is not None and Decimal(cost.group(1)) > 0, said)
    return " ".join(line.strip() for line in said.splitlines()[-2:])


def priced(release: Release) -> str:
    """An episode costs what its tokens and calls cost by the bundled list, to the last digit."""
    expected = Decimal(0)
    events = asked(release, "--tool", TOOL)
    for event in events:
        for kind, sku in (("action_decided", MODEL_SKU), ("tool_returned", TOOL_SKU)):
            for used in event.get(kind, {}).get("usage", {}).get("quantities", []):
                expected += Decimal(used["amount"]) * _unit_price(sku, used["dimension"])
    cost = Decimal(events[-1]["finished"]["episode"]["cost"]["amount"])
    require(cost == expected > 0, f"it cost {cost} instead of {expected}: {events}")
    return f"${cost} for {len(events)} events"


def asked(release: Release, *options: str, question: str = QUESTION) -> list[Json]:
    lines = podium(release, "tenant", "run", question, *options, "--json")
    return [json.loads(line) for line in lines.splitlines()]


def podium(release: Release, key: str, *arguments: str) -> str:
    environment = (
        "PODIUM_URL=https://localhost:8080",
        "SSL_CERT_FILE=/etc/podium/tls/ca.crt",
        f"PODIUM_API_KEY={release.key(key)}",
    )
    command = ("exec", "deploy/podium-gateway", "--", "env", *environment, "podium", *arguments)
    return release.kubectl(*command)


def _unit_price(sku: str, dimension: str) -> Decimal:
    listed = yaml.safe_load((ROOT / "bundled/prices.yaml").read_text())["specs"]
    [price] = [each for each in listed if each["sku"] == sku]
    [found] = [each for each in price["components"] if each["dimension"] == dimension]
    return Decimal(found["unitPrice"]) / Decimal(found.get("per", "1"))
