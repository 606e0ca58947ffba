"""Charges that never reached the record elsewhere. Threads are named as owner/repository#number."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from integration.cost_ledger.builders import make_capture, make_record, make_reserve, make_usage
from integration.cost_ledger.complaints.books import Books, until_answered
from integration.cost_ledger.running_ledger import running_ledger
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2

OTHER_CONNECTIONS = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


async def test_a_call_whose_commit_was_lost_is_charged_once_by_its_retry(books: Books) -> None:
    """BerriAI/litellm#33872, openmeterio/openmeter#5118: claimed before the write."""
    engine = create_async_engine(books.replicas.first.database_url)
    posting = asyncio.gather(
        *(
            until_answered(lambda key=key: books.record(key))  # type: ignore[misc]
            for key in map(str, range(100))
        )
    )
    async with engine.connect() as connection:
        for _ in range(3):
            await connection.execute(OTHER_CONNECTIONS)
            await asyncio.sleep(0.02)
    await engine.dispose()
    await posting
    assert sorted(await books.charged()) == sorted(map(str, range(100)))


async def test_an_answered_charge_is_in_the_database_and_not_in_a_buffer(books: Books) -> None:
    """BerriAI/litellm#19163, #23019: the buffer was silently off."""
    entry = await books.record("k")
    page = await books.other_worker.ledger.ListEntries(pb.ListEntriesRequest())
    assert [found.key for found in page.entries] == [entry.key]


@pytest.mark.parametrize("provider_id", ["chatcmpl-1", "", "None"])
async def test_calls_to_which_the_provider_gives_one_id_are_all_charged(
    books: Books, provider_id: str
) -> None:
    """BerriAI/litellm#28376 (Ollama), #39749 (null), #35563 (reused by the client)."""
    usage = make_usage(provider_id, input_fresh=1000, output_text=100)
    for key in ("a", "b", "c"):
        await books.record(key, usage=usage)
    assert await books.charged() == ["a", "b", "c"]


async def test_a_call_without_output_is_charged(books: Books) -> None:
    """BerriAI/litellm#36646: embeddings wrote no row."""
    entry = await books.record("embedding", usage=make_usage(input_fresh=800))
    assert entry.amount.amount == "0.001"


async def test_nine_calls_at_once_are_nine_charges(books: Books) -> None:
    """BerriAI/litellm#13280: eight of nine were logged."""
    await asyncio.gather(*(books.record(str(number)) for number in range(9)))
    assert sorted(await books.charged()) == sorted(map(str, range(9)))


async def test_a_client_that_hangs_up_does_not_take_its_charge_along(books: Books) -> None:
    """BerriAI/litellm#14457, #13245, #33736, #36008: a disconnect lost the usage."""
    await books.reserve("k")
    call = asyncio.create_task(books.worker.ledger.Capture(make_capture("k")))
    await asyncio.sleep(0)
    call.cancel()
    assert (await books.capture("k")).amount.amount == "0.00225"
    assert await books.charged() == ["k"]


async def test_a_replica_that_stops_takes_no_acknowledged_usage_along(
    books: Books, tmp_path: Path
) -> None:
    """openmeterio/openmeter#4902: 77 s of accepted usage were gone after a rollout."""
    async with running_ledger(books.replicas.first.database_url, tmp_path) as rolled:
        worker = rolled.as_(books.tenant)
        await asyncio.gather(*(worker.ledger.Record(make_record(str(n))) for n in range(20)))
    assert sorted(await books.charged()) == sorted(map(str, range(20)))


async def test_a_call_that_was_made_but_never_captured_is_still_visible(books: Books) -> None:
    """BerriAI/litellm#6633: streams without a final usage left no trace."""
    await books.worker.ledger.Reserve(make_reserve("stream"))
    (held,) = await books.entries(hold_pb2.ENTRY_KIND_RESERVE)
    assert (held.key, held.amount.amount) == ("stream", "0.01125")
