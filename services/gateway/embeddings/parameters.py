from gateway.parameters import ApiParameters, honoured, ignored

EMBEDDINGS = ApiParameters(
    (
        honoured("model", words="`tool/NAME` or `tool/NAME/ALIAS` of a tool of the role embedder"),
        honoured("input", words="a text, or a list of at most 2,048; tokens are a 400"),
        honoured("encoding_format", words="float, base64"),
        honoured("dimensions", words="where the model takes it"),
        honoured("podium", words="`policy`, `budget_usd`, `labels`"),
        ignored("user", words="asks for nothing in the answer"),
    )
)
