"""Whether a cluster serves what the chart's integrations ask for, looked at one by one."""

import re
from pathlib import Path

from podium_cli.cluster.discovery import Discovery
from podium_cli.cluster.requirements import Integration, switched_on
from podium_cli.finding import Finding

# As charts/podium/Chart.yaml has it.
KUBERNETES_MINIMUM = (1, 30)


async def examine_cluster(files: list[Path], discovery: Discovery) -> list[Finding]:
    """A finding for Kubernetes and one for each integration that the values switch on.

    Raises UsageError for an unusable file, ClusterUnreachable without a cluster.
    """
    wanted = switched_on(files)
    served = await discovery.group_versions()
    return [
        _kubernetes(await discovery.version()),
        *[await _integration(each, served, discovery) for each in wanted],
    ]


def _kubernetes(version: str) -> Finding:
    parts = re.match(r"v(\d+)\.(\d+)", version)
    well = parts is not None and (int(parts[1]), int(parts[2])) >= KUBERNETES_MINIMUM
    minimum = ".".join(map(str, KUBERNETES_MINIMUM))
    mend = "" if well else f"upgrade the cluster to Kubernetes {minimum} or later"
    return Finding("Kubernetes", well, version, mend)


async def _integration(wanted: Integration, served: set[str], discovery: Discovery) -> Finding:
    missing = [
        f"{kind} of {api}"
        for api, kinds in wanted.apis.items()
        for kind in sorted(set(kinds) - (await discovery.kinds(api) if api in served else set()))
    ]
    if not missing:
        finding = ", ".join(wanted.apis) or "asks for no API"
        return Finding(wanted.operator, True, finding)
    mend = f"install {wanted.operator} {wanted.minimum} or later: {wanted.install}"
    return Finding(wanted.operator, False, f"not served: {', '.join(missing)}", mend)
