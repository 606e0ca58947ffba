"""Running, watching and cancelling episodes from the terminal."""

import json
import signal
import time
from typing import Any

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer, Reply


def call(tool: str, thought: str = "", **arguments: Any) -> dict[str, Any]:
    return {"thought": thought, "tool": tool, "arguments": arguments}


def test_a_run_shows_its_turns_on_stderr_and_only_the_answer_on_stdout(
    podium: CommandLine, model: OpenAiServer
) -> None:
    model.push(call("calculator", "Multiply.", expression="6 * 7"), {"answer": "It is 42."})
    ended = podium("run", "What is 6 times 7?")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "It is 42.\n"
    for part in ("turn 1", "calculator", "6 * 7", "Multiply.", "→", "42", "answered after 2 turns"):
        assert part in ended.stderr


def test_a_failed_tool_call_is_shown_as_a_failure(podium: CommandLine, model: OpenAiServer) -> None:
    model.push(call("calculator", expression="1 / 0"), {"answer": "impossible"})
    ended = podium("run", "What is 1 divided by 0?")
    assert "✗" in ended.stderr
    assert (ended.returncode, ended.stdout) == (3, "impossible\n")
    assert "every tool call failed" in ended.stderr


def test_an_answer_after_one_good_call_is_no_failure(
    podium: CommandLine, model: OpenAiServer
) -> None:
    calculate = [call("calculator", expression=text) for text in ("1 / 0", "1 + 1")]
    model.push(*calculate, {"answer": "2"})
    ended = podium("run", "What is 1 + 1?")
    assert (ended.returncode, ended.stdout) == (0, "2\n")
    assert "every tool call failed" not in ended.stderr


def test_json_is_one_event_per_line_and_the_last_one_carries_the_episode(
    podium: CommandLine, model: OpenAiServer
) -> None:
    model.push(call("calculator", expression="2 + 2"), {"answer": "4"})
    ended = podium("run", "What is 2 + 2?", "--json", "--label", "team=search")
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    kinds = [
        next(key for key in event if key not in ("sequence", "turn", "time")) for event in events
    ]
    assert kinds == ["started", "action_decided", "tool_returned", "action_decided", "finished"]
    episode = events[-1]["finished"]["episode"]
    assert episode["answer"] == "4"
    assert episode["spec"]["labels"] == {"team": "search"}


def test_a_finished_episode_can_be_watched_again_shown_and_listed(
    podium: CommandLine, model: OpenAiServer
) -> None:
    model.push(call("calculator", expression="3 + 3"), {"answer": "six"})
    run = podium("run", "What is 3 + 3?", "--label", "case=again", "--json")
    episode_id = json.loads(run.stdout.splitlines()[-1])["finished"]["episode"]["id"]
    watched = podium("watch", episode_id)
    assert watched.stdout == "six\n"
    assert "3 + 3" in watched.stderr
    assert "calculator" in podium("episodes", "show", episode_id).stdout
    listed = podium.json("episodes", "list", "--label", "case=again", "--state", "finished")
    assert [episode["id"] for episode in listed["episodes"]] == [episode_id]


def test_only_the_chosen_tools_are_offered(podium: CommandLine, model: OpenAiServer) -> None:
    model.push({"answer": "done"})
    ended = podium("run", "Anything", "--tool", "calculator", "--tool", "dictionary", "--json")
    started = json.loads(ended.stdout.splitlines()[0])["started"]
    assert started["tool_names"] == ["calculator", "dictionary"]


def test_ctrl_c_cancels_the_episode(podium: CommandLine, model: OpenAiServer) -> None:
    model.push(Reply('{"answer": "too late"}', delay_s=30))
    before = model.disconnects
    running = podium.start("run", "Think for long", "--label", "case=cancelled")
    assert running.stderr is not None
    # The view names the tools once the episode has started.
    while "tools" not in running.stderr.readline():
        assert running.poll() is None
    while not model.in_flight:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "cancelled episode" in stderr
    while model.disconnects == before:  # the model's call is given up as well
        time.sleep(0.05)
    episode_id = stderr.split("cancelled episode ")[1].split()[0]
    assert "cancelled after" in podium("watch", episode_id).stderr


def test_an_episode_without_an_answer_ends_with_status_1_and_says_why(
    podium: CommandLine, model: OpenAiServer
) -> None:
    model.push(Reply("you are banned", status=403))
    ended = podium("run", "Anything")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "error: no answer (failed" in ended.stderr
