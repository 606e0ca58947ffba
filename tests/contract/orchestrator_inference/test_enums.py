from orchestrator_inference.convert import MODES, SECTIONS
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb


def test_every_result_section_has_a_place_in_the_stateless_layout() -> None:
    assert SECTIONS.keys() == set(pb.ResultSection.values())


def test_every_prompt_mode_has_a_layout() -> None:
    assert MODES.keys() == set(pb.PromptMode.values())
