"""Checks that look at a text as a whole."""

from dataclasses import dataclass
from functools import lru_cache

from jsonschema import Draft202012Validator

from podium_kit.json_schemas.problems import problems
from podium_kit.json_schemas.validators import validator_of
from tool_adapters.adapter import CallFailed, reply_json
from tool_adapters.guardrails.models import GuardrailFinding, Reading

SCHEMAS_MAX = 1024


@dataclass(frozen=True)
class SizeCheck:
    characters_max: int

    def find(self, reading: Reading) -> GuardrailFinding | None:
        size = sum(map(len, reading.texts))
        if size <= self.characters_max:
            return None
        return GuardrailFinding(f"{size} characters, and at most {self.characters_max} pass")


@dataclass(frozen=True)
class SchemaCheck:
    """Its reason names no problem: problems quote the text."""

    schema_json: str

    def find(self, reading: Reading) -> GuardrailFinding | None:
        if reading.document is None:
            return None
        try:
            value = reply_json(reading.document)
        except (CallFailed, ValueError, RecursionError):
            return GuardrailFinding("it is not JSON")
        found = problems(_validator(self.schema_json), value)
        return GuardrailFinding("it does not fit the schema") if found else None


@lru_cache(SCHEMAS_MAX)
def _validator(schema_json: str) -> Draft202012Validator:
    return validator_of(reply_json(schema_json))
