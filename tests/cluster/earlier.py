from chart.rendering import ROOT
from cluster.load import load
from cluster.pods import image_of
from cluster.release import Release, run
from cluster.tasks import first_task
from cluster.volumes import STORAGE_CLASS, claims

# `make image-earlier REF=...` makes both.
CHART = ROOT / "build/earlier/charts/podium"
TAG = "earlier"
# The new pods of PostgreSQL and Temporal must find what the old ones kept.
KEPT = ("data-podium-postgres-0", "data-podium-temporal-0")
EPISODES_S, AT_ONCE = 150, 2


def upgraded_from_earlier(release: Release) -> str:
    """Upgrades in a namespace of its own: no episode is lost, and a task is answered and priced."""
    if not CHART.exists():
        return "not tried: make image-earlier REF=TAG makes the earlier version's image and chart"
    image = image_of(release, "podium-gateway")
    beside = release.beside("earlier")
    beside.chart = str(CHART)
    beside.json_values |= {
        "servers.claims": {"enabled": True, "storageClassName": STORAGE_CLASS, "size": "5Gi"},
        "componentDefaults.image.tag": TAG,
    }
    beside.make_namespace()
    try:
        with claims(beside, KEPT, image):
            try:
                answered = _upgraded(beside)
            finally:
                # Its claims are not given back before.
                beside.helm("uninstall", "--ignore-not-found", "--wait")
    finally:
        beside.remove()
    return answered


def _upgraded(beside: Release) -> str:
    beside.install()
    run("bash", "-c", beside.printed_commands()[0])
    with load(beside, "episodes", EPISODES_S, AT_ONCE) as running:
        beside.chart = Release.chart
        del beside.json_values["componentDefaults.image.tag"]
        beside.upgrade()
        for name in beside.deployments():
            beside.wait_for(name)
        answered = running.ended()
    run("bash", "-c", beside.printed_commands()[0])
    first_task(beside)
    return f"{answered}, then a first task"
