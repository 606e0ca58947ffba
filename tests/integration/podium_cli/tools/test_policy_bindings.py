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


VALUE = "a value that nobody may see"


def test_a_secret_is_stored_listed_replaced_and_deleted(podium: CommandLine) -> None:
    stored = podium("secrets", "set", "tides", stdin=f"{VALUE}\n")
    assert stored.stdout == "tides has version 1; tools name it secret://tides\n", stored.stderr
    again = podium("secret", "set", "tides", stdin="another value-2")
    assert again.stdout.startswith("tides has version 2;")
    listed = podium("secrets", "list")
    assert "tides\t2\t" in listed.stdout
    assert VALUE not in stored.stdout + stored.stderr + listed.stdout
    assert podium("secrets", "delete", "tides").stdout == "tides is deleted\n"
    assert "tides" not in podium("secrets", "list").stdout


def test_a_users_own_secret_names_its_hosts(podium: CommandLine) -> None:
    stored = podium("secrets", "set", "tracker", "--mine", "--host", "api.example.com", stdin=VALUE)
    assert "tools name it secret://user/tracker" in stored.stdout, stored.stderr
    [secret] = podium.json("secrets", "list", "--mine")["secrets"]
    assert (secret["name"], secret["hosts"]) == ("tracker", ["api.example.com"])
    assert "tracker" not in podium("secrets", "list").stdout
    assert podium("secrets", "delete", "tracker", "--mine").returncode == 0


def test_mistakes_are_named(podium: CommandLine) -> None:
    empty = podium("secrets", "set", "weather")
    assert (empty.returncode, "stdin holds no value" in empty.stderr) == (2, True)
    hostless = podium("secrets", "set", "tracker", "--mine", stdin="x")
    assert (hostless.returncode, "--mine together with --host" in hostless.stderr) == (2, True)
    long = podium("secrets", "set", "weather", stdin="x" * 20_000)
    assert (long.returncode, "16384" in long.stderr) == (1, True), long.stderr
    unknown = podium("secrets", "delete", "nobody")
    assert unknown.returncode == 1
    assert "nobody" in unknown.stderr
