import re
from pathlib import Path

from podium_operations.cluster.api_server import Discovery
from podium_operations.cluster.requirements import Integration, wanted
from podium_operations.finding import Finding

# As charts/podium/Chart.yaml has it.
KUBERNETES_MINIMUM = (1, 30)


async def examine_cluster(files: list[Path], discovery: Discovery) -> list[Finding]:
    """A finding for Kubernetes and one for each integration that the values ask for.

    Raises UsageError for an unusable file, ClusterUnreachable without a cluster.
    """
    asked_for = wanted(files)
    served = await discovery.group_versions()
    return [
        _kubernetes(await discovery.version()),
        *[await _integration(each, served, discovery) for each in asked_for],
    ]


def _kubernetes(version: str) -> Finding:
    parts = re.match(r"v(\d+)\.(\d+)", version)
    well = parts is not None and (int(parts[1]), int(parts[2])) >= KUBERNETES_MINIMUM
    minimum = ".".join(map(str, KUBERNETES_MINIMUM))
    fix = "" if well else f"upgrade the cluster to Kubernetes {minimum} or later"
    return Finding("Kubernetes", well, version, fix)


async def _integration(asked: Integration, served: set[str], discovery: Discovery) -> Finding:
    missing = [
        f"{kind} of {api}"
        for api, kinds in asked.apis.items()
        for kind in sorted(set(kinds) - (await discovery.kinds(api) if api in served else set()))
    ]
    if not missing:
        finding = ", ".join(asked.apis) or "asks for no API"
        return Finding(asked.operator, True, finding)
    fix = f"install {asked.operator} {asked.minimum} or later: {asked.install}"
    return Finding(asked.operator, False, f"not served: {', '.join(missing)}", fix)
