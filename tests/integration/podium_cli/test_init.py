from pathlib import Path

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer


def test_a_first_tool_policy_and_task_are_written_and_run(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    folder = tmp_path / "first"
    model.push(
        {"thought": "", "tool": "first_tool", "arguments": {"expression": "17% of 2,340"}},
        {"answer": "397.8"},
    )
    ended = podium("init", str(folder))
    assert (ended.returncode, ended.stdout) == (0, "397.8\n"), ended.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        *("policy.yaml", "task.txt", "tool.yaml")
    ]
    # Another test may have registered it.
    assert "first_tool v1 " in ended.stderr
    assert "podium spend --episode" in ended.stderr
    assert "podium policies activate first-policy" in ended.stderr
    spent = podium.json("spend", "--by", "tool")["rows"]
    [cost] = [row["amounts"] for row in spent if row["values"] == ["first_tool"]]
    # It calls the calculator, at the operator's price.
    assert cost[0]["amount"] == "0.000001"


def test_again_it_keeps_and_uses_what_was_changed(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "task.txt").write_text("What is 1 + 1?\n")
    model.push({"answer": "2"})
    ended = podium("init", str(folder))
    assert ended.stdout == "2\n", ended.stderr
    assert "task.txt stays as it is" in ended.stderr
    assert (folder / "task.txt").read_text() == "What is 1 + 1?\n"


def test_without_a_platform_nothing_is_written(tmp_path: Path) -> None:
    ended = CommandLine(tmp_path / "state")("init", str(tmp_path / "first"))
    assert ended.returncode == 1
    assert "`podium up`" in ended.stderr
    assert not (tmp_path / "first").exists()


def test_an_address_that_will_be_rejected_is_warned_of(podium: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "tool.yaml"
    path.write_text(
        "{name: inside, kind: http, description: Asks inside., side_effect: pure,"
        " parameters: {type: object},"
        " connection: {http: {method: GET, url_template: 'http://10.0.0.7/x'}}}"
    )
    ended = podium("tools", "apply", "-f", str(path))
    assert ended.returncode == 0
    assert "podium up --allow-host 10.0.0.7" in ended.stderr
    # The platform under test was started with this one.
    path.write_text(path.read_text().replace("10.0.0.7", "127.0.0.1"))
    assert "warning" not in podium("tools", "apply", "-f", str(path)).stderr
    podium("tools", "delete", "inside")
