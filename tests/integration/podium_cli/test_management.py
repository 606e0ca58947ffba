import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from integration.podium_cli.conftest import CommandLine
from openai_server import OpenAiServer

TOOL = """
name: my_calculator
kind: function
description: Works out sums.
side_effect: pure
sku: tool/calculator
parameters:
  type: object
  properties: {expression: {type: string}}
  required: [expression]
connection: {function: {function: calculator}}
"""

GUARDED = """
name: guarded
kind: http
description: Asks a server that wants a key.
side_effect: pure
sku: tool/calculator
parameters:
  type: object
  properties: {{model: {{type: string}}, messages: {{type: array}}}}
  required: [model, messages]
connection:
  http:
    method: POST
    url_template: {url}/chat/completions
    secret: {{name: own_key}}
    secret_header: Authorization
    secret_prefix: "Bearer "
"""
PETS = """
openapi: 3.1.0
info: {title: Pets, version: '1'}
servers: [{url: 'https://pets.example'}]
paths:
  /pets/{id}:
    get:
      operationId: getPet
      summary: Finds a pet.
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      responses: {'200': {description: ok}}
  /photos:
    post:
      requestBody: {required: true, content: {image/png: {}}}
      responses: {'200': {description: ok}}
"""


def test_the_bundled_tools_are_there_with_their_prices(podium: CommandLine) -> None:
    names = {tool["spec"]["name"] for tool in podium.json("tools", "list")["tools"]}
    assert {"calculator", "dictionary", "code_interpreter", "search_corpus", "ask_llm"} <= names
    assert any(name.startswith("board_") for name in names)
    assert "per call" in podium("tools", "list").stdout


def test_a_tool_is_applied_once_and_a_dry_run_shows_the_difference(
    podium: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "tool.yaml"
    path.write_text(TOOL)
    assert "my_calculator v1 registered" in podium("tools", "apply", "-f", str(path)).stdout
    assert "unchanged" in podium("tools", "apply", "-f", str(path)).stdout
    path.write_text(TOOL.replace("sums", "products"))
    dry = podium("tools", "apply", "-f", str(path), "--dry-run")
    assert "-description: Works out sums." in dry.stderr
    assert "+description: Works out products." in dry.stderr
    assert "v2 would be registered" in dry.stdout
    assert podium.json("tools", "show", "my_calculator")["tool"]["version"] == 1
    assert "my_calculator v2 registered" in podium("tools", "apply", "-f", str(path)).stdout
    path.write_text(TOOL)
    again = podium("tools", "apply", "-f", str(path)).stdout
    assert again.strip() == "my_calculator v1 is current again"


def test_one_wrong_tool_of_a_folder_leaves_the_others_unregistered(
    podium: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(TOOL.replace("my_calculator", "fine_tool"))
    (tmp_path / "b.yaml").write_text(TOOL.replace("my_calculator", "Wrong Name!"))
    (tmp_path / "c.yaml").write_text(TOOL.replace("pure", "harmless"))
    ended = podium("tools", "apply", "-f", str(tmp_path))
    assert ended.returncode == 2
    assert "2 of 3 tools cannot be registered" in ended.stderr
    assert "Wrong Name!" in ended.stderr and "c.yaml" in ended.stderr
    assert podium("tools", "show", "fine_tool").returncode == 1
    kept = podium("tools", "apply", "-f", str(tmp_path), "--skip-wrong")
    assert kept.stdout.strip() == "fine_tool v1 registered"
    assert "b.yaml: Wrong Name!" in kept.stderr


def test_a_tool_is_found_by_words_and_deleted(podium: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "tool.yaml"
    path.write_text(
        TOOL.replace("my_calculator", "ferry_times").replace(
            "Works out sums", "Departure times of the ferry to the islands"
        )
    )
    applied = podium("tools", "apply", "-f", str(path))
    assert applied.returncode == 0, applied.stderr
    found = podium.json("tools", "search", "when does the ferry leave")["results"]
    assert found[0]["tool"]["spec"]["name"] == "ferry_times", found
    assert "ferry_times v1 deleted" in podium("tools", "delete", "ferry_times").stdout
    assert podium("tools", "show", "ferry_times").returncode == 1
    assert podium.json("tools", "show", "ferry_times", "--version", "1")["tool"]["delete_time"]


def test_an_openapi_document_becomes_tools(podium: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "pets.yaml"
    path.write_text(PETS)
    imported = podium("tools", "import-openapi", str(path), "--prefix", "zoo_", "--tag", "pets")
    assert imported.stdout.strip() == "zoo_get_pet v1 registered"
    assert "left out: POST /photos: its body is image/png, which is no text" in imported.stderr
    spec = podium.json("tools", "show", "zoo_get_pet")["tool"]["spec"]
    assert spec["connection"]["http"]["url_template"] == "https://pets.example/pets/{id}"
    assert spec["tags"] == ["pets"]
    podium("tools", "delete", "zoo_get_pet")


def test_a_policy_is_applied_explained_and_activated(podium: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("{name: no-code, preset: balanced, deny: {kinds: [code]}}")
    assert "no-code v1 created" in podium("policies", "apply", "-f", str(path)).stdout
    decisions = podium.json("policies", "explain", "no-code")["decisions"]
    allowed = {each["name"]: each["allowed"] for each in decisions}
    assert allowed["calculator"] and not allowed["code_interpreter"]
    # The scripted model as a tool has no price, and this policy does not say what to do then.
    assert not allowed["ask_llm"]
    assert "is active" in podium("policies", "activate", "no-code").stdout
    active = [each for each in podium.json("policies", "list")["policies"] if each["active"]]
    assert [each["spec"]["name"] for each in active] == ["no-code"]
    podium("policies", "activate", "balanced")


def test_a_policy_is_tried_on_past_episodes_and_their_adherence_is_reported(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    model.push(
        {"thought": "", "tool": "calculator", "arguments": {"expression": "2 + 2"}}, {"answer": "4"}
    )
    # Its episodes are this test's alone.
    path = tmp_path / "policy.yaml"
    path.write_text("{name: reported, preset: balanced, unknown_price: admit}")
    podium("policies", "apply", "-f", str(path))
    podium("run", "What is 2 + 2?", "--policy", "reported")
    path.write_text("{name: tried, preset: balanced, deny: {names: [calculator]}}")
    tried = podium.json("policies", "try", "-f", str(path), "--since", "1h")
    assert tried["rejected_call_count"] >= 1
    # Other tests of this platform may have made calls that it rejects as well.
    reasons = {each["tool_name"]: each["reason"] for each in tried["rejected"]}
    assert reasons["calculator"] == "denied by name calculator"
    assert "would have been rejected" in podium("policies", "try", "-f", str(path)).stdout
    [scores] = podium.json("policies", "report", "reported", "--since", "1h")["policies"]
    assert scores["without_outcome_count"] == 1
    answered = podium.json("policies", "report", "reported", "--answered-is-solved")
    [scores] = answered["policies"]
    # Other tests of this platform may give the orchestrator a price, and the task a baseline.
    assert scores["without_outcome_count"] == 0
    counts = ("scored_count", "without_cost_count", "without_baseline_count")
    assert sum(scores[name] for name in counts) == 1
    assert len(answered["episodes"]) == scores["scored_count"]


@pytest.fixture
def consenting(podium: CommandLine, tmp_path: Path) -> tuple[str, str]:
    """Options of a run that descriptions may be written from."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "{name: described, preset: balanced, training_consent: true, unknown_price: admit}"
    )
    assert podium("policies", "apply", "-f", str(policy)).returncode == 0
    return "--policy", "described"


def test_a_description_is_written_from_past_episodes_and_reviewed(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path, consenting: tuple[str, str]
) -> None:
    path = tmp_path / "tool.yaml"
    path.write_text(TOOL.replace("my_calculator", "adder"))
    podium("tools", "apply", "-f", str(path))
    call = {"thought": "", "tool": "adder", "arguments": {"expression": "3 + 4"}}
    model.push(call, {"answer": "7"})
    run = podium("run", "What is 3 + 4?", "--tool", "adder", "--json", *consenting)
    unverified = podium("tools", "describe", "adder", "--with", "ask_llm")
    assert unverified.returncode == 1
    assert "no verified episode of the last 30 days called adder" in unverified.stderr
    episode = json.loads(run.stdout.splitlines()[-1])["finished"]["episode"]
    podium("episodes", "feedback", episode["id"], "--score", "1")
    written = "Adds numbers exactly; not for words."
    asked = {"thought": "", "tool": "ask_llm", "arguments": {}}
    model.push(asked, written, {"answer": "done"})
    proposal = podium.json("tools", "describe", "adder", "--with", "ask_llm")
    assert proposal["proposed_description"] == written
    assert (len(proposal["episode_ids"]), proposal["succeeded_count"]) == (1, 1)
    assert podium.json("tools", "show", "adder")["tool"]["spec"]["description"] != written
    assert "pending" in podium("tools", "proposals", "adder").stdout
    assert "adder v2 registered" in podium("tools", "approve", proposal["id"]).stdout
    assert podium.json("tools", "show", "adder")["tool"]["spec"]["description"] == written
    again = podium("tools", "reject", proposal["id"])
    assert again.returncode == 1 and "is approved" in again.stderr


def test_descriptions_are_recalibrated_from_what_was_verified_since(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path, consenting: tuple[str, str]
) -> None:
    path = tmp_path / "tool.yaml"
    path.write_text(TOOL.replace("my_calculator", "counter"))
    podium("tools", "apply", "-f", str(path))
    call = {"thought": "", "tool": "counter", "arguments": {"expression": "3 + 4"}}
    asked = {"thought": "", "tool": "ask_llm", "arguments": {}}
    recalibrate = ("tools", "recalibrate", "counter", "--with", "ask_llm", "--episodes", "1")

    def recalibrated(*texts: str) -> Any:
        for text in texts:
            model.push(call, {"answer": "7"})
            run = podium("run", "What is 3 + 4?", "--tool", "counter", "--json", *consenting)
            episode = json.loads(run.stdout.splitlines()[-1])["finished"]["episode"]
            podium("episodes", "feedback", episode["id"], "--score", "1")
            model.push(asked, text, {"answer": "done"})
        [tool] = podium.json(*recalibrate, "--approve")["tools"]
        return tool

    assert "0 of 1 verified episodes" in recalibrated()["reason"]
    linked = recalibrated("Adds numbers exactly, see https://example.com for more.")
    assert (linked["state"], linked["reason"]) == ("pending", "has a link")
    assert "approve or reject it first" in recalibrated()["reason"]
    podium("tools", "reject", linked["proposal"])
    assert recalibrated()["state"] == "not yet", "what was reviewed is not evidence again"
    good = recalibrated("Adds numbers exactly; not for words.")
    assert (good["state"], good["reason"]) == ("approved", "v2 registered")
    shown = podium.json("tools", "show", "counter")["tool"]["spec"]["description"]
    assert shown == "Adds numbers exactly; not for words."
    silent = recalibrated("")
    assert (silent["state"], silent["reason"]) == ("failed", "ask_llm wrote nothing")
    foreign = podium("tools", "recalibrate", "calculator", "--with", "ask_llm")
    assert foreign.returncode == 2
    assert "calculator is no tool of this tenant" in foreign.stderr
    path.write_text(TOOL.replace("my_calculator", "second_counter"))
    podium("tools", "apply", "-f", str(path))
    names = ("counter", "second_counter")
    options = ("--with", "nobody_writes", "--episodes", "1", "--json")
    rejected = podium("tools", "recalibrate", *names, *options)
    assert rejected.returncode == 1, rejected.stdout
    states = [(each["tool"], each["state"]) for each in json.loads(rejected.stdout)["tools"]]
    assert states == [("counter", "rejected"), ("second_counter", "not yet")]


def test_a_policy_is_scheduled(podium: CommandLine) -> None:
    scheduled = podium("policies", "activate", "cost-first", "--from", "2099-01-01")
    assert "will be active from 2099-01-01 00:00 UTC" in scheduled.stdout
    newest = podium.json("policies", "schedule")["activations"][0]
    assert newest["name"] == "cost-first"
    listed = podium.json("policies", "list")["policies"]
    assert "cost-first" not in [each["spec"]["name"] for each in listed if each["active"]]


def test_spend_prices_and_budgets_are_reported_exactly(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    model.push(
        {"thought": "", "tool": "calculator", "arguments": {"expression": "1 + 1"}}, {"answer": "2"}
    )
    run = podium("run", "What is 1 + 1?", "--json")
    episode = json.loads(run.stdout.splitlines()[-1])["finished"]["episode"]
    rows = podium.json("spend", "--by", "tool", "--episode", episode["id"])["rows"]
    spent = sum(Decimal(money["amount"]) for row in rows for money in row["amounts"])
    assert spent == Decimal(episode["cost"]["amount"]) > 0
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "specs: [{sku: own/mine, currency_code: USD,"
        " components: [{dimension: call, unit_price: '0.5'}]}]"
    )
    assert "1 price would be added" in podium("prices", "import", str(prices), "--dry-run").stdout
    assert "1 price added" in podium("prices", "import", str(prices)).stdout
    assert "$0.5 per call" in podium("prices", "list", "--sku", "own/mine").stdout
    prices.write_text(prices.read_text().replace("0.5", "0.75"))
    changed = podium("prices", "import", str(prices), "--dry-run").stdout
    assert "~ changed" in changed
    assert "was $0.5 per call" in changed
    assert "$0.5 per call" in podium("prices", "show", "own/mine").stdout
    unknown = podium("prices", "show", "own/mine", "--known-at", "2026-01-01")
    assert "the price of own/mine is unknown" in unknown.stderr
    assert (
        podium("budgets", "create", "monthly", "--amount", "5", "--window", "month").returncode == 0
    )
    assert "$5" in podium("budgets", "list").stdout
    assert "month in UTC" in podium("budgets", "show", "monthly").stdout
    updated = podium("budgets", "update", "monthly", "--amount", "7", "--alert-at", "6")
    assert "in force at version 2" in updated.stdout, updated.stderr
    assert "$7" in podium("budgets", "list").stdout
    stale = podium("budgets", "update", "monthly", "--amount", "9", "--version", "1")
    assert stale.returncode == 1
    assert "read it again" in stale.stderr
    assert podium("budgets", "update", "monthly", "--alert-at", "none").returncode == 0
    assert "alerts at" not in podium("budgets", "show", "monthly").stdout
    assert podium("budgets", "update", "monthly").returncode != 0
    change = podium.json("audit", "log", "--action", "UpdateBudget")
    assert "monthly" in str(change)
    shares = podium("budgets", "update", "monthly", "--alert-at", "95%", "--alert-at", "80%")
    assert shares.returncode == 0, shares.stderr
    assert "80%, 95%" in podium("budgets", "show", "monthly").stdout
    launch = ("budgets", "raise", "monthly", "20USD", "--for", "2d", "--reason", "launch")
    raised = podium(*launch)
    assert "is raised by $20 until" in raised.stdout, raised.stderr
    assert "raised" in podium("budgets", "list").stdout
    shown = podium("budgets", "show", "monthly").stdout
    assert "$27" in shown
    assert ": launch" in shown
    assert "launch" in str(podium.json("audit", "log", "--action", "RaiseBudget"))
    assert podium(*launch, "--until", "2030-01-01").returncode == 2
    assert "more than 31 days ahead" in podium(*launch[:5], "40d", *launch[6:]).stderr
    over = podium("budgets", "raise", "monthly", "0", "--reason", "it is over")
    assert "is not raised any more" in over.stdout, over.stderr
    assert "raised" not in podium("budgets", "show", "monthly").stdout
    assert podium("budgets", "close", "monthly").returncode == 0


def test_a_price_file_of_litellm_is_imported_once_in_parts_and_deleted_by_its_source(
    podium: CommandLine, tmp_path: Path
) -> None:
    entry = {
        "litellm_provider": "acme",
        "mode": "chat",
        "input_cost_per_token": 1e-06,
        "output_cost_per_token": 2e-06,
        "cost_per_wish": 1,
    }
    path = tmp_path / "litellm.json"
    path.write_text(json.dumps({f"m-{number}": entry for number in range(1_005)}))
    command = ("prices", "import", "--format", "litellm", str(path), "--sku-prefix", "own/")
    dry = podium(*command, "--dry-run", "--only", "m-100*").stdout
    assert "6 prices would be added, 0 known already" in dry
    assert "key cost_per_wish\t6\tm-100, m-1000, m-1001" in dry
    nothing = podium(*command, "--only", "x-*")
    assert nothing.returncode == 1
    assert "nothing of" in nothing.stderr
    imported = podium.json(*command)
    assert imported["created_count"] == len(imported["prices"]) == 1_005
    assert [each["count"] for each in imported["not_imported"]] == [1_005]
    assert "0 prices added, 1005 known already" in podium(*command).stdout
    price = podium("prices", "show", "own/acme/m-7").stdout
    assert "$1 per million input fresh; $2 per million output text" in price
    deleted = podium("prices", "delete", "--source", "litellm")
    assert "1005 prices deleted" in deleted.stdout, deleted.stderr


def test_a_soft_limit_that_was_passed_is_listed_and_published(
    podium: CommandLine, model: OpenAiServer
) -> None:
    soft = ("--alert-at", "0.0000001", "--alert-at", "4")
    made = podium("budgets", "create", "watched", "--amount", "5", *soft)
    assert made.returncode == 0, made.stderr
    model.push(
        {"thought": "", "tool": "calculator", "arguments": {"expression": "1 + 1"}}, {"answer": "2"}
    )
    podium("run", "What is 1 + 1?")
    (alert,) = podium.json("budgets", "alerts", "--budget", "watched")["alerts"]
    assert alert["soft_limit"]["amount"] == "0.0000001"
    while "publish_time" not in alert:
        (alert,) = podium.json("budgets", "alerts", "--budget", "watched")["alerts"]
    assert "published" in podium("budgets", "alerts").stdout
    podium("budgets", "close", "watched")


def test_a_key_works_until_it_is_revoked(podium: CommandLine) -> None:
    made = podium.json("keys", "create", "ada", "--scope", "episodes:run")
    key_id, key = made["api_key"]["id"], made["key"]
    assert podium("tools", "list", "--api-key", key).returncode == 0
    assert podium("keys", "create", "eve", "--api-key", key).returncode == 1
    assert podium("keys", "revoke", key_id).returncode == 0
    states = {each["id"]: each["revoke_time"] for each in podium.json("keys", "list")["api_keys"]}
    assert states[key_id]


def test_the_stream_ends_with_the_last_episode_and_its_closed_group(
    podium: CommandLine, model: OpenAiServer
) -> None:
    model.push({"answer": "streamed"})
    run = podium("run", "Say streamed", "--json")
    episode_id = json.loads(run.stdout.splitlines()[-1])["finished"]["episode"]["id"]
    records: list[dict[str, dict[str, str]]] = []
    # The outbox is relayed after the episode has ended.
    while not any(each.get("group_closed", {}).get("group_id") == episode_id for each in records):
        tail = podium("trajectories", "tail", "-n", "50", "--json")
        records = [json.loads(line) for line in tail.stdout.splitlines()]
    [trajectory] = [
        each["trajectory"]
        for each in records
        if each.get("trajectory", {}).get("episode_id") == episode_id
    ]
    assert trajectory["answer"] == "streamed"


def test_models_can_be_asked_for_with_a_policy(podium: CommandLine) -> None:
    names = [model["id"] for model in podium.json("models")["data"]]
    assert {"scripted-model", "scripted-model:cost-first"} <= set(names)


def test_the_bundled_mcp_server_is_imported_by_hand(podium: CommandLine) -> None:
    imported = podium("tools", "import-mcp", "--prefix", "mine_", "tau2-mock")
    assert "mine_create_task v1 registered" in imported.stdout
    rejected = podium("tools", "import-mcp", "--prefix", "sh_", "bash")
    assert rejected.returncode == 1
    assert re.search(r"shared tools are: .*\btau2-mock\b", rejected.stderr)


def test_an_mcp_server_is_followed_until_it_is_unfollowed(podium: CommandLine) -> None:
    follow = ("tools", "follow-mcp", "tau2-mock", "--prefix", "kept_")
    asked = podium.json(*follow)["server"]
    # The same prefix again is the same server, as it is named now.
    again = podium.json(*follow, "--tag", "kept")["server"]
    assert (again["id"], asked["tags"], again["tags"]) == (asked["id"], [], ["kept"])
    # The server may first be listed as the first call named it.
    while tags_of(podium, "kept_create_task") != ["kept"]:
        [server] = podium.json("tools", "followed")["servers"]
        assert not server["problem"]
    rejected = podium("tools", "follow-mcp", "bash", "--prefix", "sh_")
    assert rejected.returncode == 1 and "shares no tool of a server" in rejected.stderr
    [line] = podium("tools", "followed").stdout.splitlines()[1:]
    assert line.split()[:2] == ["kept_", "tau2-mock"]
    assert podium("tools", "unfollow-mcp", "kept_").returncode == 0
    unknown = podium("tools", "unfollow-mcp", "kept_")
    assert unknown.returncode == 1 and "`podium tools followed` lists" in unknown.stderr


def tags_of(podium: CommandLine, name: str) -> list[str] | None:
    """None as long as there is no such tool."""
    shown = podium("tools", "show", name, "--json")
    return json.loads(shown.stdout)["tool"]["spec"].get("tags") if shown.returncode == 0 else None


def test_a_tool_is_called_with_the_secret_its_owner_set(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    path = tmp_path / "tool.yaml"
    with OpenAiServer(["{}"]) as guarded:
        path.write_text(GUARDED.format(url=guarded.base_url))
        podium("tools", "apply", "-f", str(path))
        model.push({"tool": "guarded", "arguments": {"model": "scripted-model", "messages": []}})
        model.push({"answer": "done"})
        assert podium("run", "Ask the guarded server", "--tool", "guarded").stdout == "done\n"
        assert guarded.headers[-1]["authorization"] == "Bearer the user's own"


EXPERT = """
name: experts
kind: llm
description: Answers any question, at its price.
side_effect: pure
parameters: {type: object, properties: {}}
connection:
  llm:
    role: generalist
    models:
      - {alias: small, model: scripted-model, api: openai_chat, base_url: "URL", sku: own/small}
      - {alias: large, model: large-1, api: openai_chat, base_url: "URL", sku: own/large}
"""
EXPERT_PRICES = """sku,dimension,unit_price,per
own/small,input_fresh,100,1000000
own/small,output_text,400,1000000
own/large,input_fresh,1000,1000000
own/large,output_text,4000,1000000
"""


def test_what_was_spent_is_compared_with_one_models_price(
    podium: CommandLine, model: OpenAiServer, tmp_path: Path
) -> None:
    tool, prices = tmp_path / "experts.yaml", tmp_path / "prices.csv"
    tool.write_text(EXPERT.replace("URL", model.base_url))
    prices.write_text(EXPERT_PRICES)
    podium("prices", "import", str(prices))
    assert podium("tools", "apply", "-f", str(tool)).returncode == 0
    call = {"thought": "", "tool": "experts", "arguments": {"model": "small"}}
    model.push(call, "Seven.", {"answer": "7"})
    run = podium("run", "What is 3 + 4?", "--tool", "experts", "--json")
    episode = json.loads(run.stdout.splitlines()[-1])["finished"]["episode"]
    compared = podium.json("savings", "--episode", episode["id"])
    assert compared["against"] == "experts/large"
    rows = podium.json("spend", "--by", "tool", "--episode", episode["id"])["rows"]
    [[posted]] = [row["amounts"] for row in rows if row["values"] == ["experts"]]
    spent = Decimal(posted["amount"]) + Decimal(compared["orchestrator"])
    assert Decimal(compared["spent"]) == spent
    assert Decimal(compared["at_its_price"]) == 10 * Decimal(posted["amount"]) > 0
    assert Decimal(compared["saved"]) == Decimal(compared["at_its_price"]) - spent
    shown = podium("savings", "--episode", episode["id"], "--against", "experts/small").stdout
    assert "against experts/small" in shown
    unknown = podium("savings", "--against", "nobody")
    assert unknown.returncode == 2
    assert "no model with a price is called 'nobody'" in unknown.stderr
