import type { ClientResult, ClientTool, ToolCall } from "./schema.js";

/** A function that the orchestrator may call; it runs here. */
export interface ClientFunction {
  name: string;
  description: string;
  /** JSON Schema of the arguments, an object; unset: it takes none. */
  parameters?: Record<string, unknown>;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the schema says what comes
  run(args: any): unknown;
}

/** As an episode is told of it. */
export function offered(given: ClientFunction): ClientTool {
  return {
    name: given.name,
    description: given.description,
    parameters_json_schema: given.parameters ? JSON.stringify(given.parameters) : "",
    strict: false,
  };
}

/** Its result. What it throws is told to the orchestrator, which may try something else. */
export async function called(
  functions: readonly ClientFunction[],
  call: ToolCall,
): Promise<ClientResult> {
  const found = functions.find((each) => each.name === call.tool_name);
  const result = { call_index: call.index, content: "", error: "", gives_answer: false };
  if (!found) return { ...result, error: `there is no function ${call.tool_name} here` };
  try {
    const given = await found.run(JSON.parse(call.arguments_json || "{}"));
    const content = typeof given === "string" ? given : JSON.stringify(given ?? null);
    return { ...result, content };
  } catch (error) {
    return { ...result, error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
  }
}
