import asyncio

from dbos import DBOS
from measured import DSN, MODEL, calculate, measure

DBOS(config={"name": "bench", "system_database_url": DSN, "log_level": "ERROR"})


@DBOS.step()
async def ask(episode: str, turn: int, messages: list[str]) -> dict:
    return await MODEL.ask(episode, turn, messages)


@DBOS.step()
async def call(expression: str) -> str:
    return calculate(expression)


@DBOS.workflow()
async def run(episode: str) -> str:
    messages, turn = ["what is 6 x 7?"], 1
    while "answer" not in (action := await ask(episode, turn, messages)):
        expression = action["arguments"]["expression"]
        messages.append(f"calculator {expression} -> {await call(expression)}")
        turn += 1
    return action["answer"]


async def main() -> None:
    DBOS.launch()
    await measure(run)
    DBOS.destroy()


asyncio.run(main())
