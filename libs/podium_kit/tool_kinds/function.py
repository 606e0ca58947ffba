from podium_kit.tool_kinds.kind import ToolKind, whole

FUNCTION = ToolKind(
    "function",
    "the [bundled functions]",
    public=whole,
    resource=lambda connection: ("function", connection.function.function),
    priced_by_operator=True,
)
