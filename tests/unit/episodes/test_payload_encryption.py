import base64
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from episodes.workflows.codec import UnreadablePayload, data_converter
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
