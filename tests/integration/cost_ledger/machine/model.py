"""A model of a ledger, in memory and in the simplest words: the machine compares with it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

ZERO = Decimal(0)
LIMITS = {"tenant": Decimal("0.04"), "episode": Decimal("0.025"), "hour": Decimal("0.035")}
LIMITED_EPISODE = "e0"


class Answer(StrEnum):
    OK = "OK"
    REJECTED = "REJECTED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    ABORTED = "ABORTED"


@dataclass
class Hold:
    episode: str
    token_price: Decimal
    tokens: int
    dispatched: bool
    expires: float
    # When the budgets began to count it.
    at: float
    state: str = "open"

    @property
    def amount(self) -> Decimal:
        return self.token_price * self.tokens


@dataclass
class Cost:
    episode: str
    amount: Decimal
    at: float
    adjusted: Decimal = ZERO


@dataclass
class Model:
    token_price: Decimal = Decimal("0.00001")
    now: float = 0.0
    holds: dict[str, Hold] = field(default_factory=dict)
    provisional: dict[str, Hold] = field(default_factory=dict)
    costs: dict[str, Cost] = field(default_factory=dict)
    answers: dict[tuple[str, str], tuple[object, Answer]] = field(default_factory=dict)
    limits: dict[str, Decimal] = field(default_factory=LIMITS.copy)
    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LIMITS, 1))
    raises: dict[str, tuple[Decimal, float]] = field(default_factory=dict)

    def reserve(
        self, key: str, episode: str, tokens: int, *, dispatched: bool, seconds: float
    ) -> Answer:
        def decide() -> Answer:
            expires = self.now + seconds
            hold = Hold(episode, self.token_price, tokens, dispatched, expires, self.now)
            if not self._fits(hold):
                return Answer.REJECTED
            self.holds[key] = hold
            return Answer.OK

        return self._once("reserve", key, (episode, tokens, dispatched, seconds), decide)

    def dispatch(self, key: str) -> Answer:
        hold = self.holds.get(key)
        if hold is None:
            return Answer.NOT_FOUND
        if not hold.dispatched and hold.state != "open":
            return Answer.FAILED_PRECONDITION
        hold.dispatched = True
        return Answer.OK

    def capture(self, key: str, tokens: int) -> Answer:
        def decide() -> Answer:
            hold = self.holds.get(key)
            if hold is None:
                return Answer.NOT_FOUND
            if hold.state in ("captured", "released"):
                return Answer.FAILED_PRECONDITION
            self.provisional.pop(key, None)
            hold.state = "captured"
            amount = hold.token_price * tokens
            self.costs[f"capture {key}"] = Cost(hold.episode, amount, hold.at)
            return Answer.OK

        return self._once("capture", key, tokens, decide)

    def release(self, key: str) -> Answer:
        hold = self.holds.get(key)
        if hold is None:
            return Answer.NOT_FOUND
        if hold.state == "captured":
            return Answer.FAILED_PRECONDITION
        self.provisional.pop(key, None)
        hold.state = "released"
        return Answer.OK

    def record(self, key: str, episode: str, tokens: int) -> Answer:
        def decide() -> Answer:
            self.costs[f"record {key}"] = Cost(episode, self.token_price * tokens, self.now)
            return Answer.OK

        return self._once("record", key, (episode, tokens), decide)

    def adjust(self, key: str, cost: str, change: Decimal) -> Answer:
        def decide() -> Answer:
            wrong = self.costs[cost]
            if wrong.amount + wrong.adjusted + change < 0:
                return Answer.FAILED_PRECONDITION
            wrong.adjusted += change
            return Answer.OK

        return self._once("adjust", key, (cost, change), decide)

    def update(self, budget: str, limit: Decimal, version: int) -> Answer:
        """A change made from an older version is rejected, unless it is this one, repeated."""
        current, same = self.versions[budget], limit == self.limits[budget]
        if version not in (0, current) and not (same and version == current - 1):
            return Answer.ABORTED
        if not same:
            self.limits[budget], self.versions[budget] = limit, current + 1
        return Answer.OK

    def raise_limit(self, budget: str, amount: Decimal, seconds: float) -> None:
        """It takes the place of the one before."""
        self.raises[budget] = amount, self.now + seconds
        self.versions[budget] += 1

    def limit(self, budget: str) -> Decimal:
        amount, until = self.raises.get(budget, (ZERO, 0.0))
        return self.limits[budget] + (amount if self.now < until else ZERO)

    def pass_time(self, seconds: float) -> None:
        """Overdue holds end: those whose calls were made as costs, the others as nothing."""
        self.now += seconds
        for key, hold in self.holds.items():
            if hold.state == "open" and hold.expires <= self.now:
                hold.state = "provisional" if hold.dispatched else "released"
                if hold.dispatched:
                    self.provisional[key] = hold

    def posted(self, budget: str) -> Decimal:
        costs = (
            each.amount + each.adjusted
            for each in self.costs.values()
            if self._counts(budget, each)
        )
        guessed = (each.amount for each in self.provisional.values() if self._counts(budget, each))
        return sum(costs, ZERO) + sum(guessed, ZERO)

    def held(self, budget: str) -> Decimal:
        return sum((hold.amount for hold in self._open() if self._counts(budget, hold)), ZERO)

    def _open(self) -> Iterator[Hold]:
        return (hold for hold in self.holds.values() if hold.state == "open")

    def _fits(self, hold: Hold) -> bool:
        return all(
            self.posted(budget) + self.held(budget) + hold.amount <= self.limit(budget)
            for budget in self.limits
            if self._counts(budget, hold)
        )

    def _counts(self, budget: str, call: Hold | Cost) -> bool:
        """The rolling hour forgets whenever time passes: never less than two hours do."""
        match budget:
            case "hour":
                return call.at == self.now
            case "episode":
                return call.episode == LIMITED_EPISODE
        return True

    def _once(
        self, operation: str, key: str, content: object, decide: Callable[[], Answer]
    ) -> Answer:
        """The first answer for ever; a failure is no answer and may be tried again."""
        if (operation, key) in self.answers:
            before, answer = self.answers[operation, key]
            return answer if before == content else Answer.ALREADY_EXISTS
        answer = decide()
        if answer in (Answer.OK, Answer.REJECTED):
            self.answers[operation, key] = (content, answer)
        return answer
