import asyncio
import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from measured import DSN, MODEL, calculate, measure
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool


class State(TypedDict):
    episode: str
    turn: int
    messages: Annotated[list[str], operator.add]
    call: str
    answer: str


async def model(state: State) -> dict:
    turn = state["turn"] + 1
    action = await MODEL.ask(state["episode"], turn, state["messages"])
    if "answer" in action:
        return {"turn": turn, "answer": action["answer"]}
    return {"turn": turn, "call": action["arguments"]["expression"]}


async def tool(state: State) -> dict:
    return {"messages": [f"calculator {state['call']} -> {calculate(state['call'])}"], "call": ""}


def build() -> StateGraph:
    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tool" if state["call"] else END)
    graph.add_edge("tool", "model")
    return graph


async def main() -> None:
    if not DSN:
        await run(build().compile())
        return
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(DSN, min_size=8, max_size=32, kwargs=options) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        await run(build().compile(checkpointer=saver))


async def run(graph: CompiledStateGraph) -> None:
    async def episode(name: str) -> str:
        begun = {"episode": name, "turn": 0, "messages": ["what is 6 x 7?"], "call": ""}
        ended = await graph.ainvoke(begun, {"configurable": {"thread_id": name}})
        return ended["answer"]

    await measure(episode)


asyncio.run(main())
