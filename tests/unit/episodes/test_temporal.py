import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.service import TLSConfig

from episodes.execution.outcomes import Approval, ChildCall, EpisodeResult, TurnInput
from episodes.workflows.codec import UnreadablePayload, data_converter
from episodes.workflows.connection import connection_security
from episodes.workflows.episode_workflow import EpisodeWorkflow
from episodes.workflows.payloads import EpisodeInput, TurnResult
from episodes.workflows.settings import TemporalSettings
from podium_kit.crypto.key_file import InvalidKeyFile, KeyFile, new_key_line
from podium_kit.rpc.errors import FailedPrecondition

WORDS = "pay the invoice of Ouagadougou"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "payload-keys"
    path.write_text(new_key_line("first"))
    return path


def keep(file: Path, *lines: str) -> None:
    file.write_text("".join(lines))


async def sealed(file: Path) -> Payload:
    [payload] = await data_converter(file).encode([WORDS])
    return payload


async def test_what_is_stored_holds_no_word_and_is_read_again(file: Path) -> None:
    payload = await sealed(file)
    assert WORDS.encode() not in payload.SerializeToString()
    assert await data_converter(file).decode([payload]) == [WORDS]
    # The same words look different each time.
    assert (await sealed(file)).data != payload.data


async def test_the_last_key_encrypts_and_all_decrypt(file: Path) -> None:
    converter = data_converter(file)
    first, second = new_key_line("first"), new_key_line("second")
    keep(file, first)
    before = await sealed(file)
    keep(file, first, second)
    after = await sealed(file)
    assert after.metadata["encryption-key-id"] == b"second"
    # Also by a process that opened the file before.
    assert await converter.decode([before, after]) == [WORDS, WORDS]


async def test_two_keys_of_one_id_are_rejected(file: Path) -> None:
    keep(file, new_key_line("first"), new_key_line("second"), new_key_line("first"))
    # Otherwise the last line would replace the first, and not be current.
    with pytest.raises(InvalidKeyFile, match="two keys of one id"):
        KeyFile(file).keys()


async def test_with_keys_a_payload_that_is_not_encrypted_is_rejected(file: Path) -> None:
    plain = await DataConverter.default.encode([WORDS])
    with pytest.raises(UnreadablePayload, match="is not encrypted, although"):
        await data_converter(file).decode([await sealed(file), *plain])
    assert await data_converter(None).decode(plain) == [WORDS]


async def test_the_words_of_a_failure_are_encrypted_as_well(file: Path) -> None:
    converter, stored = data_converter(file), Failure()
    cause = ApplicationError("nobody speaks Zarma", WORDS)
    try:
        raise ApplicationError(WORDS, type="Rejected") from cause
    except ApplicationError as error:
        await converter.encode_failure(error, stored)
    raw = stored.SerializeToString()
    assert b"Ouagadougou" not in raw and b"Zarma" not in raw
    read = await converter.decode_failure(stored)
    assert isinstance(read, ApplicationError) and isinstance(read.cause, ApplicationError)
    assert (read.message, read.cause.message) == (WORDS, "nobody speaks Zarma")
    assert read.cause.details == (WORDS,)


async def test_a_key_that_is_gone_is_named_with_the_file(file: Path) -> None:
    payload = await sealed(file)
    converter = data_converter(file)
    keep(file, new_key_line("other"))
    with pytest.raises(UnreadablePayload, match=f"the key first, which {file} .*lacks"):
        await converter.decode([payload])
    with pytest.raises(UnreadablePayload, match="first: set TEMPORAL__PAYLOAD_KEYS_FILE"):
        await data_converter(None).decode([payload])


async def test_another_key_of_that_id_and_changed_bytes_are_rejected(file: Path) -> None:
    payload = await sealed(file)
    changed = Payload(metadata=payload.metadata, data=payload.data[:-1] + b"\0\0")
    short = Payload(metadata=payload.metadata, data=b"")
    for broken in (changed, short):
        with pytest.raises(UnreadablePayload, match="does not open it"):
            await data_converter(file).decode([broken])
    keep(file, new_key_line("first"))
    with pytest.raises(UnreadablePayload, match="does not open it"):
        await data_converter(file).decode([payload])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("first", "cannot be read"),
        ("first AAAA", "cannot be read"),
        (f"a b {base64.b64encode(bytes(32)).decode()}", "cannot be read"),
    ],
)
def test_a_file_without_keys_stops_the_start(file: Path, content: str, said: str) -> None:
    file.write_text(content)
    with pytest.raises(FailedPrecondition, match=rf"{file} \(TEMPORAL__PAYLOAD_KEYS_FILE\) {said}"):
        data_converter(file)


def test_nothing_set_is_plaintext() -> None:
    assert connection_security(TemporalSettings()) == {"tls": False}


def test_mutual_tls_and_a_key_reach_the_client(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("authority", "certificate", "private_key")}
    for name, path in paths.items():
        path.write_text(name)
    settings = TemporalSettings(
        tls=True, server_name="temporal", api_key=SecretStr("made up"), **paths
    )
    assert connection_security(settings) == {
        "tls": TLSConfig(
            server_root_ca_cert=b"authority",
            domain="temporal",
            client_cert=b"certificate",
            client_private_key=b"private_key",
        ),
        "api_key": "made up",
    }
    assert "made up" not in repr(settings)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"api_key": "k"}, "are used over TLS"),
        ({"server_name": "temporal"}, "are used over TLS"),
        ({"tls": True, "certificate": __file__}, "belong together"),
        ({"tls": True, "authority": "/nowhere/ca.crt"}, "authority"),
    ],
)
def test_half_a_connection_is_rejected(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        TemporalSettings(**settings)


EPISODE = EpisodeInput("e1", turn_limit=3, time_limit_s=60.0)


class ScriptedWorkflow(EpisodeWorkflow):
    def __init__(self, script: Callable[[TurnInput], TurnResult]) -> None:
        super().__init__(EPISODE)
        self.asked: list[TurnInput] = []
        self._script = script

    async def turns(self) -> TurnResult:
        return await self._take_turns(EPISODE)

    async def _run_turn(self, episode: EpisodeInput, turn: TurnInput) -> TurnResult:
        assert len(self.asked) < 10, "the same is asked for again and again"
        self.asked.append(turn)
        return self._script(turn)

    async def _decisions(
        self, episode: EpisodeInput, turn: int, pending: list[int]
    ) -> dict[str, Approval]:
        decided = self._decided.setdefault(turn, {})
        decided |= {str(index): Approval(turn, index, True, "ada") for index in pending}
        return dict(decided)

    async def _run_child(self, call: ChildCall) -> EpisodeResult:
        return EpisodeResult("answered")


async def test_what_was_approved_stays_approved_when_another_call_has_to_be() -> None:
    """The policy changed while a person was asked about the first call."""

    def two_that_wait(turn: TurnInput) -> TurnResult:
        waiting = [index for index in (0, 1) if str(index) not in turn.approvals]
        return TurnResult(pending=waiting[:1], turn=1) if waiting else TurnResult("answered")

    workflow = ScriptedWorkflow(two_that_wait)
    assert (await workflow.turns()).stop == "answered"
    assert workflow.asked[-1].approvals == {"0": True, "1": True}


async def test_no_call_ends_an_episode_whose_children_run() -> None:
    """A tool that gives the answer is called beside a tool that starts an episode."""
    child = ChildCall("e2", "e1", 1, 0, 30.0)

    def answers_beside_a_child(turn: TurnInput) -> TurnResult:
        if not turn.children:
            return TurnResult(children=[child], others=True, turn=1)
        return TurnResult("answered", turn=1, finished=turn.finishes)

    workflow = ScriptedWorkflow(answers_beside_a_child)
    assert (await workflow.turns()).finished
    assert [(len(each.ended), each.finishes) for each in workflow.asked] == [
        (0, True),
        (0, False),
        (1, True),
    ]
