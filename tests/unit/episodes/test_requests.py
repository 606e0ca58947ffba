import asyncio
import uuid
from dataclasses import fields
from typing import Any

import pytest

from builders.media_files import attached, make_pdf
from callers import make_identity
from episodes.admission.access import may_read
from episodes.approvals.convert import place_from_token, token_of
from episodes.approvals.models import ApprovalPosition
from episodes.attachments.checks import UNLIMITED, checked_attachments
from episodes.attachments.store import COPY, Files, store_files
from episodes.episodes import watch
from episodes.episodes.convert_search import position_from_proto, position_token
from episodes.episodes.convert_withheld import EPISODE_METADATA, SPEC_METADATA, withhold_content
from episodes.episodes.search import PagePosition
from episodes.episodes.service import REASON_CHARACTERS_MAX, Episodes
from episodes.episodes.store_watch import News
from episodes.episodes.watch import Watcher
from episodes.errors import InvalidAttachments
from episodes.execution.outcomes import Approval
from episodes.keys import canonical_id, child_episode_id, fairness_key
from episodes.models import SEQUENCE_MAX, NewEpisode, StoredEpisode
from episodes.step_log.answer_parts import WatchedAnswers, WrittenPart
from episodes.step_log.wakeups import Wakeups
from podium.common.v1 import attachment_pb2, failure_pb2
from podium.episodes.v1 import episode_pb2 as pb
from podium.episodes.v1 import episode_service_pb2 as episode_pb
from podium_kit.rpc.bounds import OutOfBounds
from podium_kit.rpc.identity import ROLE_SCOPES, Identity, Role, Scope, acting_as
from podium_kit.rpc.pages import InvalidPageToken, encode_page_token
from podium_kit.wire.values import attachment_from_proto
from unit.episodes.stored_episodes import ID, stored_episode

EPISODE_ID = "01900000-0000-7000-8000-000000000001"


async def test_a_reason_that_no_workflow_takes_is_rejected() -> None:
    nowhere: Any = None
    episodes = Episodes(*[nowhere] * len(fields(Episodes)))
    said = "x" * (REASON_CHARACTERS_MAX + 1)
    with pytest.raises(OutOfBounds, match="reason has 1001 characters; give at most 1000"):
        await episodes.approve(EPISODE_ID, 1, 0, approved=False, reason=said)


def test_a_page_begins_after_the_last_call_of_the_page_before() -> None:
    place = ApprovalPosition(EPISODE_ID, SEQUENCE_MAX, 1)
    assert place_from_token(token_of(place)) == place


@pytest.mark.parametrize(
    "place", [ApprovalPosition(EPISODE_ID, 2**31, 0), ApprovalPosition(EPISODE_ID, 1, 10**17)]
)
def test_a_page_token_with_a_turn_that_no_call_can_have_is_rejected(
    place: ApprovalPosition,
) -> None:
    with pytest.raises(InvalidPageToken):
        place_from_token(token_of(place))


def test_a_page_begins_after_the_last_episode_of_the_page_before() -> None:
    request = episode_pb.ListEpisodesRequest(order_by=episode_pb.EPISODE_ORDER_COST)
    position = PagePosition("0.5", EPISODE_ID)
    request.page_token = position_token(request, position)
    assert position_from_proto(request) == position
    assert position_from_proto(episode_pb.ListEpisodesRequest()) is None


@pytest.mark.parametrize(
    "token",
    [
        encode_page_token({"before": EPISODE_ID}),
        encode_page_token({}),
        position_token(
            episode_pb.ListEpisodesRequest(order_by=episode_pb.EPISODE_ORDER_COST),
            PagePosition("0.5", EPISODE_ID),
        ),
        position_token(episode_pb.ListEpisodesRequest(), PagePosition("now", "acme")),
    ],
    ids=["of another kind", "empty", "of another order", "without an id"],
)
def test_a_page_token_of_another_list_is_rejected(token: str) -> None:
    with pytest.raises(InvalidPageToken):
        position_from_proto(episode_pb.ListEpisodesRequest(page_token=token))


async def test_a_sequence_that_no_event_can_have_is_rejected() -> None:
    watcher = Watcher(None, None, Wakeups(), Wakeups(), WatchedAnswers())  # type: ignore[arg-type]
    with pytest.raises(OutOfBounds, match="after_sequence is 2147483648; give the sequence"):
        await anext(watcher.follow("acme", "0190", SEQUENCE_MAX + 1))


PARENT = "01890af1-7a2b-7c3d-8e4f-5a6b7c8d9e0f"


def test_a_child_has_its_parents_time_and_the_version_that_no_caller_may_choose() -> None:
    child = uuid.UUID(child_episode_id(PARENT, f"{PARENT}/1/tool/0"))
    assert (child.version, child.variant) == (8, uuid.RFC_4122)
    assert child.int >> 80 == uuid.UUID(PARENT).int >> 80


def test_a_call_names_one_child_and_every_call_another() -> None:
    keys = [f"{PARENT}/{turn}/tool/{index}" for turn in range(1, 50) for index in range(20)]
    children = [child_episode_id(PARENT, key) for key in keys]
    assert children == [child_episode_id(PARENT, key) for key in keys]
    assert len(set(children)) == len(keys)
    assert PARENT not in children


def test_tenants_that_begin_alike_have_queues_of_their_own() -> None:
    tenants = ["bank", "b" * 63, "b" * 64, "b" * 64 + "c", "b" * 64 + "d"]
    keys = [fairness_key(tenant) for tenant in tenants]
    assert keys[:2] == tenants[:2] and len(set(keys)) == len(tenants)
    assert max(map(len, keys)) <= 64


class Platform:
    def __init__(self) -> None:
        self.stored = stored_episode()
        self.queue = self
        self.called: list[tuple[str, str]] = []
        self.looked = asyncio.Event()

    async def get(self, _tenant: str, episode_id: str) -> StoredEpisode:
        assert canonical_id(episode_id) == ID
        return self.stored

    async def find(self, *_: object) -> object:
        return self

    async def hand_over(self, _: NewEpisode) -> None: ...

    async def cancel(self, episode_id: str) -> bool:
        """Cancels in the queue, which does not have it, and in its workflow."""
        self.called.append(("cancel", episode_id))
        return False

    async def decide(self, episode_id: str, _: Approval) -> bool:
        self.called.append(("decide", episode_id))
        return True

    async def decided(self, *_: object, approved: bool) -> None: ...

    async def after(self, *_: object) -> News:
        self.looked.set()
        return News()


@pytest.mark.parametrize("written", [ID, ID.upper(), ID.replace("-", ""), f"urn:uuid:{ID}"])
def test_an_id_has_one_form(written: str) -> None:
    assert canonical_id(written) == ID


@pytest.mark.parametrize("name", ["", "42", f"{ID}0", "calculator"])
def test_a_name_that_is_no_id_has_none(name: str) -> None:
    assert canonical_id(name) is None


async def test_a_workflow_is_found_by_the_id_that_it_is_called_by() -> None:
    platform: Any = Platform()
    parts = dict.fromkeys(Episodes.__dataclass_fields__, platform)
    with acting_as(Identity("acme", "boss", frozenset({Scope.CALLS_APPROVE}))):
        await Episodes(**parts).cancel(ID.upper())
        await Episodes(**parts).approve(ID.upper(), 1, 0, approved=True, reason="")
    assert platform.called == [("cancel", ID), ("cancel", ID), ("decide", ID)]


async def test_whoever_watches_under_another_form_is_told_at_once() -> None:
    platform: Any = Platform()
    wakeups = Wakeups()
    watcher = Watcher(platform, platform, wakeups, Wakeups(), WatchedAnswers())
    events = watcher.follow("acme", ID.upper(), 0)
    with acting_as(make_identity("acme")):
        assert (await anext(events)).sequence == 1
    more = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    wakeups.notify(ID)
    async with asyncio.timeout(5):
        await platform.looked.wait()
    more.cancel()
    with pytest.raises(asyncio.CancelledError):
        await more


async def test_a_part_of_the_first_turn_is_shown_before_there_is_news_of_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "FALLBACK_INTERVAL_S", None)
    platform: Any = Platform()
    answers, part = WatchedAnswers(), WrittenPart(ID, 1, 0, "two")
    watcher = Watcher(platform, platform, Wakeups(), Wakeups(), answers)
    with acting_as(make_identity("acme")):
        events = watcher.follow("acme", ID, 0, answer_parts=True)
        assert (await anext(events)).sequence == 1
    for notification in part.notifications():
        answers.take(notification)
    assert (await anext(events)).part == part


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


PLAN = attached("[PDF 1]", make_pdf(), "application/pdf")


class Rows:
    def __init__(self, *rows: Any) -> None:
        self._rows = rows

    def scalar(self) -> Any:
        return self._rows[0] if self._rows else None

    def one(self) -> Any:
        return self._rows[0]


class Keeping:
    async def execute(self, statement: Any, values: dict[str, Any]) -> Rows:
        if statement is not COPY:
            return Rows((1, len(PLAN.data)))
        found = values["digest"].hex() == PLAN.attachment.digest
        return Rows(PLAN.data[:12]) if found and values["size_bytes"] == len(PLAN.data) else Rows()


def stated(**changes: Any) -> attachment_pb2.Attachment:
    attachment = attachment_pb2.Attachment()
    attachment.CopyFrom(PLAN.attachment)
    attachment.MergeFrom(attachment_pb2.Attachment(**changes))
    return attachment


async def keep_one(attachment: attachment_pb2.Attachment) -> None:
    files = Files((attachment_from_proto(attachment),))
    with acting_as(make_identity()):
        await store_files(Keeping(), "acme", "0190", files, UNLIMITED)  # type: ignore[arg-type]


async def test_a_kept_file_is_what_the_request_states() -> None:
    await keep_one(PLAN.attachment)


@pytest.mark.parametrize("changes", [{"size_bytes": 1}, {"media_type": "image/png"}])
async def test_a_kept_file_cannot_be_misstated(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidAttachments, match="not of the size and type that it states"):
        await keep_one(stated(**changes))


def test_a_file_that_comes_twice_is_stated_alike() -> None:
    again = stated(placeholder="[PDF 2]")
    assert len(checked_attachments([PLAN.attachment, again])) == 2
    again.size_bytes = 1
    with pytest.raises(InvalidAttachments, match="state the same"):
        checked_attachments([PLAN.attachment, again])
