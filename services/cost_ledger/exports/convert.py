from cost_ledger.errors import InvalidReport
from cost_ledger.exports.focus import FOCUS_1_0, FOCUS_1_2
from cost_ledger.exports.models import Charge, ChargeLine, Month
from cost_ledger.exports.service import ChargesPage
from cost_ledger.exports.tables import CHARGES, ColumnKind, Table
from cost_ledger.fingerprint import decimal_text
from cost_ledger.journal.convert import entry_to_proto
from podium.ledger.v1 import audit_pb2
from podium.ledger.v1 import audit_service_pb2 as pb
from podium_kit.money import Money
from podium_kit.rpc.pages import encode_page_token
from podium_kit.wire import money_to_proto, quantities_to_proto, timestamp_to_proto
from podium_kit.wire.values import dimension_to_proto

TABLES = {
    audit_pb2.EXPORT_FORMAT_CHARGES: CHARGES,
    audit_pb2.EXPORT_FORMAT_FOCUS_1_0: FOCUS_1_0,
    audit_pb2.EXPORT_FORMAT_FOCUS_1_2: FOCUS_1_2,
}
KIND_TO_WIRE = {
    kind: audit_pb2.ExportColumnKind.Value(f"EXPORT_COLUMN_KIND_{kind.name}") for kind in ColumnKind
}


def table_from_proto(number: audit_pb2.ExportFormat.ValueType) -> Table:
    if number not in TABLES:
        raise InvalidReport("format is unset or unknown; name one, like EXPORT_FORMAT_CHARGES")
    return TABLES[number]


def month_from_proto(text: str) -> Month | None:
    return Month.parse(text) if text else None


def charge_to_proto(charge: Charge) -> audit_pb2.Charge:
    currency = charge.price.currency_code if charge.price else ""
    corrected = charge.corrected_create_time
    return audit_pb2.Charge(
        entry=entry_to_proto(charge.entry),
        lines=[_line_to_proto(line, currency) for line in charge.lines],
        corrected_create_time=timestamp_to_proto(corrected) if corrected else None,
    )


def charges_to_proto(page: ChargesPage, tenant: str) -> pb.ListChargesResponse:
    more = page.sequence < page.head
    return pb.ListChargesResponse(
        charges=[charge_to_proto(charge) for charge in page.charges],
        next_page_token=encode_page_token({"after": str(page.sequence)}) if more else "",
        tenant=tenant,
        sequence=page.sequence,
        head_sequence=page.head,
    )


def export_to_proto(table: Table, page: ChargesPage) -> pb.ExportChargesResponse:
    return pb.ExportChargesResponse(
        columns=[
            audit_pb2.ExportColumn(name=column.name, kind=KIND_TO_WIRE[column.kind])
            for column in table.columns
        ],
        rows=[
            audit_pb2.ExportRow(values=texts)
            for charge in page.charges
            for texts in table.texts_of(charge)
        ],
        unpriced_call_count=sum(charge.entry.cost is None for charge in page.charges),
        sequence=page.sequence,
        head_sequence=page.head,
    )


def _line_to_proto(line: ChargeLine, currency: str) -> audit_pb2.ChargeLine:
    message = audit_pb2.ChargeLine(quantity=quantities_to_proto([line.quantity])[0])
    if line.component:
        message.unit_price = decimal_text(line.component.unit_price)
        message.per = decimal_text(line.component.per)
        message.priced_as = dimension_to_proto(line.component.dimension)
        message.band = line.band
        message.exact_amount = decimal_text(line.exact_amount)
        message.amount.CopyFrom(money_to_proto(Money(line.amount, currency)))
    return message
