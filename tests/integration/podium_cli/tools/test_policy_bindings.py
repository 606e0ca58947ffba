"""On the whole platform: a team and a key are bound, whatever policy their episodes name."""

from pathlib import Path

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer

TASK = ("run", "What is 1 + 1?", "--tool", "calculator", "--policy")
DENIED = "denied by name calculator (policy no-maths, which binds the caller)"


def test_a_bound_team_and_a_rotated_key_escape_under_no_policy(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    (tmp_path / "policies.yaml").write_text(
        "name: no-maths\nunknown_price: admit\ndeny: {names: [calculator]}\n"
        "---\nname: loose-maths\nunknown_price: admit\nallow: {names: [calculator]}\n"
    )
    assert podium("policies", "apply", "-f", str(tmp_path / "policies.yaml")).returncode == 0
    free = podium.json("keys", "create", "ada", "--role", "developer")
    of_team = podium.json("keys", "create", "dan", "--role", "developer", "--team", "search")
    assert (
        "no-maths binds team:search" in podium("policies", "bind", "no-maths", "team:search").stdout
    )
    assert podium("policies", "bind", "no-maths", f"key:{free['api_key']['id']}").returncode == 0
    second = podium.json("keys", "rotate", free["api_key"]["id"])
    for key in (of_team["key"], free["key"], second["key"]):
        for policy in ("loose-maths", "accuracy-first", "balanced"):
            attempt = podium(*TASK, policy, "--api-key", key)
            assert attempt.returncode == 1
            assert DENIED in " ".join(attempt.stderr.split())
    listed = podium.json("policies", "bindings")["bindings"]
    assert [one["principal"] for one in listed if one["policy"] == "no-maths"] == [
        f"key:{free['api_key']['id']}",
        "team:search",
    ]
    entries = podium.json("audit", "log", "--action", "BindPolicy")["entries"]
    outcomes = [each["outcome"] for each in entries if each["resource"] == "no-maths"]
    assert outcomes == ["done", "done"]
    # The next key of the rotation is named by its own id, and it is the first that is unbound.
    unbound = podium("policies", "unbind", "no-maths", f"key:{second['api_key']['id']}")
    assert f"key:{free['api_key']['id']}" in unbound.stdout, unbound.stderr
    podium("policies", "unbind", "no-maths", "team:search")
    for key in (of_team["key"], second["key"]):
        model.push({"answer": "2"})
        assert podium(*TASK, "loose-maths", "--api-key", key).returncode == 0
    unknown = podium("policies", "bind", "no-maths", "key:0000000000000000")
    assert unknown.returncode != 0 and "`podium keys list`" in unknown.stderr
