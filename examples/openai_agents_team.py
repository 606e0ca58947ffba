"""OpenAI's Agents SDK: a front desk hands over to an agent that Podium runs with its own tools.

pip install openai-agents
python openai_agents_team.py "What is the capital of Burkina Faso?"
"""

import asyncio
import os
import sys

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI

url, key = os.environ.get("PODIUM_URL"), os.environ.get("PODIUM_API_KEY")
if not url or not key:
    sys.exit("set PODIUM_URL and PODIUM_API_KEY; `podium up` prints both")
client = AsyncOpenAI(base_url=f"{url}/v1", api_key=key)


@function_tool
def get_weather(city: str) -> str:
    """The weather now at our own stations."""
    return {"Oslo": "-3 degrees"}.get(city, "we have no station there")


clerk = Agent(
    name="clerk",
    instructions="Answer in one sentence.",
    model=OpenAIChatCompletionsModel("podium", client),
    tools=[get_weather],
)


async def main() -> None:
    question = " ".join(sys.argv[1:]) or "What is the capital of Burkina Faso?"
    # Closed while there is a loop to close it in.
    async with client:
        running = Runner.run_streamed(clerk, question)
        async for event in running.stream_events():
            if event.type == "run_item_stream_event":
                print(f"- {event.name}")
        print(running.final_output)


asyncio.run(main())
