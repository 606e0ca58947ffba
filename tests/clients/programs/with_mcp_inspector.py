import json
import os
import subprocess
from typing import Any

import features

TIMEOUT_S = 120


def inspected(
    method: str, *options: str, key: str = features.KEY, timeout_s: float = TIMEOUT_S
) -> Any:
    header = f"Authorization: Bearer {key}"
    command = ["mcp-inspector", "--cli", f"{features.URL}/mcp", "--transport", "http"]
    done = subprocess.run(
        [*command, "--method", method, *options, "--header", header],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=os.environ["HOME"],
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"{method}: {(done.stdout + done.stderr)[-2000:]}")
    return json.loads(done.stdout)


def chat() -> None:
    given = ("--tool-name", "run_task", "--tool-arg", f"task={features.QUESTION}")
    answer = inspected("tools/call", *given)
    features.check(answer["structuredContent"]["answer"], features.ANSWER)
    listed = inspected("resources/list")
    features.check(bool(listed["resources"]), True)


def tools() -> None:
    names = {tool["name"] for tool in inspected("tools/list")["tools"]}
    features.check({"run_task", "calculator"} - names, set())
    given = ("--tool-name", "calculator", "--tool-arg", "expression=6*7")
    features.check("42" in inspected("tools/call", *given)["content"][0]["text"], True)


def images() -> None:
    answer = inspected("tools/call", "--tool-name", "test_image_content")
    features.check(answer["content"][-1]["mimeType"], "image/png")


def cancel() -> None:
    question = features.slow_question()
    given = ("--tool-name", "run_task", "--tool-arg", f"task={question}")
    with features.gives_up(subprocess.TimeoutExpired):
        inspected("tools/call", *given, timeout_s=4 * features.IMPATIENCE_S)
    features.ends(question, features.CANCELLED)


def errors() -> None:
    with features.gives_up(AssertionError) as found:
        inspected("tools/list", key="pod_wrong_key")
    features.check("auth_required" in str(found[0]), True)


features.report(chat, tools, images, errors, cancel)
