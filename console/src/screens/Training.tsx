import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { money, name, withoutUnset } from "../format";
import { Badge, Choice, Facts, Popup, Time } from "../ui/parts";
import { Empty, Failure, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";
import { LiveTest } from "./LiveTest";
import { usePolicies } from "./PolicyEditor";

const w = words.learning;
const SERVING = ["LEARNING_STAGE_PROMOTED", "LEARNING_STAGE_ROLLED_BACK"];
const ENDS = [...SERVING, "LEARNING_STAGE_KEPT"];

type Policy = Schemas["Policy"];
type Step = Schemas["LearningStep"];

/** What is learnt from the users of a policy: its cycles, the canary that runs, and the ways to stop it. */
export default function Training() {
  const search = useSearch({ strict: false }) as { policy?: string };
  const navigate = useNavigate();
  const policies = usePolicies();
  return (
    <Page title={w.title}>
      <Loading query={policies}>
        {({ policies: all }) => {
          const learning = all.filter((each) => each.spec!.training_consent || each.model);
          const chosen = all.find((each) => each.spec!.name === search.policy) ?? learning[0];
          if (!chosen) return <Empty title={w.empty} hint={w.emptyHint} />;
          const options = Object.fromEntries([...new Set([chosen, ...learning])].map((each) => [each.spec!.name, each.spec!.name]));
          return (
            <>
              <div className="filters">
                <Choice label={w.policy} value={chosen.spec!.name} options={options} onChange={(policy) => void navigate({ to: "/training", search: { policy } })} />
              </div>
              <Learning key={chosen.spec!.name} policy={chosen} />
            </>
          );
        }}
      </Loading>
    </Page>
  );
}

function Learning({ policy }: { policy: Policy }) {
  const spec = policy.spec!;
  const steps = useQuery({
    queryKey: ["learning-steps", spec.name],
    queryFn: () => get<Schemas["ListLearningStepsResponse"]>("/v1/learning-steps", { policy: spec.name, page_size: 200 }),
    refetchInterval: 10_000,
  });
  const paused = spec.learning?.paused ?? false;
  return (
    <Loading query={steps}>
      {({ steps: rows }) => {
        const cycle = rows.filter((each) => each.cycle === rows[0]?.cycle);
        const canary = cycle.find((each) => each.stage === "LEARNING_STAGE_CANARY");
        const runs = canary && !cycle.some((each) => ENDS.includes(each.stage ?? ""));
        const promotion = rows.find((each) => SERVING.includes(each.stage ?? ""));
        return (
          <>
            <Facts
              facts={[
                [w.answers, policy.model || w.base],
                [w.state, paused ? <Badge key="state" tone="wait">{w.paused}</Badge> : spec.training_consent ? <Badge key="state" tone="good">{w.allowed}</Badge> : <Badge key="state" tone="bad">{w.noConsent}</Badge>],
                [w.budget, spec.learning?.replay_budget ? money(spec.learning.replay_budget) : w.noBudget],
              ]}
            />
            <Controls policy={policy} promotion={promotion?.stage === "LEARNING_STAGE_PROMOTED" ? promotion : undefined} canary={runs ? canary : undefined} />
            {runs && (
              <section className="card spaced" aria-label={w.canary}>
                <h2>{w.canary}</h2>
                <p>{canary.summary}</p>
                <LiveTest id={canary.facts["evaluation"] ?? ""} />
              </section>
            )}
            <h2 className="spaced">{w.cycles}</h2>
            {rows.length === 0 ? (
              <Empty title={w.noCycle} hint={w.noCycleHint(spec.name)} />
            ) : (
              <Table
                label={w.cycles}
                rows={rows}
                rowKey={(row) => `${row.cycle}/${row.stage}`}
                columns={[
                  { title: w.when, cell: (row) => <Time value={row.create_time} /> },
                  { title: w.stage, cell: (row) => <Stage step={row} /> },
                  { title: w.model, cell: (row) => <Model name={row.model} /> },
                  { title: w.summary, cell: (row) => <Summary step={row} /> },
                  { title: w.cycle, minor: true, cell: (row) => <code>{row.cycle.slice(0, 13)}</code> },
                ]}
              />
            )}
          </>
        );
      }}
    </Loading>
  );
}

function Model({ name: model }: { name: string }) {
  const mayOpen = useMay("GetModelVersionRest");
  if (!model) return <>–</>;
  return mayOpen && /^policy-.*-v\d+$/.test(model) ? <Link to="/versions/$name" params={{ name: model }}>{model}</Link> : <>{model}</>;
}

function Stage({ step }: { step: Step }) {
  const stage = name(step.stage, "LEARNING_STAGE_");
  const tone = stage === "promoted" ? "good" : stage === "rolled back" ? "bad" : stage === "canary" ? "wait" : "plain";
  return <Badge tone={tone}>{stage}</Badge>;
}

/** What came of a stage, and its figures behind a line. */
function Summary({ step }: { step: Step }) {
  const facts = Object.entries(step.facts);
  const evaluation = step.facts["evaluation"];
  return (
    <>
      {step.summary}
      {evaluation && <> <Link to="/evaluations/$id" params={{ id: evaluation }}>{w.test}</Link></>}
      {facts.length > 0 && (
        <details>
          <summary className="small muted">{w.figures(facts.length)}</summary>
          <Facts facts={facts.map(([key, value]) => [key.replaceAll("_", " "), value || "–"])} />
        </details>
      )}
    </>
  );
}

interface ControlsProps {
  policy: Policy;
  promotion: Step | undefined;
  canary: Step | undefined;
}

type Action = "pause" | "resume" | "stop" | "back";

/** Pauses learning, ends a canary, or takes a promotion back; each after a question that says what changes. */
function Controls({ policy, promotion, canary }: ControlsProps) {
  const client = useQueryClient();
  const may = { policy: useMay("CreatePolicyRest"), stop: useMay("StopLiveEvaluationRest"), record: useMay("RecordLearningStepRest") };
  const [asked, setAsked] = useState<Action | null>(null);
  const spec = policy.spec!;
  const act = useMutation({
    mutationFn: async (action: Action) => {
      if (action === "stop") {
        return write("POST", `/v1/live-evaluations/${encodeURIComponent(canary!.facts["evaluation"] ?? "")}/stop`, { reason: w.stoppedHere });
      }
      if (action === "back") {
        const before = promotion!.facts["before"] ?? "";
        const summary = w.backSummary(before || w.base, spec.name, promotion!.model);
        const step = { policy: spec.name, cycle: promotion!.cycle, stage: "LEARNING_STAGE_ROLLED_BACK", model: before, summary };
        return write("POST", "/v1/learning-steps", { step });
      }
      const learning = { ...spec.learning, paused: action === "pause" };
      return write("POST", "/v1/policies", { spec: withoutUnset({ ...spec, learning }) });
    },
    onSuccess: () => setAsked(null),
    onSettled: () => Promise.all(["policies", "learning-steps", "evaluation"].map((key) => client.invalidateQueries({ queryKey: [key] }))),
  });
  const paused = spec.learning?.paused ?? false;
  const shown: Action[] = [
    ...(may.policy ? [paused ? ("resume" as const) : ("pause" as const)] : []),
    ...(may.stop && canary ? ["stop" as const] : []),
    ...(may.record && promotion ? ["back" as const] : []),
  ];
  if (shown.length === 0) return <p className="muted">{w.readOnly}</p>;
  const question = asked && w.actions[asked];
  return (
    <>
      <div className="actions">
        {shown.map((each) => (
          <Button key={each} onPress={() => { act.reset(); setAsked(each); }}>{w.actions[each].name}</Button>
        ))}
      </div>
      <Popup title={question ? `${question.name}: ${spec.name}` : ""} open={asked !== null} onClose={() => setAsked(null)}>
        <p>{question?.hint}</p>
        {act.error && <Failure error={act.error} />}
        <div className="actions">
          <Button className="primary" isDisabled={act.isPending} onPress={() => act.mutate(asked!)}>{question?.name}</Button>
          <Button onPress={() => setAsked(null)}>{words.cancel}</Button>
        </div>
      </Popup>
    </>
  );
}
