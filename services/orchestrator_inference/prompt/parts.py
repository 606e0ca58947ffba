from decimal import Decimal

from orchestrator_inference.models import Action, Observation, Situation
from orchestrator_inference.prompt.worth import worth_line
from podium_kit.money import Money

ONE_CALL = '{"tool": name, "arguments": {...}}'
SEVERAL_CALLS = '{"calls": [{"tool": name, "arguments": {...}}, ...]}'
MUST_ANSWER = 'This is the last turn: give the final answer now, as {"answer": text}.'
# Stands for a listing where all that is around one is measured.
NO_LINES = "-"
TOOLS = "Tools, as name(arguments) [price, p50-p90 latency, success, weight]: use"
ANSWER_SCHEMA = "The answer is JSON that fits this schema, and nothing else: "
CHOOSE = "Choose the next tool to call, or give the final answer if it is known."


def system_line(listing: str, calls_max: int) -> str:
    """Returns the model's role, its reply format and its tools: the same on every turn, so that
    engines find it in their prefix cache.
    """
    one = f"To call a tool: {ONE_CALL}"
    several = f"To call at most {calls_max} independent tools: {SEVERAL_CALLS}"
    lines = ["You are good at using tools. Reply with one JSON object."]
    if listing:
        lines += [one if calls_max == 1 else several, 'To finish: {"answer": text}']
        lines += [TOOLS, listing]
    else:
        lines.append('Reply with {"answer": text}.')
    return "\n".join(lines)


def problem(situation: Situation) -> str:
    return f"{situation.task}\n\n{situation.instruction}".strip()


def wanted(situation: Situation, answer_now: str) -> str:
    rules = situation.rules
    if rules.must_call:
        return f"Call {' or '.join(rules.must_call)} now."
    if rules.must_answer and rules.answering:
        answering = " or ".join(rules.answering)
        answer_now = f"This is the last turn: call {answering} now, or give the final answer."
    chosen = CHOOSE if situation.tools and not rules.must_answer else answer_now
    return f"{chosen} {ANSWER_SCHEMA}{rules.answer_schema}" if rules.answer_schema else chosen


def request_line(situation: Situation, order: str) -> str:
    return "\n".join(line for line in (preference_line(situation), order) if line)


def preference_line(situation: Situation) -> str:
    """Returns for example `Weights: outcome 1, cost 0.4, latency 0.4, small 0.9. Left: $0.5, 110
    s.`, then the worth of a right answer by each way.
    """
    sentences = []
    if (weights := situation.preferences) is not None:
        liked = [
            f", {each.model_alias or tool.name} {each.weight:g}"
            for tool in situation.tools
            for each in tool.estimates
            if each.weight
        ]
        sentences += [
            f"Weights: outcome {weights.outcome:g}, cost {weights.compute:g},"
            f" latency {weights.latency:g}{''.join(liked)}."
        ]
    money, seconds = situation.left.money, situation.left.seconds
    left = [_money(money)] if money is not None else []
    left += [f"{_short(Decimal(seconds))} s"] if seconds is not None else []
    sentences += [f"Left: {', '.join(left)}."] if left else []
    sentences += (
        [worth] if weights is not None and (worth := worth_line(situation.tools, weights)) else []
    )
    return " ".join(sentences)


def _money(money: Money) -> str:
    amount = _short(money.amount)
    return f"${amount}" if money.currency_code == "USD" else f"{amount} {money.currency_code}"


def _short(amount: Decimal) -> str:
    return f"{Decimal(f'{amount:.1e}').normalize():f}" if amount > 0 else "0"


def call_text(observation: Observation) -> str:
    return f"{observation.call.tool_name} {observation.call.arguments_json}"


def outcome_text(observation: Observation) -> str:
    """Returns the result of a call: its content, or an error that cannot be taken for content."""
    if observation.failure is None:
        return observation.content
    return f"error ({observation.failure.kind.value}): {observation.failure.message}"


def malformed_text(action: Action) -> str:
    if action.malformed is None:
        return ""
    return f"error ({action.malformed.kind.value}): {action.malformed.message}"
