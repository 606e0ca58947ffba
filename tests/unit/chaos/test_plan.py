from itertools import islice

import pytest

from chaos.plan import ROUNDS, Fault, Round, UnknownRound, left_out, planned, random_rounds
from chaos.scripts import (
    KINDS,
    ORDER_TOOLS,
    searching_task,
    steps_of,
    unanswered_kinds,
    working_task,
)
from chaos.victims import VICTIMS
from podium.registry.v1 import tool_pb2


def test_the_same_seed_plans_the_same_rounds_and_another_seed_others() -> None:
    assert planned(7) == planned(7)
    assert planned(7) != planned(8)
    assert list(islice(random_rounds(7), 50)) == list(islice(random_rounds(7), 50))


def test_a_whole_run_makes_every_round_once() -> None:
    assert sorted(map(str, planned(1))) == sorted(map(str, ROUNDS))


def test_a_run_is_narrowed_by_victim_by_fault_and_by_both() -> None:
    assert {one.victim for one in planned(1, only=["postgres"])} == {"postgres"}
    assert {one.fault for one in planned(1, only=["stall"])} == {Fault.STALL}
    assert planned(1, only=["kafka:kill"]) == [Round("kafka", Fault.KILL)]
    assert len(planned(1, count=3)) == 3


def test_what_is_no_round_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownRound, match="gateway:kill"):
        planned(1, only=["gatewya"])


def test_every_pair_of_victim_and_fault_is_a_round_or_has_a_reason() -> None:
    reasons = left_out()
    pairs = {Round(victim, fault) for victim in VICTIMS for fault in Fault}
    assert pairs <= {*ROUNDS, *reasons}
    assert not set(ROUNDS) & set(reasons)
    assert all(reasons.values())


TASKS = (working_task("1-a"), searching_task("1-b"))


def called() -> list[str]:
    steps = [step for each in TASKS for step in steps_of(each.text)]
    return [call["tool"] for step in steps for call in step["calls"]]


def test_the_load_calls_a_tool_of_every_kind() -> None:
    assert {KINDS[name] for name in called()} == {*tool_pb2.ToolKind.values()} - {0}
    assert unanswered_kinds(called()) == []


def test_a_kind_that_never_answered_is_named() -> None:
    answering = [name for name in called() if KINDS[name] != tool_pb2.TOOL_KIND_PODIUM]
    assert unanswered_kinds(answering) == ["no call of a tool of kind podium was answered"]


def test_every_way_to_place_an_order_is_tried_and_each_order_is_another() -> None:
    orders = working_task("1-a").orders
    assert set(called()) >= ORDER_TOOLS
    assert len(set(orders)) == len(orders)


def test_a_callers_prompt_has_its_childs_task_and_follows_its_own() -> None:
    own = steps_of(TASKS[0].text)
    [task] = [
        call["arguments"]["task"]
        for step in own
        for call in step["calls"]
        if KINDS[call["tool"]] == tool_pb2.TOOL_KIND_PODIUM
    ]
    assert steps_of(f"{task} {TASKS[0].text}") == own
    [[order]] = [step["calls"] for step in steps_of(task)]
    assert order["arguments"]["order"] in TASKS[0].orders
