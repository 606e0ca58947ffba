"""Anthropic's client: the same episodes, in the words of the Messages API.

pip install anthropic
python anthropic_messages.py "What is 6 x 7?"
"""

import os
import sys

from anthropic import Anthropic

url, key = os.environ.get("PODIUM_URL"), os.environ.get("PODIUM_API_KEY")
if not url or not key:
    sys.exit("set PODIUM_URL and PODIUM_API_KEY; `podium up` prints both")
client = Anthropic(base_url=url, api_key=key)
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
