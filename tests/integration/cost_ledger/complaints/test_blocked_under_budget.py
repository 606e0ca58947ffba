"""Calls that were rejected elsewhere although they fitted."""

from integration.cost_ledger.builders import make_usage, quantities
from integration.cost_ledger.complaints.books import Books
from podium.ledger.v1 import cost_ledger_service_pb2 as pb


async def test_the_budget_counts_what_the_journal_shows(books: Books) -> None:
    """BerriAI/litellm#27735: the counter said 60.9 where the key showed 30.45."""
    await books.add_budget()
    for number in range(5):
        await books.reserve(str(number))
        await books.capture(str(number))
    status = await books.status()
    assert float(status.posted.amount) == float(await books.spent()) == 0.01125
    assert status.held.amount == "0"


async def test_without_a_budget_no_call_is_rejected_for_money(books: Books) -> None:
    """BerriAI/litellm#20615, #22726: blocked with no budget set."""
    dear = quantities(input_fresh=10**9, output_text=10**9)
    assert (await books.reserve(worst_case=dear)).HasField("hold")


async def test_worst_cases_that_fill_a_budget_are_named_and_given_back(books: Books) -> None:
    """BerriAI/litellm#38647: $25 were full of reservations while the log showed $0."""
    await books.add_budget(limit="0.02")
    await books.reserve("first")
    rejection = (await books.reserve("second")).rejection
    assert (rejection.budget_id, rejection.remaining.amount) == ("cap", "0.00875")
    assert rejection.fitting_output_tokens == 750
    await books.capture("first", make_usage(input_fresh=100))
    assert (await books.reserve("third")).HasField("hold")


async def test_a_model_that_is_free_is_admitted_when_the_budget_is_spent(books: Books) -> None:
    """BerriAI/litellm#14004, #29912: free local models were blocked too."""
    await books.add_price("llm/local", {"input_fresh": ("0", "1"), "output_text": ("0", "1")})
    await books.add_budget(limit="0.00225")
    await books.record("spends-all")
    assert (await books.reserve()).HasField("rejection")
    assert (await books.reserve(sku="llm/local")).HasField("hold")


async def test_what_a_released_call_held_is_free_again(books: Books) -> None:
    """BerriAI/litellm#38647: failed calls kept their reservation."""
    await books.add_budget(limit="0.01125")
    await books.reserve("failed")
    await books.worker.ledger.Release(pb.ReleaseRequest(key="failed"))
    assert (await books.reserve("next")).HasField("hold")
