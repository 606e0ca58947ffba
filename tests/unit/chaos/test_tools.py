from chaos.scripts import searching_task, steps_of, working_task
from chaos.tools import KINDS, ORDER_TOOLS, unanswered_kinds
from podium.registry.v1 import tool_pb2

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
