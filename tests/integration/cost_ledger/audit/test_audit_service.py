from datetime import UTC, datetime

import grpc
import pytest

from integration.cost_ledger.audit.auditor import fill
from integration.cost_ledger.builders import make_price, make_record, make_usage, usd
from integration.cost_ledger.running_ledger import Client, RunningLedger
from podium.ledger.v1 import audit_pb2
from podium.ledger.v1 import audit_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium_kit.rpc.identity import Scope
from podium_kit.wire import timestamp_to_proto

MONTH = f"{datetime.now(UTC):%Y-%m}"


async def explained(client: Client, entry: str, tenant: str = "") -> audit_pb2.Explanation:
    request = pb.ExplainEntryRequest(entry=entry, tenant=tenant)
    return (await client.audit.ExplainEntry(request)).explanation


async def test_an_entry_is_explained_by_its_parts_and_its_chain(
    ledger: RunningLedger, worker: Client
) -> None:
    await fill(ledger)
    for asked in ("2", "a"):
        explanation = await explained(worker, asked)
        assert explanation.charge.entry.sequence == 2
        parts = [
            (line.quantity.amount, line.unit_price, line.per, line.amount.amount)
            for line in explanation.charge.lines
        ]
        assert parts == [("1000", "1.25", "1000000", "0.00125"), ("100", "10", "1000000", "0.001")]
        assert explanation.recomputed_amount == usd("0.00225") == explanation.charge.entry.amount
        assert explanation.chain.hash == explanation.chain.recomputed_hash
        assert [entry.sequence for entry in explanation.related] == [1]
        assert explanation.hold.key == "a"


async def test_another_tenants_entry_is_not_found_but_by_the_platforms_admin(
    ledger: RunningLedger, worker: Client
) -> None:
    await fill(ledger)
    for who, tenant, code in (
        (ledger.as_("bravo", Scope.SPEND_READ), "", grpc.StatusCode.NOT_FOUND),
        (ledger.as_("bravo", Scope.SPEND_READ), "acme", grpc.StatusCode.PERMISSION_DENIED),
        (ledger.as_("acme", Scope.EPISODES_RUN), "", grpc.StatusCode.PERMISSION_DENIED),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await explained(who, "2", tenant)
        assert rejected.value.code() is code
    platform = ledger.as_("bravo", Scope.PLATFORM_ADMIN)
    assert (await explained(platform, "2", "acme")).charge.entry.sequence == 2


async def test_charges_sum_to_what_was_posted(ledger: RunningLedger, worker: Client) -> None:
    await fill(ledger)
    charges: list[audit_pb2.Charge] = []
    token = ""
    while True:
        page = await worker.audit.ListCharges(
            pb.ListChargesRequest(month=MONTH, page_size=2, page_token=token)
        )
        charges += page.charges
        token = page.next_page_token
        if not token:
            break
    assert [charge.entry.sequence for charge in charges] == [2, 6, 7, 8, 9]
    assert [charge.entry.amount.amount for charge in charges] == [
        "0.00225",
        "0.00225",
        "-0.00225",
        "0.000225",
        "",
    ]
    assert [line.amount.amount for line in charges[3].lines] == ["0.000125", "0.0001"]
    assert charges[2].HasField("corrected_create_time")


async def test_an_export_resumes_where_it_was_cut_and_every_part_is_a_row(
    ledger: RunningLedger, worker: Client
) -> None:
    await fill(ledger)
    asked = pb.ExportChargesRequest(format=audit_pb2.EXPORT_FORMAT_CHARGES, month=MONTH)
    whole = [response async for response in worker.audit.ExportCharges(asked)]
    assert whole[-1].sequence == whole[-1].head_sequence
    assert sum(response.unpriced_call_count for response in whole) == 1
    names = [column.name for column in whole[0].columns]
    rows = [dict(zip(names, row.values, strict=True)) for it in whole for row in it.rows]
    amounts = [row["amount"] for row in rows if row["sequence"] in ("7", "8")]
    assert amounts == ["-0.00225", "0.000125", "0.0001"]
    asked.after_sequence = 6
    rest = [row async for response in worker.audit.ExportCharges(asked) for row in response.rows]
    assert [row.values for row in rest] == [
        list(row.values()) for row in rows if int(row["sequence"]) > 6
    ]


async def test_an_export_names_its_format(worker: Client) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await worker.audit.ExportCharges(pb.ExportChargesRequest()).read()
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_simulation_prices_the_past_and_names_what_it_cannot(
    ledger: RunningLedger, worker: Client
) -> None:
    await fill(ledger)
    more_expensive = make_price(components={"input_fresh": ("2.5", "1000000")}, currency_code="USD")
    reply = await worker.audit.SimulatePrices(pb.SimulatePricesRequest(specs=[more_expensive]))
    gpt, unknown = reply.costs
    assert (gpt.sku, gpt.call_count) == ("openai/gpt-5", 2)
    assert list(gpt.posted) == [usd("0.002475")]
    assert list(gpt.simulated) == [usd("0.00275")]
    assert (unknown.sku, unknown.unpriced_posted_count, unknown.unpriced_simulated_count) == (
        "unknown/model",
        1,
        1,
    )
    elsewhere = pb.SimulatePricesRequest(specs=[more_expensive], episode_id="another")
    assert not (await worker.audit.SimulatePrices(elsewhere)).costs


async def test_an_invoice_is_compared_twice_with_the_same_result(worker: Client) -> None:
    for number in range(3):
        await worker.ledger.Record(
            make_record(usage=make_usage(f"r{number}", input_fresh=1000, output_text=100))
        )
    invoice = audit_pb2.Invoice(id="i", provider="openai", month=MONTH)
    amounts = {"r0": "0.00225", "r1": "0.0022", "r9": "1"}
    now = timestamp_to_proto(datetime.now(UTC))
    lines = [
        audit_pb2.InvoiceLine(provider_request_id=request, occur_time=now, amount=usd(amount))
        for request, amount in amounts.items()
    ]
    for created in (3, 0):
        request = pb.AddInvoiceLinesRequest(invoice=invoice, first_position=1, lines=lines)
        assert (await worker.audit.AddInvoiceLines(request)).created_count == created
        await worker.audit.ReconcileInvoice(pb.ReconcileInvoiceRequest(invoice_id="i"))
        matches = (
            await worker.audit.ListInvoiceMatches(pb.ListInvoiceMatchesRequest(invoice_id="i"))
        ).matches
        assert [(match.state, match.position) for match in matches] == [
            (audit_pb2.MATCH_STATE_MATCHED, 1),
            (audit_pb2.MATCH_STATE_ROUNDED, 2),
            (audit_pb2.MATCH_STATE_MISSING_IN_LEDGER, 3),
            (audit_pb2.MATCH_STATE_MISSING_IN_INVOICE, 0),
        ]
    lines[0].amount.amount = "7"
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await worker.audit.AddInvoiceLines(
            pb.AddInvoiceLinesRequest(invoice=invoice, first_position=1, lines=lines)
        )
    assert rejected.value.code() is grpc.StatusCode.ALREADY_EXISTS


async def test_an_invoice_is_compared_with_costs_as_they_were_adjusted(
    worker: Client, admin: Client
) -> None:
    usage = make_usage("r0", input_fresh=1000, output_text=100)
    cost = (await worker.ledger.Record(make_record(usage=usage))).entry
    line = audit_pb2.InvoiceLine(
        provider_request_id="r0",
        occur_time=timestamp_to_proto(datetime.now(UTC)),
        amount=usd("1.00000"),
    )
    invoice = audit_pb2.Invoice(id="i", provider="openai", month=MONTH)
    await worker.audit.AddInvoiceLines(
        pb.AddInvoiceLinesRequest(invoice=invoice, first_position=1, lines=[line])
    )
    adjustment = ledger_pb.AdjustRequest(
        key="fix", sequence=cost.sequence, change=usd("0.99775"), reason="billed otherwise"
    )
    for state in (audit_pb2.MATCH_STATE_DIFFERENT, audit_pb2.MATCH_STATE_MATCHED):
        await worker.audit.ReconcileInvoice(pb.ReconcileInvoiceRequest(invoice_id="i"))
        listed = await worker.audit.ListInvoiceMatches(pb.ListInvoiceMatchesRequest(invoice_id="i"))
        assert [match.state for match in listed.matches] == [state]
        await admin.ledger.Adjust(adjustment)
    assert listed.matches[0].entry.amount == usd("1")
