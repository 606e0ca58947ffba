from cost_ledger.audit.models import (
    Anchor,
    BudgetDecision,
    EntryRecords,
    Explanation,
    SimulatedCost,
)
from cost_ledger.audit.service import Window
from cost_ledger.audit.verification import Position, Range, VerificationStep
from cost_ledger.exports.convert import charge_to_proto
from cost_ledger.journal.convert import entry_to_proto, hold_to_proto, listed_entry_to_proto
from cost_ledger.posting.chain import canonical
from cost_ledger.prices.convert import price_to_proto
from podium.common.v1 import money_pb2
from podium.ledger.v1 import audit_pb2
from podium.ledger.v1 import audit_service_pb2 as pb
from podium_kit.anchors import EntryProof
from podium_kit.money import Money
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size, token_number
from podium_kit.wire import money_to_proto, optional_time, timestamp_to_proto

ENTRIES_DEFAULT, ENTRIES_MAX = 20_000, 50_000


def explanation_to_proto(explanation: Explanation) -> audit_pb2.Explanation:
    found, price = explanation.found, explanation.charge.price
    charge = charge_to_proto(explanation.charge)
    charge.entry.CopyFrom(listed_entry_to_proto(explanation.charge.entry))
    return audit_pb2.Explanation(
        charge=charge,
        price=price_to_proto(price) if price else None,
        recomputed_amount=_money(explanation.charge.recomputed_amount),
        hold=hold_to_proto(found.hold) if found.hold else None,
        related=[entry_to_proto(entry) for entry in found.related],
        budgets=[_budget_to_proto(budget) for budget in found.budgets],
        chain=audit_pb2.ChainProof(
            previous_hash=explanation.previous_hash,
            hash=found.entry.hash,
            recomputed_hash=explanation.recomputed_hash,
            anchor_day=explanation.anchor_day,
        ),
    )


def range_from_proto(message: pb.VerifyLedgerRequest) -> tuple[Range, Position]:
    token = decode_page_token(message.page_token)
    first = message.from_sequence or 1
    asked = Range(
        first,
        message.to_sequence,
        page_size(message.page_size, ENTRIES_DEFAULT, ENTRIES_MAX),
    )
    after = token_number(token, "sequence", first - 1)
    return asked, Position(after, token_number(token, "rules", 0), token.get("day", ""))


def step_to_proto(step: VerificationStep) -> pb.VerifyLedgerResponse:
    token = ""
    if at := step.next:
        values = {"sequence": str(at.sequence), "rules": str(at.rules), "day": at.day}
        token = encode_page_token(values)
    return pb.VerifyLedgerResponse(
        findings=[
            audit_pb2.Finding(
                rule=each.rule, rule_text=each.rule_text, row=each.row, problem=each.problem
            )
            for each in step.findings
        ],
        rules=[rule for rule, _ in step.rules],
        rule_texts=[description for _, description in step.rules],
        checked_count=step.checked,
        total_count=step.total,
        next_page_token=token,
    )


def anchor_to_proto(anchor: Anchor) -> audit_pb2.Anchor:
    root = anchor.root
    return audit_pb2.Anchor(
        day=root.day,
        root=root.root,
        tenant_count=root.tenant_count,
        previous_root=root.previous_root,
        signature=anchor.signature,
        public_key=anchor.public_key,
        create_time=timestamp_to_proto(anchor.create_time),
    )


def proof_to_proto(
    found: EntryRecords, proof: EntryProof, anchor: Anchor
) -> audit_pb2.InclusionProof:
    previous = found.previous.hash if found.previous else bytes(32)
    return audit_pb2.InclusionProof(
        tenant=proof.tenant,
        sequence=proof.sequence,
        hash=proof.entry_hash,
        entry_path=proof.entry_path,
        first_sequence=proof.first_sequence,
        last_sequence=proof.last_sequence,
        tenant_path=proof.tenant_path,
        tenant_index=proof.tenant_index,
        anchor=anchor_to_proto(anchor),
        head_hash=proof.head_hash,
        previous_hash=previous,
        content=canonical(found.entry).decode(),
    )


def window_from_proto(message: pb.SimulatePricesRequest) -> Window:
    return Window(
        start=optional_time(message, "start_time"),
        end=optional_time(message, "end_time"),
        after=token_number(decode_page_token(message.page_token), "after", 0),
        limit=page_size(message.page_size, ENTRIES_DEFAULT, ENTRIES_MAX),
        episode_id=message.episode_id,
    )


def simulated_to_proto(costs: list[SimulatedCost], last: int) -> pb.SimulatePricesResponse:
    """`last` is 0 on the last page."""
    return pb.SimulatePricesResponse(
        costs=[_simulated_to_proto(cost) for cost in costs],
        next_page_token=encode_page_token({"after": str(last)}) if last else "",
    )


def _budget_to_proto(budget: BudgetDecision) -> audit_pb2.BudgetDecision:
    return audit_pb2.BudgetDecision(
        budget_id=budget.budget_id,
        window_start=timestamp_to_proto(budget.window_start),
        hard_limit=_money(budget.hard_limit),
        posted=_money(budget.posted),
        held=_money(budget.held),
    )


def _simulated_to_proto(cost: SimulatedCost) -> audit_pb2.SimulatedCost:
    return audit_pb2.SimulatedCost(
        sku=cost.sku,
        model=cost.model,
        tool=cost.tool,
        call_count=cost.call_count,
        posted=[money_to_proto(Money(each, code)) for code, each in sorted(cost.posted.items())],
        simulated=[
            money_to_proto(Money(each, code)) for code, each in sorted(cost.simulated.items())
        ],
        unpriced_posted_count=cost.unpriced_posted_count,
        unpriced_simulated_count=cost.unpriced_simulated_count,
    )


def _money(money: Money | None) -> money_pb2.Money | None:
    return money_to_proto(money) if money else None
