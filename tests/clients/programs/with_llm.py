import base64
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import features

MODELS = """
- model_id: podium
  model_name: podium
  api_base: {url}
  api_key_name: podium
  supports_tools: true
  supports_schema: true
  vision: true
"""
FUNCTION = """
def get_weather(city: str) -> str:
    "Weather now at our own stations."
    assert city == "Oslo"
    return "-3 degrees"
"""


def ask(
    *arguments: str, key: str = features.KEY, timeout_s: float = 120
) -> subprocess.CompletedProcess:
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "extra-openai-models.yaml"
        models.write_text(MODELS.format(url=features.URL))
        command = [str(Path(sys.executable).parent / "llm"), "-m", "podium", "--key", key]
        return subprocess.run(
            [*command, *arguments],
            env={**os.environ, "LLM_USER_PATH": folder},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def answered(*arguments: str) -> str:
    done = ask(*arguments)
    if done.returncode:
        raise AssertionError(done.stderr.strip()[-300:])
    return done.stdout.strip()


def chat() -> None:
    features.check(answered("--no-stream", features.QUESTION), features.ANSWER)


def stream() -> None:
    features.check(answered(features.QUESTION), features.ANSWER)


def tools() -> None:
    said = answered("--no-stream", "--functions", FUNCTION, features.TOOL_QUESTION)
    features.check(said, features.TOOL_ANSWER)


def streamed_tools() -> None:
    features.check(answered("--functions", FUNCTION, features.TOOL_QUESTION), features.TOOL_ANSWER)


def structured() -> None:
    said = answered("--no-stream", "--schema", "city, country", features.JSON_QUESTION)
    features.check(json.loads(said), features.PLACE)


def images() -> None:
    with tempfile.NamedTemporaryFile(suffix=".png") as picture:
        picture.write(base64.b64decode(features.PIXEL))
        picture.flush()
        found = answered("--no-stream", "-a", picture.name, features.IMAGE_QUESTION)
    features.check(found, features.IMAGE_ANSWER)


def cancel() -> None:
    for options in (("--no-stream",), ()):
        question = features.slow_question()
        with features.gives_up(subprocess.TimeoutExpired):
            ask(*options, question, timeout_s=4 * features.IMPATIENCE_S)
        features.ends(question, features.CANCELLED)


def errors() -> None:
    done = ask("--no-stream", features.QUESTION, key="pod_wrong_key")
    features.check((done.returncode != 0, "401" in done.stderr), (True, True))


features.report(chat, stream, tools, streamed_tools, structured, images, errors, cancel)
