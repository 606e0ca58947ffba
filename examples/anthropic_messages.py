"""Anthropic's client: the same episodes, in the words of the Messages API.

pip install anthropic
python anthropic_messages.py "What is 6 x 7?"
"""

import os
import sys

from anthropic import Anthropic

client = Anthropic(base_url=os.environ["PODIUM_URL"], api_key=os.environ["PODIUM_API_KEY"])
question = " ".join(sys.argv[1:]) or "What is 6 x 7?"
with client.messages.stream(
    model="podium:cost-first",
    max_tokens=512,
    messages=[{"role": "user", "content": question}],
    extra_body={"podium": {"tools": ["calculator"], "turn_limit": 8}},
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
message = stream.get_final_message()
print(f"\n{message.usage.input_tokens} tokens in, {message.usage.output_tokens} out")
