import pytest

from callers import make_identity
from episodes.admission.access import may_read
from episodes.episodes.convert import EPISODE_METADATA, SPEC_METADATA, withhold_content
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2 as pb
from podium_kit.rpc.identity import ROLE_SCOPES, Role


@pytest.mark.parametrize(
    ("role", "reads", "decides"),
    [
        (Role.DEVELOPER, True, True),
        (Role.TENANT_ADMIN, True, True),
        (Role.PLATFORM_ADMIN, True, True),
        (Role.APPROVER, False, True),
        (Role.TOOL_OWNER, False, False),
        (Role.AUDITOR, False, False),
    ],
)
def test_the_role_the_starter_and_a_waiting_call_open_the_content(
    role: Role, reads: bool, decides: bool
) -> None:
    reader = make_identity("acme", "bob", ROLE_SCOPES[role])
    assert may_read("ada", reader) is reads
    assert may_read("ada", reader, awaits_approval=True) is decides
    assert may_read("bob", reader)


def test_every_text_that_somebody_wrote_is_left_out() -> None:
    secret = "THE-PATIENT-IS-ILL"
    episode = pb.Episode(
        id="0190",
        spec=pb.EpisodeSpec(
            task=secret,
            answer_json_schema=f'{{"title": "{secret}"}}',
            model="orchestrator",
            first_tool_names=["search"],
            labels={"team": "search"},
            turn_limit=3,
        ),
        answer=secret,
        failure=failure_pb2.Failure(kind=failure_pb2.FAILURE_KIND_TIMEOUT, message=secret),
        warnings=[secret],
        turn_count=2,
    )
    episode.spec.history.add(role="user", content=secret)
    episode.spec.attachments.add(name=secret)
    episode.spec.client_tools.add(name=secret)
    episode.spec.check.parameters_json = f'{{"expected": "{secret}"}}'
    episode.feedback.add(comment=secret)
    withhold_content(episode)
    assert secret not in str(episode)
    assert episode.content_withheld
    assert (episode.id, episode.turn_count, episode.spec.model) == ("0190", 2, "orchestrator")
    assert episode.failure.kind == failure_pb2.FAILURE_KIND_TIMEOUT
    assert dict(episode.spec.labels) == {"team": "search"}


def test_metadata_names_fields_of_the_contract() -> None:
    assert {field.name for field in pb.Episode.DESCRIPTOR.fields} >= EPISODE_METADATA
    assert {field.name for field in pb.EpisodeSpec.DESCRIPTOR.fields} >= SPEC_METADATA
