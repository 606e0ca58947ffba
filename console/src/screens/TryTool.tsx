import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Form } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { uuid7 } from "../api/ids";
import { useMay } from "../app/session";
import { duration, milliseconds, name, pretty } from "../format";
import { Guardrails } from "../ui/Guardrails";
import { Code, Cost, Facts, Popup } from "../ui/parts";
import { words } from "../words/en";
import { argumentsOf, SchemaFields, type Schema, type Written } from "./SchemaFields";

const w = words.tools;

type Spec = Schemas["ToolSpec"];

/** The schema of what a call takes: models are chosen, and asked by a prompt. */
function schemaOf(spec: Spec): Schema {
  const schema: Schema = JSON.parse(spec.parameters_json_schema || "{}");
  const models = (spec.connection?.llm?.models ?? []).map((each) => each.alias);
  if (models.length === 0) return schema;
  return {
    properties: { ...schema.properties, prompt: { type: "string" }, ...(models.length > 1 && { model: { enum: models } }) },
    required: [...(schema.required ?? []), "prompt", ...(models.length > 1 ? ["model"] : [])],
  };
}

async function call(spec: Spec, given: Record<string, unknown>): Promise<Schemas["DirectCall"]> {
  const call_id = uuid7();
  await write("POST", "/v1/direct-calls", {
    call_id,
    spec: { tool_name: spec.name, arguments_json: JSON.stringify(given) },
  });
  while (true) {
    const { call: now } = await get<Schemas["GetDirectCallResponse"]>(`/v1/direct-calls/${call_id}`, { wait: true });
    if (now!.ended) return now!;
  }
}

/** Calls a tool by hand: under the caller's default policy, held and charged as any call. */
export function TryTool({ spec }: { spec: Spec }) {
  const mayCall = useMay("StartDirectCallRest");
  const schema = schemaOf(spec);
  const [written, setWritten] = useState<Written>({});
  const [asking, setAsking] = useState(false);
  const run = useMutation({ mutationFn: () => call(spec, argumentsOf(schema, written)) });
  if (!mayCall) return <p className="notice">{w.tryScope}</p>;
  if (spec.kind === "TOOL_KIND_PODIUM") return <p className="muted">{w.tryEpisode}</p>;
  const effectful = spec.side_effect === "SIDE_EFFECT_EFFECTFUL";
  return (
    <>
      <p className="muted small">{w.tryHint}</p>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          if (effectful) setAsking(true);
          else run.mutate();
        }}
      >
        <SchemaFields schema={schema} written={written} onChange={setWritten} />
        <div className="actions">
          <Button type="submit" className="primary" isDisabled={run.isPending}>{run.isPending ? w.calling : w.call}</Button>
        </div>
      </Form>
      {asking && (
        <Popup title={w.sure(spec.name)} open onClose={() => setAsking(false)}>
          <p>{w.effect}</p>
          <Code text={JSON.stringify(written, null, 2)} label={words.episode.arguments} />
          <div className="actions">
            <Button
              className="primary"
              onPress={() => {
                setAsking(false);
                run.mutate();
              }}
            >
              {w.callIt}
            </Button>
            <Button onPress={() => setAsking(false)}>{words.cancel}</Button>
          </div>
        </Popup>
      )}
      {run.error && <p className="error" role="alert">{run.error.message}</p>}
      {run.data && <Answer call={run.data} />}
    </>
  );
}

function Answer({ call }: { call: Schemas["DirectCall"] }) {
  return (
    <section role="status" aria-label={words.episode.gave}>
      <h3>{words.episode.gave}</h3>
      {call.failure && <p className="error">{name(call.failure.kind, "FAILURE_KIND_")}: {call.failure.message}</p>}
      {call.content && <Code text={pretty(call.content)} label={words.episode.gave} />}
      <Guardrails decisions={call.guardrails} />
      <Facts
        facts={[
          [words.episode.cost, <Cost key="cost" value={call.cost} unknownCalls={call.cost ? 0 : 1} />],
          [words.episodes.columns.time, duration(milliseconds(call.latency))],
          [words.episode.policy, `${call.policy_name}@${call.policy_version}`],
          ...(call.model_alias ? [[words.episodes.model, call.model_alias] as const] : []),
          [w.ledgerKey, <code key="key">{call.ledger_key}</code>],
        ]}
      />
    </section>
  );
}
