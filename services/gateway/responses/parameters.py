from gateway.parameters import WHILE_WRITTEN, ApiParameters, honoured, ignored, rejected

RESPONSES = ApiParameters(
    (
        honoured("model", words="as above"),
        honoured(
            "input",
            words="text, or items of type message, function_call, function_call_output,"
            " custom_tool_call, custom_tool_call_output, mcp_list_tools, mcp_call and reasoning;"
            " the last is not read, and neither are calls of hosted tools. Parts of type"
            " input_image and input_file as above",
        ),
        honoured("instructions", "previous_response_id", words="what stands before the input"),
        honoured(
            "tools",
            "tool_choice",
            words="functions and custom tools that the client runs, and MCP servers whose tools are"
            " registered; others are not offered. A custom tool's text is held to no grammar",
        ),
        honoured("parallel_tool_calls", words="as above"),
        honoured("text", words="`format`: text, json_object, json_schema"),
        honoured("stream", "background", words=f"not both; a stream has {WHILE_WRITTEN}"),
        honoured("temperature", "top_p", "max_output_tokens", "metadata", words="as above"),
        honoured("podium", words="what OpenAI's parameters cannot say"),
        ignored("store", words="every response is kept, as episodes are"),
        ignored(
            "access_programs",
            "background_options",
            "client_metadata",
            "context_management",
            "include",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning",
            "safety_identifier",
            "service_tier",
            "stream_options",
            "user",
            words="ask for nothing in the answer",
        ),
        rejected("truncation", words="leave it out", neutral=("disabled", "auto")),
        rejected("top_logprobs", words="as above", neutral=(0,)),
        rejected("conversation", words="send previous_response_id instead"),
        rejected("prompt", words="send input instead"),
        rejected("image", words="answers are text; leave it out"),
        rejected("moderation", words="nothing is moderated here; leave it out"),
        rejected("max_tool_calls", words="send podium.turn_limit instead"),
    )
)
