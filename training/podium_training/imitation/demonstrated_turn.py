"""The demonstrator's next action as orchestrator-inference decides it, without a platform."""

from dataclasses import asdict, dataclass

from transformers import PreTrainedTokenizerBase

from orchestrator_inference.action.parser import parse_action
from orchestrator_inference.action.schema import ActionOptions
from orchestrator_inference.convert import decision_to_proto, situation_from_proto
from orchestrator_inference.models import Completion, Decision
from orchestrator_inference.prompt.budgets import SectionBudgets, room_for
from orchestrator_inference.prompt.stateless import build_stateless
from orchestrator_inference.prompt.toolset import PromptToolset
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.metering import Usage, UsageSource
from podium_training.imitation.demonstrator_server import VERSION, completion
from podium_training.imitation.solutions import Solutions

BUDGETS = SectionBudgets()
CALLS_MAX = 1


@dataclass(frozen=True)
class Demonstrator:
    solutions: Solutions
    tokenizer: PreTrainedTokenizerBase

    def next_action(self, request: pb.NextActionRequest) -> pb.NextActionResponse:
        """Returns the turn as a platform would have recorded it. Raises NoDemonstration."""
        situation = situation_from_proto(request)
        tokens_max = situation.sampling.max_tokens
        toolset = PromptToolset(situation.tools, BUDGETS.tool_description_chars_max)
        constraint = toolset.constraint(ActionOptions(tokens_max))
        room = room_for(self.tokenizer.model_max_length, tokens_max, BUDGETS)
        system, asked = build_stateless(situation, toolset, room, CALLS_MAX).messages
        text = self.solutions.action(system.content, asked.content, constraint.schema)
        reply = completion(self.tokenizer, VERSION, [asdict(system), asdict(asked)], text)
        [choice] = reply["choices"]
        completed = Completion(
            text=text,
            finish_reason=choice["finish_reason"],
            usage=Usage((), UsageSource.ESTIMATED),
            model_version=VERSION,
            engine=VERSION,
            latency_s=0.0,
            prompt_token_ids=reply["prompt_token_ids"],
            token_ids=choice["token_ids"],
            logprobs=tuple(each["logprob"] for each in choice["logprobs"]["content"]),
        )
        action = parse_action(completed, toolset.sections, CALLS_MAX, situation.rules)
        return decision_to_proto(
            Decision(action, completed, situation.sampling, constraint, sku="", prompt_digest="")
        )
