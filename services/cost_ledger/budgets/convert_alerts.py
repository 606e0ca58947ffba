"""podium.ledger.v1.BudgetAlert."""

from cost_ledger.budgets.alerts import BudgetAlert
from podium.ledger.v1 import alert_pb2
from podium_kit.rpc.pages import decode_page_token, encode_page_token
from podium_kit.stream import StreamRecord
from podium_kit.wire import money_to_proto, timestamp_to_proto

SCHEMA = "podium.ledger.v1.BudgetAlert"
# Larger than any sequence: the first page starts at the newest alert.
NEWEST = 2**63 - 1


def alert_to_proto(alert: BudgetAlert) -> alert_pb2.BudgetAlert:
    published = alert.publish_time
    return alert_pb2.BudgetAlert(
        id=alert.id,
        tenant=alert.tenant,
        budget_id=alert.budget_id,
        window_start=timestamp_to_proto(alert.window_start),
        soft_limit=money_to_proto(alert.soft_limit),
        posted=money_to_proto(alert.posted),
        hard_limit=money_to_proto(alert.hard_limit),
        create_time=timestamp_to_proto(alert.create_time),
        publish_time=timestamp_to_proto(published) if published else None,
    )


def alert_record(alert: BudgetAlert) -> StreamRecord:
    """What goes on the topic; one key per budget keeps its alerts in order."""
    return StreamRecord(
        key=f"{alert.tenant}/{alert.budget_id}",
        value=alert_to_proto(alert).SerializeToString(deterministic=True),
        headers={"record-id": alert.id, "schema": SCHEMA},
    )


def before_from_token(page_token: str) -> int:
    """Sequence of the last alert of the previous page. Raises InvalidPageToken."""
    before = decode_page_token(page_token).get("before", "")
    return int(before) if before.isdecimal() else NEWEST


def next_alerts_page(alerts: list[BudgetAlert], limit: int) -> str:
    """Where the next page starts; empty on the last one."""
    return encode_page_token({"before": str(alerts[-1].sequence)}) if len(alerts) == limit else ""
