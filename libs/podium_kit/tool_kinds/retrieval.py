from podium_kit.tool_kinds.kind import ToolKind

RETRIEVAL = ToolKind(
    "retrieval",
    "search over a corpus",
    resource=lambda connection: ("corpus", connection.retrieval.corpus),
    result_section="document",
)
