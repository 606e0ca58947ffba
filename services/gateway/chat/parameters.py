from gateway.parameters import WHILE_WRITTEN, ApiParameters, honoured, ignored, rejected

CHAT = ApiParameters(
    (
        honoured(
            "model",
            words="`podium`, or one of `/v1/models`; a policy follows after a colon",
        ),
        honoured(
            "messages",
            words="roles system, developer, user, assistant and tool; parts of type text, and of"
            " the user image_url and file: images and PDF files as data: URLs, for models that take"
            " them. `detail` is ignored; audio is a 400 that names the part",
        ),
        honoured(
            "tools",
            "tool_choice",
            words="functions and custom tools that the client runs; others are not offered. A"
            " custom tool's text is held to no grammar",
        ),
        honoured(
            "parallel_tool_calls",
            words="false: one call in a turn. Else as many as `podium.parallel_calls`, the policy,"
            " the model and the operator allow",
        ),
        honoured("response_format", words="text, json_object, json_schema"),
        honoured("stream", words=f"turns as `reasoning_content`, {WHILE_WRITTEN}, or the calls"),
        honoured("stream_options", words="`include_usage`; what else it has is ignored"),
        honoured("temperature", "top_p", words="of every turn's completion"),
        honoured("seed", words="of every turn's completion; the choice's index is added to it"),
        honoured(
            "max_tokens",
            "max_completion_tokens",
            words="most tokens that the orchestrator and llm tools together write for the request:"
            " `finish_reason` is length when they are used up. With functions of the client, each"
            " of an episode's requests has as many as its first",
        ),
        honoured(
            "stop",
            words="a text or up to 4; the answer is cut before the first of them. The model had"
            " written on, and `usage` counts that",
        ),
        honoured(
            "n",
            words="1 to 8 episodes of one request, which share `podium.budget_usd` equally; choices"
            " without an answer are left out, unless none has one; when one cannot start, those"
            " before it are cancelled, but with an `Idempotency-Key` the same request finds them",
        ),
        honoured("metadata", words="labels of the episode"),
        honoured("podium", words="what OpenAI's parameters cannot say"),
        ignored(
            "reasoning_effort",
            "verbosity",
            words="orchestrators are trained for one; choose a model or a policy",
        ),
        ignored(
            "user",
            "store",
            "service_tier",
            "safety_identifier",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            words="ask for nothing in the answer",
        ),
        honoured(
            "logprobs",
            "top_logprobs",
            words="of `tool/NAME`, at the end of a stream; of an orchestrator a 400:"
            " GET /v1/episodes/{id}/trajectory has those of its actions",
        ),
        rejected("functions", words="send tools instead", neutral=([],)),
        rejected("function_call", words="send tool_choice instead", neutral=("none", "auto")),
        rejected(
            "presence_penalty",
            "frequency_penalty",
            words="engines sample under a grammar; leave it out",
            neutral=(0,),
        ),
        rejected("logit_bias", words="leave it out", neutral=({},)),
        rejected("modalities", words="answers are text; leave it out", neutral=(["text"],)),
        rejected("audio", "prediction", words="leave it out"),
        rejected("moderation", words="nothing is moderated here; leave it out"),
        rejected("web_search_options", words="register a search tool with POST /v1/tools instead"),
    )
)
