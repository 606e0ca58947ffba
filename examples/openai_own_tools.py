"""OpenAI's client with functions of its own, without any framework.

pip install openai
python openai_own_tools.py "How warm is it in Oslo?"
"""

import json
import os
import sys

from openai import OpenAI


def get_weather(city: str) -> str:
    return {"Oslo": "-3 degrees"}.get(city, "we have no station there")


TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather now at our own stations.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}

url, key = os.environ.get("PODIUM_URL"), os.environ.get("PODIUM_API_KEY")
if not url or not key:
    sys.exit("set PODIUM_URL and PODIUM_API_KEY; `podium up` prints both")
client = OpenAI(base_url=f"{url}/v1", api_key=key)
question = " ".join(sys.argv[1:]) or "How warm is it in Oslo?"
messages = [{"role": "user", "content": question}]
while True:
    # One durable episode: each request that brings results continues it. The platform's tools are
    # offered beside these; "required" has one of these called first.
    reply = client.chat.completions.create(
        model="podium", messages=messages, tools=[TOOL], tool_choice="required"
    )
    message = reply.choices[0].message
    if not message.tool_calls:
        break
    messages.append(message)
    for call in message.tool_calls:
        result = get_weather(**json.loads(call.function.arguments))
        print(f"{call.function.name}({call.function.arguments}) -> {result}")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
print(message.content)
print(f"episode {reply.podium['episode_id']} cost {reply.podium['cost']}")
