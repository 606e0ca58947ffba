import re

import yaml

from chart.pods import containers, pod_templates
from chart.rendering import ROOT, Json, chart, label, merged, of_kind, profile, render, rendered

COMPONENT = "app.kubernetes.io/component"
SERVERS = {"postgres": 5432, "temporal": 7233, "kafka": 9092}
# Of a small machine: cores in thousandths, mebibytes.
CPU_MAX, MEMORY_MAX = 1500, 5 * 1024


def with_claims() -> list[Json]:
    claims = {"enabled": True, "storageClassName": "fast"}
    return render(merged(profile("evaluation"), {"servers": {"enabled": True, "claims": claims}}))


def stateful_set(objects: list[Json], name: str) -> Json:
    found = of_kind(objects, "StatefulSet")
    spec: Json = next(one for one in found if one["metadata"]["name"] == f"podium-{name}")["spec"]
    return spec


def thousandths(cpu: str) -> int:
    return int(cpu.removesuffix("m")) if cpu.endswith("m") else int(cpu) * 1000


def mebibytes(memory: str) -> int:
    return int(memory[:-2]) * {"Mi": 1, "Gi": 1024}[memory[-2:]]


def test_it_finds_its_own_servers() -> None:
    objects = rendered("evaluation")
    services = {
        (one["metadata"]["name"], one["spec"]["ports"][0]["port"])
        for one in of_kind(objects, "Service")
    }
    assert {(f"podium-{name}", port) for name, port in SERVERS.items()} <= services
    endpoints = profile("evaluation")["endpoints"]
    assert endpoints["temporal"]["target"] == f"podium-temporal:{SERVERS['temporal']}"
    assert endpoints["kafka"]["bootstrap"] == f"podium-kafka:{SERVERS['kafka']}"
    # Clients are sent to the address that a broker advertises.
    assert endpoints["kafka"]["bootstrap"] in str(stateful_set(objects, "kafka"))


def test_every_secret_that_a_pod_reads_is_made_by_a_job_of_the_release() -> None:
    objects = rendered("evaluation")
    roles = [rule for one in of_kind(objects, "Role") for rule in one["rules"]]
    made = {name for rule in roles for name in rule.get("resourceNames", ())}
    wanted = set()
    for pod in pod_templates(objects):
        for container in containers(pod.spec):
            for variable in container.get("env", ()):
                if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                    wanted.add(reference["name"])
        for volume in pod.spec.get("volumes", ()):
            wanted |= {volume["secret"]["secretName"]} if "secret" in volume else set()
            sources = volume.get("projected", {}).get("sources", ())
            wanted |= {one["secret"]["name"] for one in sources if "secret" in one}
    assert "podium-postgres-admin" in wanted
    assert wanted <= made


def test_the_password_is_made_before_anything_reads_it_and_nothing_of_that_stays() -> None:
    hooks = [
        one
        for one in rendered("evaluation")
        if "pre-install" in one["metadata"].get("annotations", {}).get("helm.sh/hook", "")
    ]
    kinds = {one["kind"] for one in hooks}
    assert kinds == {"ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "Job"}
    weight = {
        one["kind"]: int(one["metadata"]["annotations"]["helm.sh/hook-weight"]) for one in hooks
    }
    assert all(weight[kind] < weight["Job"] for kind in kinds - {"Job"})
    for one in hooks:
        policy = one["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert policy == "before-hook-creation,hook-succeeded", label(one)


def test_servers_keep_data_in_claims_where_asked_and_beside_the_pod_otherwise() -> None:
    for name in ("postgres", "temporal"):
        spec = stateful_set(rendered("evaluation"), name)
        assert "volumeClaimTemplates" not in spec
        volumes = {one["name"]: one for one in spec["template"]["spec"]["volumes"]}
        assert "emptyDir" in volumes["data"]
        claimed = stateful_set(with_claims(), name)
        [claim] = claimed["volumeClaimTemplates"]
        assert claim["spec"]["storageClassName"] == "fast"
        assert "data" not in {one["name"] for one in claimed["template"]["spec"]["volumes"]}
    assert "volumeClaimTemplates" not in stateful_set(with_claims(), "kafka")


def test_no_other_profile_has_servers() -> None:
    for name in ("minimal-cpu", "dev", "production", "multi-tenant"):
        assert not of_kind(rendered(name), "StatefulSet")


def test_it_fits_a_small_machine() -> None:
    asked = [
        container["resources"]["requests"]
        for pod in pod_templates(rendered("evaluation"))
        if not pod.owner.startswith("Pod/")
        for container in containers(pod.spec)
    ]
    assert sum(thousandths(each["cpu"]) for each in asked) <= CPU_MAX
    assert sum(mebibytes(each["memory"]) for each in asked) <= MEMORY_MAX


def test_the_engine_serves_the_policy_that_its_image_holds() -> None:
    deployments = of_kind(rendered("evaluation"), "Deployment")
    [server] = [one for one in deployments if one["metadata"]["name"] == "podium-model-server"]
    [container] = server["spec"]["template"]["spec"]["containers"]
    made = re.search(
        r"^COPY --from=build (/models/\S+)", (ROOT / "Dockerfile.engine").read_text(), re.M
    )
    assert made
    assert container["args"][0] == made.group(1)
    prices = yaml.safe_load((ROOT / "bundled/prices.yaml").read_text())["specs"]
    assert profile("evaluation")["inference"]["sku"] in {one["sku"] for one in prices}


def test_the_notes_print_the_two_commands_of_the_guide() -> None:
    files = chart().render(profile("evaluation"), name="podium", namespace="podium")
    [notes] = [text for path, text in files.items() if path.endswith("NOTES.txt")]
    assert "NOT FOR PRODUCTION" in notes
    guide = (ROOT / "docs/install.md").read_text()
    printed = notes[notes.index("  kubectl wait") : notes.index("country_facts")]
    commands = " ".join(printed.replace("\\\n", " ").split())
    assert commands.count("kubectl wait") == 2
    assert commands in " ".join(guide.replace("\\\n", " ").split())
