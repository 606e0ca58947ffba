"""Secrets through the command line: stored from stdin, listed without values, deleted."""

from integration.podium_cli.conftest import CommandLine

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
