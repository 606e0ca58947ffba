import { useQuery } from "@tanstack/react-query";

import type { Episode } from "../api/episodes";
import type { Step } from "../api/followed";
import { write, type Schemas } from "../api/http";
import { Decisions } from "../ui/Decisions";
import { Meter } from "../ui/parts";
import { Loading } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.episode;

interface WhyProps {
  episode: Episode;
  steps: readonly Step[];
  chosen: Step | undefined;
}

/** Why a turn went the way it did: what the prompt stated of each way, and which rules offered it. */
export function Why({ episode, steps, chosen }: WhyProps) {
  const explained = useQuery({
    queryKey: ["explain", episode.policy_name],
    queryFn: () => write<Schemas["ExplainToolsetResponse"]>("POST", "/v1/policies/explain", { policy: episode.policy_name }),
  });
  const turn = chosen?.turn ?? steps.find((each) => each.event.action_decided?.preference_line)?.turn;
  const line = steps.find((each) => each.turn === turn && each.event.action_decided)?.event.action_decided?.preference_line;
  const used = new Set(steps.filter((each) => each.turn === turn && each.kind === "tool").map((each) => each.title));
  return (
    <>
      {turn !== undefined && <h2>{w.turn(turn)}</h2>}
      {line ? <Worth line={line} used={used} /> : <p className="muted">{episode.content_withheld ? w.lineWithheld : w.noLine}</p>}
      <h3>{w.offered}</h3>
      <p className="muted small">{w.why_}</p>
      <Loading query={explained}>
        {({ decisions, notices }) => (
          <>
            {notices.map((each) => <p className="notice" key={each}>{each}</p>)}
            <Decisions label={w.offered} decisions={decisions} marked={new Set(episode.called_tools ?? [])} />
          </>
        )}
      </Loading>
    </>
  );
}

/** The line as the prompt has it, and its numbers as bars. */
function Worth({ line, used }: { line: string; used: ReadonlySet<string> }) {
  const [, scale = "10", listed = ""] = /A right answer is worth, of (\d+): (.+?)\.$/.exec(line) ?? [];
  const ways = listed
    .split(", ")
    .map((each) => /^(.+) (\d+)$/.exec(each))
    .filter((match) => match !== null)
    .map(([, name, tenths]) => ({ name: name!, tenths: Number(tenths) }));
  return (
    <>
      <p className="muted small">{w.lineHint}</p>
      <blockquote>{line}</blockquote>
      {ways.length > 0 && (
        <Table
          label={w.worth}
          rows={ways}
          rowKey={(row) => row.name}
          columns={[
            { title: w.way, cell: (row) => <>{row.name}{used.has(row.name) && " ●"}</> },
            { title: w.worthOf(scale), numeric: true, cell: (row) => row.tenths },
            { title: w.worth, cell: (row) => <Meter label={row.name} posted={row.tenths / Number(scale)} held={0} /> },
          ]}
        />
      )}
    </>
  );
}
