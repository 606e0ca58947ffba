from gateway.parameters import WHILE_WRITTEN, ApiParameters, honoured, ignored, rejected

MESSAGES = ApiParameters(
    (
        honoured("model", words="as above"),
        honoured(
            "messages",
            "system",
            words="blocks of type text, tool_use, tool_result and thinking; the last is not read."
            " image and document of the user, with a source of type base64, are as images and files"
            " above; results of tools are text, and what else they hold is named",
        ),
        honoured(
            "tools",
            "tool_choice",
            words="custom tools, which the client runs; Anthropic's own are not offered."
            " `disable_parallel_tool_use` is as `parallel_tool_calls` false above",
        ),
        honoured("max_tokens", words="as above"),
        honoured("temperature", "top_p", words="of every turn's completion"),
        honoured("stop_sequences", words="as `stop` above, up to 64"),
        honoured("stream", words=f"{WHILE_WRITTEN}, or the calls"),
        honoured("output_config", words="`format`: json_schema; `effort` is not read"),
        honoured("podium", words="what Anthropic's parameters cannot say"),
        ignored(
            "betas",
            "billing_policy",
            "cache_control",
            "compaction",
            "container",
            "context_management",
            "diagnostics",
            "fallback_credit_token",
            "fallbacks",
            "metadata",
            "service_tier",
            "speed",
            "thinking",
            "top_k",
            "user_profile_id",
            "workspace_id",
            words="ask for nothing in the answer",
        ),
        rejected(
            "inference_geo", words="a policy says where models run; see docs/concepts/policies.md"
        ),
        rejected("output_format", words="send output_config.format instead"),
        rejected("thread", words="send the messages instead"),
        rejected(
            "mcp_servers", words="register them with POST /v1/followed-mcp-servers", neutral=([],)
        ),
    )
)
