from cost_ledger.errors import InvalidReport
from cost_ledger.models import Entry, EntryKind
from cost_ledger.spend.models import EntryFilter, SpendDimension, SpendReport, SpendRow
from podium.common.v1 import money_pb2, usage_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as pb
from podium.ledger.v1 import hold_pb2
from podium_kit.metering import Dimension
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size, token_number
from podium_kit.wire import optional_time

KIND_FROM_WIRE = {hold_pb2.EntryKind.Value(f"ENTRY_KIND_{kind.name}"): kind for kind in EntryKind}
DIMENSION_FROM_WIRE = {
    pb.SpendDimension.Value(f"SPEND_DIMENSION_{dimension.name}"): dimension
    for dimension in SpendDimension
}
QUANTITY_TO_WIRE = {
    dimension: usage_pb2.UsageDimension.Value(f"USAGE_DIMENSION_{dimension.name}")
    for dimension in Dimension
}


def filter_from_proto(message: pb.ListEntriesRequest) -> EntryFilter:
    if unknown := [number for number in message.kinds if number not in KIND_FROM_WIRE]:
        raise InvalidReport(f"kinds contains {unknown[0]}, which is no kind of entry")
    token = decode_page_token(message.page_token)
    return EntryFilter(
        episode_id=message.episode_id,
        kinds=tuple(KIND_FROM_WIRE[number] for number in message.kinds),
        unpriced=message.unpriced,
        after_sequence=token_number(token, "after", 0),
        limit=page_size(message.page_size, 100, 1000),
    )


def next_entries_page(entries: list[Entry], limit: int) -> str:
    if len(entries) < limit:
        return ""
    return encode_page_token({"after": str(entries[-1].sequence)})


def report_from_proto(message: pb.ReportSpendRequest) -> SpendReport:
    if unknown := [number for number in message.group_by if number not in DIMENSION_FROM_WIRE]:
        raise InvalidReport(f"group_by contains {unknown[0]}, which is no dimension")
    token = decode_page_token(message.page_token)
    return SpendReport(
        group_by=tuple(DIMENSION_FROM_WIRE[number] for number in message.group_by),
        start_time=optional_time(message, "start_time"),
        end_time=optional_time(message, "end_time"),
        episode_id=message.episode_id,
        limit=page_size(message.page_size, 100, 1000),
        offset=token_number(token, "offset", 0),
        all_tenants=message.all_tenants,
    )


def next_report_page(report: SpendReport, rows: list[SpendRow]) -> str:
    if len(rows) < report.limit:
        return ""
    return encode_page_token({"offset": str(report.offset + report.limit)})


def spend_row_to_proto(row: SpendRow) -> pb.SpendRow:
    return pb.SpendRow(
        values=row.values,
        amounts=[
            money_pb2.Money(currency_code=currency, amount=amount)
            for currency, amount in row.amounts.items()
        ],
        call_count=row.call_count,
        unpriced_call_count=row.unpriced_call_count,
        quantities=[
            usage_pb2.Quantity(dimension=QUANTITY_TO_WIRE[dimension], amount=amount)
            for dimension, amount in row.quantities.items()
        ],
    )
