import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { Button, Tab, TabList, TabPanel, Tabs, ToggleButton } from "react-aria-components";

import type { Episode } from "../api/episodes";
import { stepsOf, useEpisode, useEvents, type Step } from "../api/followed";
import { get, write, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { between, duration, exactMoney, money, name, pretty } from "../format";
import { Guardrails } from "../ui/Guardrails";
import { Code, CopyButton, Cost, Facts, Meter, Time } from "../ui/parts";
import { Empty, Failure, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";
import { Ending } from "./endings";
import { StartEpisode } from "./StartEpisode";
import { Why } from "./Why";

const w = words.episode;

export default function EpisodeScreen() {
  const { id } = useParams({ strict: false }) as { id: string };
  const episode = useEpisode(id);
  return <Loading query={episode}>{(found) => <Shown key={id} episode={found} />}</Loading>;
}

function Shown({ episode }: { episode: Episode }) {
  const { events, written, connected, error } = useEvents(episode);
  const steps = useMemo(() => stepsOf(events), [events]);
  const [chosen, setChosen] = useState<string | null>(null);
  const [byMoney, setByMoney] = useState(false);
  const step = steps.find((each) => each.key === chosen);
  const task = episode.content_withheld ? words.episodes.withheld : (episode.spec?.task ?? "");
  return (
    <Page title={task.slice(0, 120)} actions={<Actions episode={episode} />}>
      <Head episode={episode} />
      {episode.content_withheld && <p className="notice">{w.withheld}</p>}
      {!connected && <p className="notice" role="status">{w.reconnecting}</p>}
      {error && <Failure error={error} />}
      {(episode.warnings ?? []).map((each) => (
        <p className="notice" key={each}>{each}</p>
      ))}
      <div className="episode">
        <div>
          <div className="switch">
            <ToggleButton isSelected={!byMoney} onChange={() => setByMoney(false)}>{w.time}</ToggleButton>
            <ToggleButton isSelected={byMoney} onChange={() => setByMoney(true)}>{w.money}</ToggleButton>
          </div>
          <Waterfall steps={steps} byMoney={byMoney} chosen={chosen} onChoose={setChosen} running={!episode.end_time} />
        </div>
        <Tabs className="tabs">
          <TabList aria-label={words.nav.episodes}>
            <Tab id="result">{w.result}</Tab>
            <Tab id="why">{w.why}</Tab>
            <Tab id="ledger">{w.ledger}</Tab>
            <Tab id="raw">{w.raw}</Tab>
          </TabList>
          <TabPanel id="result">{step ? <StepDetail step={step} /> : <Result episode={episode} written={written} hasSteps={steps.length > 0} />}</TabPanel>
          <TabPanel id="why"><Why episode={episode} steps={steps} chosen={step} /></TabPanel>
          <TabPanel id="ledger"><Ledger id={episode.id!} /></TabPanel>
          <TabPanel id="raw"><Code text={JSON.stringify({ episode, events }, null, 2)} label={w.raw} /></TabPanel>
        </Tabs>
      </div>
    </Page>
  );
}

function Head({ episode }: { episode: Episode }) {
  const budget = Number(episode.spec?.budget?.amount ?? 0);
  const spent = Number(episode.cost?.amount ?? 0);
  return (
    <>
      <Facts
        facts={[
          [words.episodes.columns.ending, <Ending key="ending" episode={episode} />],
          [w.cost, <Cost key="cost" value={episode.cost} unknownCalls={episode.unpriced_call_count ?? 0} />],
          [words.episodes.columns.time, duration(between(episode.create_time, episode.end_time))],
          [w.turns, episode.turn_count ?? 0],
          [w.calls, episode.tool_call_count ?? 0],
          [w.policy, `${episode.policy_name}@${episode.policy_version}`],
          [w.started, <Time key="time" value={episode.create_time} />],
          ...(episode.score === undefined ? [] : [[w.score, episode.score] as const]),
        ]}
      />
      {budget > 0 && (
        <div className="budget-line">
          <Meter label={w.cost} posted={spent / budget} held={0} />
          <span className="muted small">{money(episode.cost)} of {money(episode.spec?.budget)}</span>
        </div>
      )}
      {episode.spec?.parent && (
        <p className="small">
          <Link to="/episodes/$id" params={{ id: episode.spec.parent.episode_id! }}>called by another episode</Link>
        </p>
      )}
    </>
  );
}

function Actions({ episode }: { episode: Episode }) {
  const client = useQueryClient();
  const [again, setAgain] = useState(false);
  const mayRun = useMay("StartEpisodeRest");
  const cancel = useMutation({
    mutationFn: () => write("POST", `/v1/episodes/${episode.id}/cancel`, { reason: "cancelled in the console" }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["episode", episode.id] }),
  });
  const spec: Partial<Schemas["EpisodeSpec"]> = episode.spec ?? {};
  const body = { spec: { task: spec.task, model: spec.model, policy: spec.policy } };
  return (
    <>
      {mayRun && !episode.end_time && (
        <Button onPress={() => cancel.mutate()} isDisabled={cancel.isPending}>{w.cancel}</Button>
      )}
      {mayRun && episode.end_time && !episode.content_withheld && (
        <Button onPress={() => setAgain(true)}>{w.again}</Button>
      )}
      <CopyButton
        label={`${w.copyAs} curl`}
        text={`curl ${location.origin}/v1/episodes -H "Authorization: Bearer $PODIUM_API_KEY" -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`}
      />
      <CopyButton
        label={`${w.copyAs} Python`}
        text={`from podium_client import Podium\n\nwith Podium() as podium:\n    episode = podium.episodes.run(${JSON.stringify(spec.task ?? "")}${spec.policy ? `, policy=${JSON.stringify(spec.policy)}` : ""})\n    print(episode.answer)\n`}
      />
      <Link to="/episodes/compare" search={{ ids: episode.id! }} className="button">{words.compare.title}</Link>
      {again && <StartEpisode again={episode} onClose={() => setAgain(false)} />}
      {cancel.error && <p className="error" role="alert">{cancel.error.message}</p>}
    </>
  );
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

interface WaterfallProps {
  steps: Step[];
  byMoney: boolean;
  chosen: string | null;
  onChoose: (key: string | null) => void;
  running: boolean;
}

function Waterfall({ steps, byMoney, chosen, onChoose, running }: WaterfallProps) {
  if (steps.length === 0) return running ? <p className="muted">{w.runs}</p> : <Empty title={w.select} />;
  const costOf = (step: Step) => Number(step.cost?.amount ?? 0);
  const whole = byMoney
    ? steps.reduce((sum, each) => sum + costOf(each), 0)
    : Math.max(1, ...steps.map((each) => each.endMs));
  let before = 0;
  return (
    <ol className="waterfall">
      {steps.map((step, place) => {
        const from = byMoney ? before : step.startMs;
        const length = byMoney ? costOf(step) : step.endMs - step.startMs;
        before += costOf(step);
        const isNewTurn = step.turn !== steps[place - 1]?.turn;
        return (
          <li key={step.key} className={isNewTurn ? "new-turn" : undefined}>
            <button
              type="button"
              className="step"
              aria-pressed={chosen === step.key}
              onClick={() => onChoose(chosen === step.key ? null : step.key)}
            >
              <span className="step-turn muted">{isNewTurn ? step.turn : ""}</span>
              <span className={`step-title cut ${step.failed ? "bad" : ""}`}>
                {step.failed && <span aria-label={w.failed}>✕ </span>}
                {step.kind === "model" ? w.model : step.kind === "wait" ? `${w.waits}: ${step.title}` : step.kind === "check" ? `${w.verifier} ${step.title}` : step.title}
              </span>
              <svg className="step-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                <rect
                  className={`bar-${step.kind}${step.failed ? " failed" : ""}`}
                  x={whole ? (100 * from) / whole : 0}
                  width={whole ? Math.max(0.4, (100 * length) / whole) : 0}
                  height="10"
                />
              </svg>
              <span className="step-value numeric">
                {byMoney ? money(step.cost) : duration(step.endMs - step.startMs)}
              </span>
            </button>
          </li>
        );
      })}
    </ol>
  );
}

function Result({ episode, written, hasSteps }: { episode: Episode; written: string; hasSteps: boolean }) {
  const client = useQueryClient();
  const mayRate = useMay("GiveFeedbackRest");
  const rate = useMutation({
    mutationFn: (score: number) => write("POST", `/v1/episodes/${episode.id}/feedback`, { score }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["episode", episode.id] }),
  });
  const answer = episode.answer || (episode.end_time ? "" : written);
  return (
    <>
      <h2>{w.answer}</h2>
      {answer ? <p className="answer">{answer}</p> : <p className="muted">{episode.end_time ? w.noAnswer : w.runs}</p>}
      {episode.failure?.message && <p className="error">{episode.failure.message}</p>}
      {hasSteps && <p className="muted small">{w.select}</p>}
      {episode.end_time && mayRate && (
        <div className="actions">
          <Button isDisabled={rate.isPending} onPress={() => rate.mutate(1)}>{w.helpful}</Button>
          <Button isDisabled={rate.isPending} onPress={() => rate.mutate(0)}>{w.notHelpful}</Button>
        </div>
      )}
      {(episode.feedback ?? []).map((each) => (
        <p key={each.id} className="small">
          {w.feedback}: {each.score ?? ""} {each.label} {each.comment} <span className="muted">{each.created_by}</span>
        </p>
      ))}
      {rate.error && <p className="error" role="alert">{rate.error.message}</p>}
    </>
  );
}

function StepDetail({ step }: { step: Step }) {
  const { action_decided: decided, approval_requested: asked } = step.event;
  const returned = step.event.tool_returned ?? step.event.verifier_called;
  const calls = decided?.action?.tool_calls?.calls ?? [];
  const call = returned?.observation?.call ?? asked?.call;
  const usage = (decided ?? returned)?.usage?.quantities ?? [];
  return (
    <>
      <h2>{step.title}</h2>
      <Facts
        facts={[
          [w.cost, exactMoney(step.cost)],
          [words.episodes.columns.time, duration(step.endMs - step.startMs)],
          ...usage.map((each) => [name(each.dimension, "USAGE_DIMENSION_"), each.amount] as const),
        ]}
      />
      {decided?.action?.thought && (<><h3>{w.thought}</h3><p className="answer">{decided.action.thought}</p></>)}
      {decided?.action?.final_answer && (<><h3>{w.answer}</h3><p className="answer">{decided.action.final_answer}</p></>)}
      {decided?.action?.malformed && <p className="error">{JSON.stringify(decided.action.malformed)}</p>}
      {calls.map((call) => (
        <div key={call.index}>
          <h3>{call.tool_name}</h3>
          <Code text={pretty(call.arguments_json ?? "")} label={w.arguments} />
        </div>
      ))}
      {call && (
        <>
          <h3>{w.arguments}</h3>
          <Code text={pretty(call.arguments_json ?? "")} label={w.arguments} />
        </>
      )}
      {returned?.observation?.failure && (
        <p className="error">{name(returned.observation.failure.kind, "FAILURE_KIND_")}: {returned.observation.failure.message}</p>
      )}
      <Guardrails decisions={(decided ?? step.event.tool_returned)?.guardrails} />
      {returned?.observation?.content && (<><h3>{w.gave}</h3><Code text={pretty(returned.observation.content)} label={w.gave} /></>)}
      {returned?.child && (
        <Link to="/episodes/$id" params={{ id: returned.child.episode_id! }}>{returned.child.episode_id}</Link>
      )}
    </>
  );
}

function Ledger({ id }: { id: string }) {
  const entries = useQuery({
    queryKey: ["entries", id],
    queryFn: () => get<Schemas["ListEntriesResponse"]>("/v1/entries", { episode_id: id, page_size: 500 }),
  });
  return (
    <Loading query={entries}>
      {(page) =>
        page.entries.length === 0 ? (
          <Empty title={w.noEntries} />
        ) : (
          <Table
            label={w.ledger}
            rows={page.entries}
            rowKey={(row) => row.sequence!}
            columns={[
              { title: "Entry", cell: (row) => `${row.sequence} ${name(row.kind, "ENTRY_KIND_")}` },
              { title: "SKU", cell: (row) => row.sku || "–" },
              { title: w.cost, numeric: true, cell: (row) => <Cost value={row.amount} /> },
              { title: "Key", minor: true, cell: (row) => <code className="cut">{row.key?.replace(`${id}/`, "")}</code> },
              { title: "When", minor: true, cell: (row) => <Time value={row.create_time} /> },
            ]}
          />
        )
      }
    </Loading>
  );
}
