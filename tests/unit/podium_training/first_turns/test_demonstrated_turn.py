from callers import make_identity
from orchestrator_inference.convert import decision_to_proto, situation_from_proto
from orchestrator_inference.engine.engine import ModelCall
from orchestrator_inference.models import Completion, EngineModel
from orchestrator_inference.prompt.budgets import SectionBudgets
from orchestrator_inference.service import Orchestrator, Policy
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1.policy_pb2 import PreferenceVector
from podium_kit.metering import Usage, UsageSource
from podium_kit.rpc.identity import acting_as
from unit.podium_training.first_turns.offered import TASKS, demonstrator, expert, tool


class Engine:
    def __init__(self, text: str) -> None:
        self.text = text
        self.calls: list[ModelCall] = []

    async def model(self, name: str) -> EngineModel:
        return EngineModel(name)

    async def models(self) -> tuple[EngineModel, ...]:
        return ()

    async def count_tokens(self, call: ModelCall) -> int:
        return len(call.messages)

    async def complete(self, call: ModelCall) -> Completion:
        self.calls.append(call)
        usage = Usage((), UsageSource.ESTIMATED)
        return Completion(self.text, "stop", usage, "m", "e", 0.0, constrained=True)


async def test_prompt_grammar_and_action_are_those_of_orchestrator_inference() -> None:
    request = pb.NextActionRequest(
        key="e/1/model/0",
        task=TASKS[0].question,
        tools=[expert(), tool("sums")],
        preferences=PreferenceVector(outcome=1.0, compute=0.4),
        sampling=pb.Sampling(temperature=1.0),
    )
    shown = demonstrator()
    made = shown.next_action(request)

    engine = Engine(made.completion_text)
    orchestrator = Orchestrator(engine, Policy(SectionBudgets()), max_in_flight=1)
    with acting_as(make_identity()):
        decided = decision_to_proto(await orchestrator.next_action(situation_from_proto(request)))
    assert (made.action, made.sampling) == (decided.action, decided.sampling)
    assert made.constraint_digest == decided.constraint_digest
    assert made.constraint_json_schema == decided.constraint_json_schema
    [call] = engine.calls
    prompt = "".join(f"{message.content}</s>" for message in call.messages)
    assert list(made.prompt_token_ids) == shown.tokenizer.encode(prompt)
