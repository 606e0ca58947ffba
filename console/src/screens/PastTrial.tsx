import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "react-aria-components";

import { write, type Schemas } from "../api/http";
import { count, percent } from "../format";
import { Choice, Cost, Facts } from "../ui/parts";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.policies;
const DAYS: Record<string, number> = { day: 1, week: 7, month: 30 };

/** What a policy would have changed in past episodes. */
export function PastTrial({ tried }: { tried: string }) {
  const [range, setRange] = useState("week");
  const run = useMutation({
    mutationFn: (spec: string) =>
      write<Schemas["DryRunPolicyResponse"]>("POST", "/v1/policies/dry-run", {
        spec: JSON.parse(spec),
        past: { start_time: new Date(Date.now() - DAYS[range]! * 86_400_000).toISOString(), limit: 500 },
      }),
  });
  return (
    <>
      <p className="muted small">{w.pastHint}</p>
      <div className="actions">
        <Choice label={w.since} value={range} options={w.ranges} onChange={setRange} />
        <Button onPress={() => run.mutate(tried)} isDisabled={run.isPending}>{w.tryIt}</Button>
      </div>
      {run.error && <p className="error" role="alert">{run.error.message}</p>}
      {run.data && run.variables !== tried && <p className="notice">{w.trialStale}</p>}
      {run.data && <Outcome run={run.data} />}
    </>
  );
}

function Outcome({ run }: { run: Schemas["DryRunPolicyResponse"] }) {
  const solved = run.solved_episode_count;
  return (
    <div role="status">
      {run.episode_count === 0 ? (
        <p className="muted">{w.noPast}</p>
      ) : (
        <Facts
          facts={[
            [w.trial.episodes, count(run.episode_count)],
            [w.trial.affected, count(run.affected_episode_count)],
            [w.trial.solved, `${count(solved)} (${percent(solved / run.episode_count)})`],
            [w.trial.solvedAffected, count(run.affected_solved_episode_count)],
            [w.trial.rejected, `${count(run.rejected_call_count)} / ${count(run.call_count)}`],
            [w.trial.waiting, count(run.approval_call_count)],
            [w.trial.cost, <Cost key="cost" value={run.cost} />],
            [w.trial.saved, <Cost key="saved" value={run.rejected_cost} />],
          ]}
        />
      )}
      {run.rejected.length > 0 && (
        <Table
          label={w.trial.rejected}
          rows={run.rejected}
          rowKey={(row) => `${row.tool_name}/${row.model_alias}/${row.reason}`}
          columns={[
            { title: words.tools.title, cell: (row) => [row.tool_name, row.model_alias].filter(Boolean).join("/") },
            { title: w.trial.calls, numeric: true, cell: (row) => count(row.call_count) },
            { title: words.episode.cost, numeric: true, cell: (row) => <Cost value={row.cost} unknownCalls={row.unpriced_call_count} /> },
            { title: w.rule, cell: (row) => row.reason },
          ]}
        />
      )}
    </div>
  );
}
