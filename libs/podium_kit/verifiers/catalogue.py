from collections.abc import Mapping

from pydantic import ValidationError

from podium_kit.verifiers.environment import EnvironmentCheck
from podium_kit.verifiers.function_calls import FunctionCalls
from podium_kit.verifiers.llm_judge import LlmJudge
from podium_kit.verifiers.python_check import PythonCheck
from podium_kit.verifiers.state import StateMatch
from podium_kit.verifiers.text_matches import ContainsAll, ExactMatch, NumericMatch, SetMatch
from podium_kit.verifiers.verifier import InvalidVerifier, Verifier

VERIFIERS: dict[str, type[Verifier]] = {
    verifier.name: verifier
    for verifier in (
        ContainsAll,
        EnvironmentCheck,
        ExactMatch,
        FunctionCalls,
        LlmJudge,
        NumericMatch,
        PythonCheck,
        SetMatch,
        StateMatch,
    )
}


def load_verifier(name: str, parameters: Mapping[str, object], version: str = "") -> Verifier:
    """The verifier of that name; without a version, the one there is. Raises InvalidVerifier."""
    kind = VERIFIERS.get(name)
    if kind is None:
        raise InvalidVerifier(f"there is no verifier {name!r}; use {', '.join(VERIFIERS)}")
    if version not in ("", kind.version):
        raise InvalidVerifier(f"verifier {name} is version {kind.version}, not {version!r}")
    try:
        return kind.model_validate(parameters)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'parameters'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise InvalidVerifier(f"verifier {name}: {faults}") from error
