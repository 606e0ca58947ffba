from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

UNKNOWN_EFFECT = "CANCELLED"


@dataclass(frozen=True)
class Call:
    """A tool call as the trajectory has it; `failure` is the kind of its failure, if it has one."""

    key: str
    tool: str
    failure: str = ""
    order: str = ""
    message: str = ""
    """Message of the failure, as the model read it."""


@dataclass(frozen=True)
class Record:
    record_id: str
    episode_id: str
    stop_reason: str
    cost: Decimal
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Charge:
    episode_id: str
    key: str
    amount: Decimal
    request_id: str = ""
    tokens: tuple[int, int] = (0, 0)
    """Input and output, where the provider reported them."""


@dataclass(frozen=True)
class Bill:
    request_id: str
    key: str
    tokens: tuple[int, int]

    @property
    def episode_id(self) -> str:
        return self.key.split("/")[0]


@dataclass(frozen=True)
class Observed:
    accepted: frozenset[str]
    """And the children of those that were."""
    ended: frozenset[str]
    blocked_starts: int
    orders: dict[str, str]
    """Episodes by the order that each, or a child of it, was to place."""
    records: Sequence[Record]
    charges: Sequence[Charge]
    bills: Sequence[Bill]
    effects: Sequence[str]
    """Orders as the outside service placed them, each as often as it was placed."""
    open_holds: Sequence[str] = ()
    reported: dict[str, Decimal] = field(default_factory=dict)
    """Costs as the rows of the episodes state them."""
    poisoned: frozenset[str] = frozenset()
    excused: frozenset[str] = frozenset()
    """Tools whose own server was harmed, so that a failure of theirs is a true answer."""


ANSWERED = "ANSWERED"
PRICE_OF_A_TOKEN = Decimal("0.2") / 1_000_000


@dataclass(frozen=True)
class Verdict:
    accepted: int
    finished: int
    failed: int
    lost: int
    charged_twice: int
    missing_on_stream: int
    violations: list[str] = field(default_factory=list)
    unknown_effects: int = 0
    """Effectful calls whose outcome is unknown, which is what the model read."""
    repeats: int = 0
    """Replies of the model server, without a key, that were lost and so asked for again."""
    answering_tools: frozenset[str] = frozenset()
    """Tools of which a call was answered."""


def checked(seen: Observed) -> Verdict:
    records = _records_by_episode(seen)
    sound = seen.accepted - seen.poisoned
    failed = sorted(
        f"episode {one.episode_id} ended as {one.stop_reason}"
        for one in _first(records)
        if one.episode_id in sound and one.stop_reason != ANSWERED
    )
    lost = sorted(f"episode {one} did not end" for one in seen.accepted - seen.ended)
    twice = [*_charged_twice(seen), *_done_twice(seen)]
    missing = sorted(f"episode {one} is not on the stream" for one in seen.ended - records.keys())
    blocked = [f"{seen.blocked_starts} starts were not accepted"] if seen.blocked_starts else []
    others = [
        *blocked,
        *_doubled_records(records),
        *_wrong_lessons(seen, records),
        *_effects_missing(seen, records),
        *_orders_forgotten(seen, records),
        *_wrong_amounts(seen, records),
        *_unbilled(seen),
        *(f"the hold {key} is open" for key in seen.open_holds),
    ]
    return Verdict(
        accepted=len(seen.accepted),
        finished=len(seen.ended) - len(failed),
        failed=len(failed),
        lost=len(lost),
        charged_twice=len(twice),
        missing_on_stream=len(missing),
        violations=[*failed, *lost, *twice, *missing, *others],
        unknown_effects=sum(
            call.failure == UNKNOWN_EFFECT for one in _first(records) for call in one.calls
        ),
        repeats=_repeats(seen),
        answering_tools=frozenset(
            call.tool for one in _first(records) for call in one.calls if not call.failure
        ),
    )


def _records_by_episode(seen: Observed) -> dict[str, list[Record]]:
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for one in seen.records:
        if one.episode_id in seen.accepted:
            found[one.episode_id].append(one)
    return dict(found)


def _first(records: dict[str, list[Record]]) -> list[Record]:
    return [each[0] for each in records.values()]


def _charged_twice(seen: Observed) -> list[str]:
    """Finds charges with one key of a call, or one id of a provider's reply."""
    keys = Counter(one.key for one in seen.charges)
    replies = Counter(one.request_id for one in seen.charges if one.request_id)
    return [
        *(f"the call {key} is charged {count} times" for key, count in _many(keys)),
        *(f"the reply {reply} is charged {count} times" for reply, count in _many(replies)),
    ]


def _done_twice(seen: Observed) -> list[str]:
    done = Counter(order for order in seen.effects if order in seen.orders)
    return [f"the order {order} is placed {count} times" for order, count in _many(done)]


def _many(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted((name, count) for name, count in counts.items() if count > 1)


def _doubled_records(records: dict[str, list[Record]]) -> list[str]:
    """A record may be delivered twice, under the same id; an episode has one."""
    return [
        f"episode {episode_id} is on the stream as {len(ids)} records"
        for episode_id, each in records.items()
        if len(ids := {one.record_id for one in each}) > 1
    ]


def _wrong_lessons(seen: Observed, records: dict[str, list[Record]]) -> list[str]:
    """A fault of the platform must be no tool's answer: a model would learn from it."""
    return [
        f"the call {call.key} of {call.tool} was answered with {call.failure}: {call.message}"
        for one in _first(records)
        if one.episode_id not in seen.poisoned
        for call in one.calls
        if call.failure and call.failure != UNKNOWN_EFFECT and call.tool not in seen.excused
    ]


def _effects_missing(seen: Observed, records: dict[str, list[Record]]) -> list[str]:
    done = set(seen.effects)
    return [
        f"the order {call.order} is answered and was not placed"
        for one in _first(records)
        for call in one.calls
        if call.order and not call.failure and call.order not in done
    ]


def _orders_forgotten(seen: Observed, records: dict[str, list[Record]]) -> list[str]:
    """A process that ended well did what was to be done: else nothing was tried."""
    asked = {call.order for one in _first(records) for call in one.calls}
    due = {
        order
        for order, episode_id in seen.orders.items()
        if (found := records.get(episode_id)) and found[0].stop_reason == ANSWERED
    }
    return [f"the order {one} is due, and no call asks for it" for one in sorted(due - asked)]


def _wrong_amounts(seen: Observed, records: dict[str, list[Record]]) -> list[str]:
    posted: defaultdict[str, Decimal] = defaultdict(Decimal)
    for charge in seen.charges:
        posted[charge.episode_id] += charge.amount
    found = []
    for one in _first(records):
        if one.cost != posted[one.episode_id]:
            found.append(
                f"episode {one.episode_id} costs {one.cost} on the stream and "
                f"{posted[one.episode_id]} in the ledger"
            )
    for episode_id, amount in seen.reported.items():
        if amount != posted[episode_id]:
            found.append(
                f"episode {episode_id} reports {amount}, the ledger has {posted[episode_id]}"
            )
    return found


def _unbilled(seen: Observed) -> list[str]:
    """Ledger against the provider's own log: the same replies, tokens and amounts."""
    bills = {one.request_id: one for one in seen.bills}
    charged = {one.request_id: one for one in seen.charges if one.request_id}
    found = [
        problem
        for request_id, charge in charged.items()
        if (problem := _difference(charge, bills.get(request_id), seen))
    ]
    owed = {one.request_id for one in seen.bills if one.episode_id in seen.ended - seen.poisoned}
    found += [f"the reply {one} is billed and not charged" for one in sorted(owed - charged.keys())]
    return found


def _difference(charge: Charge, bill: object, seen: Observed) -> str:
    if charge.episode_id in seen.poisoned:
        return ""
    tokens = getattr(bill, "tokens", None)
    if tokens is None:
        return f"the reply {charge.request_id} of {charge.key} is charged and not billed"
    if tokens != charge.tokens or charge.amount != sum(tokens) * PRICE_OF_A_TOKEN:
        return f"{charge.key} is charged {charge.amount} for {charge.tokens}, and billed {tokens}"
    return ""


def _repeats(seen: Observed) -> int:
    charged = {one.request_id for one in seen.charges}
    return sum(not one.key and one.request_id not in charged for one in seen.bills)


def merged(verdicts: Iterable[Verdict]) -> Verdict:
    each = list(verdicts)
    return Verdict(
        accepted=sum(one.accepted for one in each),
        finished=sum(one.finished for one in each),
        failed=sum(one.failed for one in each),
        lost=sum(one.lost for one in each),
        charged_twice=sum(one.charged_twice for one in each),
        missing_on_stream=sum(one.missing_on_stream for one in each),
        violations=[line for one in each for line in one.violations],
        unknown_effects=sum(one.unknown_effects for one in each),
        repeats=sum(one.repeats for one in each),
        answering_tools=frozenset().union(*(one.answering_tools for one in each)),
    )
