"""The versions of FOCUS that an export can be written in.

focus-validator 1.0.0, the newest on PyPI, has rules for 1.0 alone, and asks for four columns
by names that the specification never had, and for ChargeType, which 1.0-preview renamed to
ChargeCategory. A file of 1.0 holds these columns, too, after those of the specification, so
that it passes as it is. A file of 1.2 holds what the specification names and nothing else.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from podium.ledger.v1 import audit_pb2
from podium_cli.auditing import export_rows, focus
from podium_cli.auditing.export_rows import Field, Row

# What the validator asks for, and the column of FOCUS 1.0 that it means.
VALIDATOR_NAMES = {
    "ChargeType": "ChargeCategory",
    "InvoiceIssuer": "InvoiceIssuerName",
    "Provider": "ProviderName",
    "Publisher": "PublisherName",
    "ResourceID": "ResourceId",
}


@dataclass(frozen=True)
class TableForm:
    """The columns of an export, and the rows that a charge of a tenant becomes."""

    fields: Sequence[Field]
    rows_of: Callable[[audit_pb2.Charge, str], Iterator[Row]]


def _rows_1_0(charge: audit_pb2.Charge, tenant: str) -> Iterator[Row]:
    for row in focus.rows_of(charge, tenant):
        yield row | {name: row[meant] for name, meant in VALIDATOR_NAMES.items()}


def _rows_1_2(charge: audit_pb2.Charge, tenant: str) -> Iterator[Row]:
    of_model = bool(charge.entry.subject.model)
    kind = "Generative AI" if of_model else "Other (AI and Machine Learning)"
    for row in focus.rows_of(charge, tenant):
        yield row | {
            "ServiceSubcategory": kind,
            "SkuMeter": row["ConsumedUnit"] if row["SkuId"] else None,
            "SkuPriceDetails": None,
        }


def _ordered(*names: str) -> tuple[Field, ...]:
    added = (Field(name, "text") for name in names)
    return tuple(sorted(chain(focus.FIELDS, added), key=lambda field: field.name))


CHARGES = TableForm(export_rows.FIELDS, export_rows.rows_of)
FOCUS_VERSIONS = {
    "1.0": TableForm(
        (*focus.FIELDS, *(Field(name, "text") for name in VALIDATOR_NAMES)), _rows_1_0
    ),
    "1.2": TableForm(_ordered("ServiceSubcategory", "SkuMeter", "SkuPriceDetails"), _rows_1_2),
}
