import json

from tool_registry.models import ToolSpec

CHARACTERS_MAX = 4000


def texts_of(spec: ToolSpec) -> tuple[str, ...]:
    """The description and parameters, then the tasks that the tool is right for."""
    about = [
        separated(spec.name),
        spec.description,
        *sorted(spec.tags),
        *(model.description for model in spec.models),
        *_arguments(spec.parameters_schema),
    ]
    return "\n".join(about)[:CHARACTERS_MAX], *spec.example_tasks


def separated(text: str) -> str:
    return text.replace("_", " ").replace("-", " ")


def _arguments(schema: str) -> list[str]:
    properties = json.loads(schema or "{}").get("properties", {})
    described = (
        (name, part.get("description", "") if isinstance(part, dict) else "")
        for name, part in properties.items()
    )
    return [f"{separated(name)} {text}".strip() for name, text in described]
