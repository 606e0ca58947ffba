import json
from typing import Any

from builders.workspaces_in_memory import workspaces_in_memory
from podium_functions.table import FUNCTIONS
from podium_kit.verifiers import Verifier, load_verifier
from podium_kit.verifiers.text import normalized, numbers
from podium_kit.verifiers.text_matches import NumericMatch
from tool_adapters.sandbox import Limits, LocalRunner, Sandbox
from unit.bundled.library import library


async def result_of(call: dict[str, Any]) -> str:
    arguments = call["arguments"]
    if call["tool"] == "search_corpus":
        return "\n".join(hit.passage.content for hit in library().search(arguments["query"], 5))
    if call["tool"] == "code_interpreter":
        execution = await Sandbox(workspaces_in_memory(), LocalRunner()).run(
            arguments["code"], Limits()
        )
        assert execution.failure is None
        return execution.output
    return json.dumps(FUNCTIONS[call["tool"]](arguments), ensure_ascii=False)


def verifier_of(task: dict[str, Any]) -> Verifier:
    parameters = {"expected": task["answer"], **task["verifier"]}
    return load_verifier(parameters.pop("kind"), parameters)


def holds(result: str, task: dict[str, Any]) -> bool:
    verifier = verifier_of(task)
    if isinstance(verifier, NumericMatch):
        expected = numbers(task["answer"][0])[0]
        found = numbers(result)
        return any(abs(each - expected) <= verifier.tolerance for each in found)
    return all(normalized(each) in normalized(result) for each in task["answer"])
