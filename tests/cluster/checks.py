import time
from collections.abc import Callable

from cluster.admitted import admitted_reach
from cluster.certificates import renewed
from cluster.custom_resources import applied
from cluster.disruptions import drained, killed, rolled_back
from cluster.earlier import upgraded_from_earlier
from cluster.engines import engine_answers, version_answers
from cluster.experts import expert_answers, expert_rests
from cluster.finding import require
from cluster.pods import CLIENT, program, said
from cluster.quota import counted
from cluster.release import Release, run
from cluster.scaling import scaled_down, scaled_up
from cluster.tasks import first_task, priced
from cluster.training import trained

Check = Callable[[Release], str]
# A pod under the restricted profile that tries one address from inside.
REACH = (
    "import socket, sys\n"
    "try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 4); print('reached')\n"
    "except OSError as error: print('refused', type(error).__name__)\n"
)
LEFT_BY_DESIGN = {
    "podium-api-keys",
    "podium-authority",
    "podium-bundled",
    "podium-databases",
    "podium-identity",
    "podium-platform-api-key",
    "podium-postgres-admin",
}


def installed(release: Release) -> str:
    """One command, on an empty namespace."""
    release.install()
    return "charts/podium with profiles/evaluation.yaml"


def admitted(release: Release) -> str:
    rejected = [
        event["message"] for event in release.items("events") if event["reason"] == "FailedCreate"
    ]
    require(not rejected, "; ".join(rejected[:3]))
    return f"{len(release.items('pods'))} pods, none rejected"


def made(release: Release) -> str:
    """The first printed command ends: databases, keys, prices and tools are made."""
    run("bash", "-c", release.printed_commands()[0])
    log = release.kubectl("logs", "-l", "app.kubernetes.io/component=bootstrap", "--tail=-1")
    require("ready" in log.splitlines()[-1], log)
    return f"{len(log.splitlines()) - 1} lines of what was made"


def ready(release: Release) -> str:
    """Every pod is ready, and none was started again."""
    pods = release.pods()
    for pod in pods:
        for each in pod["status"].get("containerStatuses", []):
            name = pod["metadata"]["name"]
            require(each["ready"], f"{name} is not ready")
            require(
                each["restartCount"] == 0, f"{name} was started {each['restartCount']} times again"
            )
    return f"{len(pods)} pods"


def reach(release: Release) -> str:
    tried = {
        ("stranger", "podium-postgres", 5432): "refused",
        ("stranger", "podium-model-server", 8080): "refused",
        ("stranger", "podium-gateway", 8080): "refused",
        ("client", "podium-gateway", 8080): "reached",
        ("client", "podium-cost-ledger", 50054): "refused",
    }
    for (who, host, port), expected in tried.items():
        found = _reach(release, who, host, port)
        require(found.startswith(expected), f"{who} to {host}:{port}: {found}")
    return f"{len(tried)} connections tried"


def _reach(release: Release, who: str, host: str, port: int) -> str:
    name, labels = f"{who}-{host}-{port}", CLIENT if who == "client" else {}
    with program(release, name, ["python", "-c", REACH, host, str(port)], labels):
        return said(release, name)


def tested(release: Release) -> str:
    report = release.helm("test")
    require(report.count("Succeeded") >= 1 and "Failed" not in report, report)
    return f"{report.count('Succeeded')} tests"


def upgraded(release: Release) -> str:
    """An upgrade with the same values restarts nothing."""
    before = {pod["metadata"]["uid"] for pod in release.pods()}
    release.upgrade()
    # What would restart has a new template at once.
    time.sleep(5)
    after = {pod["metadata"]["uid"] for pod in release.pods()}
    require(before == after, f"{len(after - before)} pods are new")
    return f"{len(after)} pods as before"


def uninstalled(release: Release) -> str:
    release.helm("uninstall", "--wait")
    kinds = "deployments,statefulsets,services,jobs,networkpolicies,roles,configmaps,secrets"
    left = {one["metadata"]["name"] for one in release.items(kinds)} - {"kube-root-ca.crt"}
    certificates = {name for name in left if name.endswith("-tls")}
    unexpected = left - LEFT_BY_DESIGN - certificates
    require(not unexpected, f"left: {', '.join(sorted(unexpected))}")
    kept = sorted(left - certificates)
    return f"left: {', '.join(kept)}, {len(certificates)} certificates"


CHECKS: dict[str, Check] = {
    "one helm install": installed,
    "admitted under restricted Pod Security": admitted,
    "databases, keys, prices and tools are made": made,
    "a first task is answered and priced": first_task,
    "an episode's cost, to the last digit": priced,
    "every pod is ready, none restarted": ready,
    "network: who reaches whom": reach,
    "network: operators, scraper, ingress": admitted_reach,
    "helm test": tested,
    "mutual TLS, and a certificate renewed": renewed,
    "each service is killed while episodes run": killed,
    "services are drained while episodes run": drained,
    "upgrade with the same values": upgraded,
    "an upgrade is rolled back": rolled_back,
    "upgrade from an earlier version, episodes run": upgraded_from_earlier,
    "KEDA starts workers for direct calls": scaled_up,
    "custom resources": applied,
    "KServe: a ready engine answers an episode": engine_answers,
    "KServe: an engine of a merged version answers": version_answers,
    "an expert of the values answers, from no pod": expert_answers,
    "an expert without calls has no pod": expert_rests,
    "training: Kueue counts every accelerator": counted,
    "training: two pods, killed, resumed, served": trained,
    "KEDA takes workers away": scaled_down,
    "uninstall": uninstalled,
}
