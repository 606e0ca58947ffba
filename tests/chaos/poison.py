from openai_server import Reply

# By name, as a task asks for them: "poison: usage".
REPLIES = {
    # 5 of 5 episodes never ended.
    "usage": Reply('{"answer": "x"}', usage={"prompt_tokens": 10**17, "completion_tokens": 1}),
    "negative-usage": Reply('{"answer": "x"}', usage={"prompt_tokens": -5, "completion_tokens": 1}),
    "text-usage": Reply('{"answer": "x"}', usage={"prompt_tokens": "many"}),
    "no-json": Reply(raw_body=b"<html>I am a teapot", headers={"content-type": "text/html"}),
    "half": Reply(raw_body=b'{"choices": [{"message"', headers={"content-type": "text/html"}),
    "no-choices": Reply(raw_body=b'{"id": "x", "choices": []}'),
    "nul": Reply('{"answer": "a\\u0000b"}'),
    "surrogate": Reply('{"answer": "\\ud800"}'),
    "deep": Reply("[" * 5_000),
    "huge": Reply('{"answer": "' + "x" * 2_000_000 + '"}'),
}


def poisoned(name: str) -> Reply:
    return REPLIES[name]
