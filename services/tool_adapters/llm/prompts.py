from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tool_adapters.adapter import ModelMessage, ToolCall
from tool_adapters.llm.apis import Question
from tool_adapters.llm.files import with_files
from tool_adapters.models import LlmConnection

BUNDLED = Path(__file__).parent / "prompt_templates"


class Prompts:
    """Templates `<role>/system.jinja` and `<role>/question.jinja`, the operator's first."""

    def __init__(self, folder: Path | None = None) -> None:
        folders = [folder, BUNDLED] if folder else [BUNDLED]
        self._templates = Environment(
            loader=FileSystemLoader(folders),
            undefined=StrictUndefined,
            trim_blocks=True,
            # Prompts are plain text for a model, not HTML.
            autoescape=False,  # noqa: S701
        )

    def question(self, call: ToolCall, connection: LlmConnection) -> Question:
        """A conversation as it is; else findings first, then the task, then what the orchestrator
        adds in its own words."""
        limit = connection.max_output_tokens
        most = min(call.max_output_tokens or limit, limit)
        if (conversation := call.conversation) is not None:
            own = connection.temperature
            temperature = own if conversation.temperature is None else conversation.temperature
            instructions = connection.system_prompt or ""
            messages = with_files(conversation.messages, call.files, labelled=False)
            return Question(
                instructions,
                messages,
                most,
                temperature,
                conversation.top_p,
                conversation.seed,
                conversation.options,
            )
        role = connection.role.value
        values = {
            "findings": call.context,
            "task": call.task,
            "request": str(call.arguments.get("prompt", "")),
            "tools": call.offered_tools,
        }
        asked = ModelMessage("user", self._text(f"{role}/question.jinja", values))
        return Question(
            system_prompt=connection.system_prompt or self._text(f"{role}/system.jinja", values),
            messages=with_files([asked], call.files, labelled=True),
            max_output_tokens=most,
            temperature=connection.temperature,
        )

    def _text(self, template: str, values: dict[str, Any]) -> str:
        return self._templates.get_template(template).render(values).strip()
