from typing import Any

import pytest

from podium_kit.models.chat_parameters import USUAL, ChatParameters

BODY = {"model": "m", "max_tokens": 9, "temperature": 0.2, "top_p": 0.9, "stream": True}
BODY |= {"stream_options": {"include_usage": True}}


def openai(message: str, param: str | None, code: str | None = None) -> dict[str, Any]:
    return {
        "error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    }


UNSUPPORTED_CAP = openai(
    "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead.",
    "max_tokens",
    "unsupported_parameter",
)
EXTRA = "Extra inputs are not permitted"
ONLY_DEFAULT = "Unsupported value: 'temperature' does not support 0.1 with this model."
ONLY_DEFAULT += " Only the default (1) value is supported."
VERIFY = "Your organization must be verified to stream this model."


def extra(name: str) -> dict[str, Any]:
    return {"type": "extra_forbidden", "loc": ["body", name], "msg": EXTRA, "input": 1}


@pytest.mark.parametrize(
    ("status", "fault", "gone"),
    [
        (400, openai(ONLY_DEFAULT, "temperature", "unsupported_value"), {"temperature"}),
        (400, openai("Unsupported parameter: 'top_p'", "top_p"), {"top_p"}),
        (400, openai(VERIFY, "stream", "unsupported_value"), {"stream", "stream_options"}),
        (
            400,
            {"error": {"message": "`temperature` is deprecated for this model."}},
            {"temperature"},
        ),
        (
            400,
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "`temperature` and `top_p` cannot both be specified for this model.",
                },
            },
            {"top_p"},
        ),
        (
            422,
            {"object": "error", "message": {"detail": [extra("stream_options")]}, "code": None},
            {"stream_options"},
        ),
        (422, {"detail": [extra("top_p"), extra("temperature")]}, {"top_p"}),
        (
            400,
            [{"error": {"message": 'Unknown name "top_p": Cannot find field.', "status": "X"}}],
            {"top_p"},
        ),
    ],
)
def test_a_parameter_that_is_not_known_is_left_out(status: int, fault: Any, gone: set[str]) -> None:
    """Public report 1."""
    learnt = USUAL.learnt(status, fault)
    assert BODY.keys() - learnt.fitted(BODY).keys() == gone


@pytest.mark.parametrize(
    "fault",
    [
        {"type": "error", "error": {"message": f"tools.0.custom.strict: {EXTRA}"}},
        openai("Unknown parameter", "tools[0].function.strict", "unknown_parameter"),
        {"detail": [{**extra("strict"), "loc": ["body", "tools", 0, "function", "strict"]}]},
    ],
)
def test_a_model_without_strict_tools_is_asked_without_them(fault: Any) -> None:
    learnt = USUAL.learnt(400, fault)
    schema: dict[str, Any] = {"properties": {"strict": {}}}

    def body(**strict: bool) -> dict[str, Any]:
        function = {"name": "f", "parameters": schema, **strict}
        beside_name = {"name": "f", "input_schema": schema, **strict}
        return {"tools": [beside_name, {"type": "function", "function": function}]}

    assert learnt.fitted(body(strict=True)) == body()
    assert USUAL.fitted(body(strict=True)) == body(strict=True)
    for odd in ({"tools": 5}, {"tools": ["f", {"function": "f"}]}):
        assert learnt.fitted(odd) == odd


def test_the_limit_of_output_has_the_name_that_the_model_knows() -> None:
    """Public report 1."""
    learnt = USUAL.learnt(400, UNSUPPORTED_CAP)
    assert learnt.fitted({"max_tokens": 9}) == {"max_completion_tokens": 9}
    # A server that knows neither name rejects something else.
    assert learnt.learnt(400, UNSUPPORTED_CAP) == learnt
    other = ChatParameters(cap="max_completion_tokens", caps_tried=frozenset())
    assert other.learnt(422, {"detail": [extra("max_completion_tokens")]}).cap == "max_tokens"


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (400, openai("max_tokens is too large: 99999. This model supports at most 16384.", None)),
        (400, openai("'temperature' must be at most 2", "temperature")),
        (400, openai("the prompt is too long", None)),
        (400, {"error": "Unknown model m"}),
        (400, openai("'oneOf' is not permitted in strict mode", "tools[0].function.parameters")),
        (429, UNSUPPORTED_CAP),
        (400, "no object"),
        (400, None),
        (400, {"error": {"param": 7, "loc": {}}}),
    ],
)
def test_other_rejections_teach_nothing(status: int, fault: Any) -> None:
    assert USUAL.learnt(status, fault) == USUAL
