from podium_kit.tool_kinds.kind import ToolKind

GRPC = ToolKind("grpc", "a unary method")
