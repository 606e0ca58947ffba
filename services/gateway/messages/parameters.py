"""Parameters of Anthropic's Messages."""

from gateway.parameters import ApiParameters, honoured, ignored, rejected

MESSAGES = ApiParameters(
    (
        honoured("model", words="as above"),
        honoured(
            "messages",
            "system",
            words="blocks of type text, tool_use, tool_result and thinking; the last is not read."
            " image and document of the user, with a source of type base64, are as images and files"
            " above; results of tools are text",
        ),
        honoured(
            "tools",
            "tool_choice",
            words="custom tools, which the client runs; Anthropic's own are rejected",
        ),
        honoured("max_tokens", words="as above"),
        honoured("temperature", "top_p", words="of every turn's completion"),
        honoured("stop_sequences", words="as `stop` above, up to 64"),
        honoured("stream", words="the answer or the calls"),
        honoured("podium", words="what Anthropic's parameters cannot say"),
        ignored(
            "betas",
            "container",
            "context_management",
            "metadata",
            "service_tier",
            "thinking",
            "top_k",
            words="ask for nothing in the answer",
        ),
        rejected(
            "mcp_servers", words="register them with POST /v1/followed-mcp-servers", neutral=([],)
        ),
    )
)
