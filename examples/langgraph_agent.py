"""A LangGraph agent whose model is Podium: it calls its own tool here, and Podium's tools there.

pip install langchain langchain-openai
python langgraph_agent.py "How warm is it in Oslo?"
"""

import os
import sys

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def get_weather(city: str) -> str:
    """The weather now at our own stations."""
    return {"Oslo": "-3 degrees"}.get(city, "we have no station there")


url, key = os.environ.get("PODIUM_URL"), os.environ.get("PODIUM_API_KEY")
if not url or not key:
    sys.exit("set PODIUM_URL and PODIUM_API_KEY; `podium up` prints both")
model = ChatOpenAI(
    model="podium:balanced",
    base_url=f"{url}/v1",
    api_key=key,
    # What Podium itself may use, and what it may cost.
    extra_body={"podium": {"tools": ["calculator", "country_facts"], "budget_usd": "0.05"}},
)
agent = create_agent(model, tools=[get_weather])
question = " ".join(sys.argv[1:]) or "How warm is it in Oslo?"
for step in agent.stream({"messages": [("user", question)]}, stream_mode="values"):
    step["messages"][-1].pretty_print()
