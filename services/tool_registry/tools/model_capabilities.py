"""Capabilities of a tool's models: those of the family, and over them what the owner states."""

from google.protobuf.json_format import MessageToDict, ParseDict

from podium.registry.v1 import tool_pb2
from podium_kit.models.model_families import ModelFamiliesFile
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.tool_kinds.checks import InvalidTool


class ToolModelCapabilities:
    def __init__(self, families: ModelFamiliesFile) -> None:
        self._families = families

    def check(self, spec: tool_pb2.ToolSpec) -> None:
        """Raises InvalidTool for an unknown family, and for what the model is known to reject."""
        for index, model in enumerate(spec.connection.llm.models):
            field = f"connection.llm.models[{index}]"
            try:
                known = self._of(model)
            except InvalidArgument as error:
                raise InvalidTool(f"{field}.capabilities: {error.message}") from error
            effort = model.options.reasoning_effort
            if effort and known.efforts and effort not in known.efforts:
                raise InvalidTool(
                    f"{field}.options.reasoning_effort is {effort!r}, and {model.model} accepts"
                    f" {', '.join(known.efforts)}; state capabilities.efforts if it accepts others"
                )

    def of(self, spec: tool_pb2.ToolSpec) -> dict[str, tool_pb2.LlmCapabilities]:
        """The capabilities of each chat model by its alias."""
        return {
            model.alias: self._of(model)
            for model in spec.connection.llm.models
            if model.api != tool_pb2.LLM_API_OPENAI_EMBEDDINGS
        }

    def _of(self, model: tool_pb2.LlmModel) -> tool_pb2.LlmCapabilities:
        base_url = model.endpoints[0].base_url if model.endpoints else model.base_url
        stated = MessageToDict(model.capabilities, preserving_proto_field_name=True)
        known = self._families.capabilities(base_url, model.model, stated)
        return ParseDict(known.model_dump(mode="json"), tool_pb2.LlmCapabilities())
