from dataclasses import replace
from decimal import Decimal

import pytest

from chaos.invariants import checked, merged
from chaos.observations import Bill, Call, Charge, Observed, Record
from chaos.pairs import Fault, Round
from chaos.table import Outcome, table

MODEL_KEY, TOOL_KEY = "e1/1/model/0", "e1/1/tool/0"
TOKENS = (100, 20)
MODEL_COST, TOOL_COST = Decimal("0.000024"), Decimal("0.000001")
MODEL_CHARGE = Charge("e1", MODEL_KEY, MODEL_COST, "chatcmpl-1", TOKENS)
RECORD = Record(
    "e1:1",
    "e1",
    "ANSWERED",
    MODEL_COST + TOOL_COST,
    (Call(TOOL_KEY, "place_order", order="tea"),),
)
BROKEN_CALL = Call("e1/1/tool/1", "python", "UNAVAILABLE")
SOUND = Observed(
    accepted=frozenset({"e1"}),
    ended=frozenset({"e1"}),
    blocked_starts=0,
    orders={"tea": "e1"},
    records=[RECORD],
    charges=[MODEL_CHARGE, Charge("e1", TOOL_KEY, TOOL_COST)],
    bills=[Bill("chatcmpl-1", MODEL_KEY, TOKENS)],
    effects=["tea"],
    reported={"e1": MODEL_COST + TOOL_COST},
)


def violations(**changes: object) -> list[str]:
    return checked(replace(SOUND, **changes)).violations  # type: ignore[arg-type]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    seen = checked(SOUND)
    assert (seen.accepted, seen.finished, seen.violations) == (1, 1, [])


def test_a_record_that_is_delivered_twice_is_one() -> None:
    assert violations(records=[RECORD, RECORD]) == []


def test_a_planted_double_charge_is_found() -> None:
    seen = checked(replace(SOUND, charges=[*SOUND.charges, MODEL_CHARGE]))
    assert seen.charged_twice == 2
    assert f"the call {MODEL_KEY} is charged 2 times" in seen.violations
    assert "the reply chatcmpl-1 is charged 2 times" in seen.violations


def test_a_planted_lost_episode_is_found() -> None:
    seen = checked(replace(SOUND, accepted=frozenset({"e1", "e2"})))
    assert (seen.finished, seen.lost) == (1, 1)
    assert seen.violations == ["episode e2 did not end"]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"records": []}, "not on the stream"),
        ({"records": [RECORD, replace(RECORD, record_id="e1:2")]}, "as 2 records"),
        ({"records": [replace(RECORD, stop_reason="FAILED")]}, "ended as FAILED"),
        ({"records": [replace(RECORD, cost=Decimal("0.00002500000001"))]}, "on the stream and"),
        (
            {"records": [replace(RECORD, calls=(*RECORD.calls, BROKEN_CALL))]},
            "was answered with UNAVAILABLE",
        ),
        ({"effects": ["tea", "tea"]}, "placed 2 times"),
        ({"effects": []}, "was not placed"),
        ({"orders": {"tea": "e1", "milk": "e1"}}, "milk is due, and no call asks"),
        ({"bills": []}, "is charged and not billed"),
        ({"bills": [Bill("chatcmpl-1", MODEL_KEY, (101, 20))]}, "and billed"),
        (
            {"bills": [*SOUND.bills, Bill("chatcmpl-2", "e1/2/model/0", TOKENS)]},
            "is billed and not charged",
        ),
        ({"open_holds": ["e1/9/tool/0"]}, "hold e1/9/tool/0 is open"),
        ({"reported": {"e1": MODEL_COST}}, "reports"),
        ({"blocked_starts": 2}, "2 starts were not accepted"),
    ],
)
def test_every_other_wrong_is_found(changes: dict[str, object], found: str) -> None:
    [only] = violations(**changes)
    assert found in only


def test_an_effect_of_which_nobody_knows_is_counted_and_not_wrong() -> None:
    unknown = replace(RECORD, calls=(Call(TOOL_KEY, "place_order", "CANCELLED", "tea"),))
    seen = checked(replace(SOUND, records=[unknown], effects=[]))
    assert (seen.violations, seen.unknown_effects) == ([], 1)


def test_a_tool_whose_own_server_was_harmed_may_fail() -> None:
    failed = replace(RECORD, calls=(Call(TOOL_KEY, "place_order", "UNAVAILABLE", "tea"),))
    harmed = frozenset({"place_order"})
    assert checked(replace(SOUND, records=[failed], excused=harmed)).violations == []
    assert checked(replace(SOUND, records=[failed])).violations


def test_poison_may_end_as_failed_and_must_end_all_the_same() -> None:
    poison = replace(SOUND, poisoned=frozenset({"e1"}))
    assert checked(replace(poison, records=[replace(RECORD, stop_reason="FAILED")])).failed == 0
    assert checked(replace(poison, ended=frozenset(), records=[])).lost == 1


def test_the_table_has_a_row_for_each_round_and_a_column_for_each_count() -> None:
    bad = checked(replace(SOUND, accepted=frozenset({"e1", "e2"}), open_holds=["e1/9/tool/0"]))
    rows = table(
        [
            Outcome(Round("postgres", Fault.KILL), bad, 3.25),
            Outcome(Round("logs", Fault.DISK_FULL), None, not_possible="no root"),
        ]
    ).splitlines()
    assert rows[2] == "| postgres | kill | 2 | 1 | 0 | 1 | 0 | 0 | 0 | 1 | 3.2 s |"
    assert "not possible: no root" in rows[3]
    assert len({row.count("|") for row in rows}) == 1


def test_the_sum_of_rounds_keeps_every_count_and_every_violation() -> None:
    bad = checked(replace(SOUND, ended=frozenset(), records=[]))
    both = merged([checked(SOUND), bad])
    assert (both.accepted, both.finished, both.lost) == (2, 1, 1)
    assert both.violations == bad.violations
