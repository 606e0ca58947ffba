"""`podium train production` on a whole platform: users' episodes to a version that answers them."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest

from e2e.episodes_over_http import new_id
from e2e.learning_platform import GROUP_SIZE, GROUPS, STEPS, Learner, learning_platform
from podium_evaluation.suites.past_episodes import task_id
from podium_training.grpo.metrics.progress import read_progress
from podium_training.tasks.splits import split_of
from podium_training.tasks.task import Split

HELD_OUT = 8
BUDGET = Decimal("1")
# The tool is named so that prompts are short.
CONSENTING = """preset: balanced
unknown_price: admit
training_consent: true
allow: {names: [calculator]}
learning: {replay_budget: 1 USD}
"""
DEADLINE_S = 280
CYCLE = "0199a000-0000-7000-8000-00000000000"


@pytest.fixture(scope="module")
def learner() -> Iterator[Learner]:
    with learning_platform("production") as learner:
        yield learner


@pytest.fixture
def client(learner: Learner) -> Iterator[httpx.Client]:
    connection = learner.connection
    headers = {"Authorization": f"Bearer {connection['api_key']}"}
    with httpx.Client(base_url=connection["gateway_url"], headers=headers, timeout=60) as client:
        yield client


def questions(split: Split, count: int) -> list[str]:
    found = (f"Letter {n}?" for n in range(1000))
    return [each for each in found if split_of(task_id(each)) is split][:count]


def ask(client: httpx.Client, policy: str, question: str, liked: str, **spec: Any) -> str:
    """A user's episode, with the feedback that its answer deserves; the answer."""
    episode = f"/v1/episodes/{new_id()}"
    body = {"task": question, "policy": policy, "turn_limit": 1, **spec}
    started = client.post("/v1/episodes", json={"episode_id": episode[-36:], "spec": body})
    assert started.is_success, started.text
    with client.stream("GET", f"{episode}/events") as events:
        for _ in events.iter_lines():
            pass
    found = client.get(episode).json()["episode"]
    answer: str = found.get("answer", "")
    given = client.post(f"{episode}/feedback", json={"id": "f", "score": int(answer == liked)})
    assert given.is_success, given.text
    return answer


def production(learner: Learner, policy: str, run: str, *more: str) -> "subprocess.Popen[str]":
    options = [
        *("--run", run, "--once", "--groups", str(GROUPS), "--size", str(GROUP_SIZE)),
        *("--turn-limit", "1", "--max-tokens", "64", "--pairs-min", str(HELD_OUT), "--json"),
    ]
    return learner.podium.start("train", "production", policy, *options, *more)


def stages(learner: Learner, policy: str) -> dict[str, Any]:
    found = learner.podium.json("train", "cycles", policy)["steps"]
    return {each["stage"].removeprefix("LEARNING_STAGE_"): each for each in found}


def until(wanted: Callable[[], Any], command: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not wanted():
        assert command.poll() is None, command.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)


def kill(command: "subprocess.Popen[str]") -> None:
    command.send_signal(signal.SIGKILL)
    command.communicate()


def result_while_users_ask(
    command: "subprocess.Popen[str]", client: httpx.Client, policy: str, liked: str
) -> dict[str, Any]:
    """Users ask on until the command ends."""
    deadline = time.monotonic() + DEADLINE_S
    while command.poll() is None:
        assert time.monotonic() < deadline
        ask(client, policy, "Letter 7?", liked)
    stdout, stderr = command.communicate()
    assert command.returncode == 0, stderr
    found: dict[str, Any] = json.loads(stdout)
    return found


def audited(learner: Learner, words: str) -> list[str]:
    entries = learner.podium.json("audit", "log", "--limit", "100")["entries"]
    return [each["action"] for each in entries if words in json.dumps(each)]


@pytest.mark.timeout(900)
def test_what_users_like_is_learnt_gated_tried_and_promoted_whatever_is_killed(
    learner: Learner, client: httpx.Client
) -> None:
    policy, podium = learner.apply("users", CONSENTING), learner.podium
    run = learner.write_run("users")
    sampled = {"sampling": {"temperature": 1, "max_tokens": 64}}
    # The other answer was right before: what is learnt follows the newest verdict on a task.
    for question in questions(Split.TRAIN, GROUPS):
        ask(client, policy, question, "y", **sampled)
    for question in questions(Split.TRAIN, GROUPS) + questions(Split.HELD_OUT, HELD_OUT):
        while ask(client, policy, question, "x", **sampled) != "x":
            pass
    assert ask(client, policy, "Letter 7?", "x") == "y"

    learning = production(learner, policy, run)
    folder = learner.folder / "run-users"

    def has_learnt_a_step() -> bool:
        found = [read_progress(each) for each in folder.glob("*/run")]
        return any(each is not None and 1 <= each.step < STEPS for each in found)

    until(has_learnt_a_step, learning)
    kill(learning)
    trying = production(learner, policy, run, "--share", "0.5")
    until(lambda: "CANARY" in stages(learner, policy), trying)
    kill(trying)
    concluding = production(learner, policy, run, "--share", "0.5")
    promoted = result_while_users_ask(concluding, client, policy, "x")

    recorded = stages(learner, policy)
    assert {*recorded} == {"COLLECTED", "LEARNT", "GATED", "CANARY", "PROMOTED"}
    assert len({each["cycle"] for each in recorded.values()}) == 1
    version = promoted["model"]
    assert version.endswith(f"-v{STEPS}")
    assert {each["model"] for name, each in recorded.items() if name != "COLLECTED"} == {version}
    asked = ("run", "Letter 7?", "--policy", policy, "--turn-limit", "1")
    assert podium(*asked).stdout.strip() == "x"
    assert podium("run", "Letter 7?", "--turn-limit", "1").stdout.strip() == "y", "another policy"
    assert audited(learner, promoted["cycle"]).count("RecordLearningStep") == len(recorded)
    evaluation = recorded["CANARY"]["facts"]["evaluation"]
    assert {"StartLiveEvaluation", "StopLiveEvaluation"} <= {*audited(learner, evaluation)}

    spent = sum(costs_of_replays(client, policy))
    budget = podium.json("budgets", "show", f"replay-{policy}")
    assert Decimal(budget["posted"]["amount"]) == spent
    assert 0 < spent <= BUDGET

    assert {ask(client, policy, "Letter 7?", "x") for _ in range(3)} == {"x"}
    compared = podium.json("train", "monitor", policy)
    now, before = compared["now"], compared["before"]
    assert (now["model"], before["model"]) == (version, "the default model")
    assert now["mean_score"] == 1 > before["mean_score"] > 0
    assert now["episodes"] > now["scored"] >= 3, "the command's own has no feedback"
    assert Decimal(now["mean_cost"]) > 0

    back = podium.json("train", "rollback", "--policy", policy)
    assert (back["stage"], back["model"]) == ("LEARNING_STAGE_ROLLED_BACK", "")
    assert podium(*asked).stdout.strip() == "y"


def costs_of_replays(client: httpx.Client, policy: str) -> Iterator[Decimal]:
    token: str | None = ""
    while token is not None:
        query = {"filter.labels.agent": f"replay-{policy}", "page_size": "500"}
        page = client.get("/v1/episodes", params={**query, "page_token": token}).json()
        yield from (Decimal(each["cost"]["amount"]) for each in page["episodes"])
        token = page.get("next_page_token") or None


def learnt_by_hand(client: httpx.Client, policy: str, number: int) -> None:
    """Stages of a cycle whose version answers that it has no model to ask."""
    for stage, facts in (
        ("COLLECTED", {"tenant": "default"}),
        ("LEARNT", {}),
        ("GATED", {"verdict": "promote"}),
    ):
        step = {
            "policy": policy,
            "cycle": f"{CYCLE}{number}",
            "stage": f"LEARNING_STAGE_{stage}",
            "model": "rule/worth",
            "facts": facts,
        }
        reply = client.post("/v1/learning-steps", json={"step": step})
        assert reply.is_success, reply.text


def test_a_version_that_does_worse_for_users_is_stopped_early(
    learner: Learner, client: httpx.Client
) -> None:
    policy = learner.apply("content", CONSENTING)
    learnt_by_hand(client, policy, 1)
    command = production(learner, policy, learner.write_run("content"), "--share", "0.5")
    kept = result_while_users_ask(command, client, policy, "y")
    assert kept["stage"] == "LEARNING_STAGE_KEPT"
    assert "the candidate is worse" in kept["summary"]
    assert learner.podium.json("policies", "show", policy)["policy"]["model"] == ""
    # Servers read a moment later that the canary has ended.
    while {ask(client, policy, "Letter 7?", "y") for _ in range(4)} != {"y"}:
        time.sleep(0.2)


def test_a_paused_policy_ends_its_canary_and_learns_no_more(
    learner: Learner, client: httpx.Client
) -> None:
    policy, run = learner.apply("pausing", CONSENTING), learner.write_run("pausing")
    learnt_by_hand(client, policy, 2)
    command = production(learner, policy, run)
    until(lambda: "CANARY" in stages(learner, policy), command)
    learner.apply(policy, CONSENTING.replace("1 USD", "1 USD, paused: true"))
    stdout, stderr = command.communicate(timeout=DEADLINE_S)
    assert command.returncode == 0, stderr
    assert "is paused" in json.loads(stdout)["summary"]
    recorded = stages(learner, policy)
    live = learner.podium.json("eval", "ab", "show", recorded["CANARY"]["facts"]["evaluation"])
    assert live["evaluation"]["state"] == "EVALUATION_STATE_ENDED"
    again = production(learner, policy, run).communicate(timeout=DEADLINE_S)[0]
    assert "is paused" in json.loads(again)["stopped"]
    assert stages(learner, policy) == recorded


def test_a_cycle_waits_for_the_next_day_once_the_days_replays_are_paid(
    learner: Learner, client: httpx.Client
) -> None:
    spec = CONSENTING.replace("1 USD", "0.000000000001 USD")
    policy, run = learner.apply("frugal", spec), learner.write_run("frugal")
    for split in Split:
        ask(client, policy, questions(split, 1)[0], "y")
    command = production(learner, policy, run, "--pairs-min", "1")
    stdout, stderr = command.communicate(timeout=DEADLINE_S)
    assert command.returncode == 0, stderr
    assert "continues on the next day" in json.loads(stdout)["stopped"]
    assert {*stages(learner, policy)} == {"COLLECTED"}
    spent = learner.podium.json("budgets", "show", f"replay-{policy}")["posted"]["amount"]
    assert Decimal(spent) <= Decimal("0.000000000001")


def test_without_consent_nothing_of_a_tenant_is_read(
    learner: Learner, client: httpx.Client
) -> None:
    spec = "preset: balanced\nunknown_price: admit\nallow: {names: [calculator]}\n"
    policy, run = learner.apply("private", spec), learner.write_run("private")
    ask(client, policy, questions(Split.TRAIN, 1)[0], "y")
    command = production(learner, policy, run)
    _, stderr = command.communicate(timeout=DEADLINE_S)
    assert command.returncode == 2
    assert "does not consent to training" in " ".join(stderr.split())
    assert not stages(learner, policy)
    assert not [*(learner.folder / "run-private").glob("*/learn.jsonl")]


def test_descriptions_are_approved_only_where_some_are_written(learner: Learner) -> None:
    policy, run = learner.apply("undescribed", CONSENTING), learner.write_run("undescribed")
    command = production(learner, policy, run, "--approve")
    _, stderr = command.communicate(timeout=DEADLINE_S)
    assert command.returncode == 2
    assert "give --describe-with TOOL" in " ".join(stderr.split())
