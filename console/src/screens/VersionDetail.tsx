import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { Button, Tab, TabList, TabPanel, Tabs } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { count } from "../format";
import { Facts, Popup } from "../ui/parts";
import { Interval } from "../ui/Interval";
import { Empty, Failure, Loading, Skeleton } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";
import { Gate, State, type ModelVersion } from "./Versions";

const w = words.versions;
const TrainingCurves = lazy(() => import("./TrainingCurves"));

interface VersionDetailProps {
  versionName: string;
  promoted: ModelVersion | undefined;
}

export function VersionDetail({ versionName, promoted }: VersionDetailProps) {
  const path = `/v1/model-versions/${encodeURIComponent(versionName)}`;
  const found = useQuery({
    queryKey: ["version", versionName],
    queryFn: () => get<Schemas["GetModelVersionResponse"]>(path),
    refetchInterval: 10_000,
  });
  const steps = useQuery({
    queryKey: ["training-steps", versionName],
    queryFn: () => get<Schemas["ListTrainingStepsResponse"]>(`${path}/training-steps`),
  });
  return (
    <aside className="detail" aria-label={versionName}>
      <Loading query={found}>
        {({ version, decision }) => (
          <>
            <h2>{versionName} <State version={version!} /></h2>
            <Facts
              facts={[
                [w.replicas, `${version!.replica_ready_count}/${version!.replica_count}`],
                [w.step, version!.step ?? "–"],
                [w.gate, <Gate key="gate" version={version!} />],
              ]}
            />
            {version!.faults.map((each) => <p key={each} className="notice">{each}</p>)}
            <Move version={version!} promoted={promoted} />
            <Tabs className="tabs spaced-tabs">
              <TabList aria-label={versionName}>
                <Tab id="gate">{w.gateTab}</Tab>
                <Tab id="curves">{w.curves}</Tab>
              </TabList>
              <TabPanel id="gate"><Decision version={version!} decision={decision} /></TabPanel>
              <TabPanel id="curves">
                <Loading query={steps}>
                  {({ steps: rows }) =>
                    rows.length === 0 ? (
                      <Empty title={w.noCurves} hint={w.noCurvesHint} />
                    ) : (
                      <Suspense fallback={<Skeleton rows={6} />}><TrainingCurves steps={rows} /></Suspense>
                    )
                  }
                </Loading>
              </TabPanel>
            </Tabs>
          </>
        )}
      </Loading>
    </aside>
  );
}

/** The gate's verdict, why, and the numbers behind it. */
function Decision({ version, decision }: { version: ModelVersion; decision: Schemas["GateDecision"] | undefined }) {
  if (!decision) return <Empty title={w.noGate} hint={w.noGateHint} />;
  const compared = version.gate_compared_with || w.base;
  const gains = decision.gains;
  const delta = Number(decision.rules["delta"] ?? 0);
  const widest = Math.max(0.01, delta, ...gains.flatMap((each) => [Math.abs(each.lower ?? 0), Math.abs(each.upper ?? 0)]));
  const names = [...new Set([...Object.keys(decision.candidate_figures), ...Object.keys(decision.promoted_figures)])];
  return (
    <>
      <p>{w.compared(compared, count(decision.pair_count))}</p>
      {version.gate_reasons.map((each) => <p key={each} className="notice">{each}</p>)}
      <Table
        label={w.gains}
        rows={gains}
        rowKey={(row) => row.measure!}
        columns={[
          { title: w.better, cell: (row) => w.figures[row.measure!] ?? row.measure },
          { title: w.gain, numeric: true, cell: (row) => signed(row.mean) },
          { title: w.bounds, numeric: true, cell: (row) => <span className="nowrap">{`${signed(row.lower)} … ${signed(row.upper)}`}</span> },
          {
            title: w.axis(signed(widest)),
            cell: (row) => (
              <Interval
                label={w.interval(signed(row.mean), signed(row.lower), signed(row.upper))}
                mean={row.mean ?? 0} lower={row.lower ?? 0} upper={row.upper ?? 0} from={-widest} to={widest} mark={row.measure === "score" ? -delta : 0}
              />
            ),
          },
        ]}
      />
      {names.length > 0 && (
        <>
          <h3>{w.figuresTitle}</h3>
          <Table
            label={w.figuresTitle}
            rows={names}
            rowKey={(row) => row}
            columns={[
              { title: w.figure, cell: (row) => w.figures[row] ?? row },
              { title: w.this, numeric: true, cell: (row) => short(decision.candidate_figures[row]) },
              { title: compared, numeric: true, cell: (row) => short(decision.promoted_figures[row]) },
            ]}
          />
        </>
      )}
      <h3>{w.rules}</h3>
      <Facts facts={Object.entries(decision.rules).map(([key, value]) => [w.ruleNames[key] ?? key, short(value)])} />
    </>
  );
}

const signed = (value: number | undefined) => `${(value ?? 0) >= 0 ? "+" : ""}${(value ?? 0).toPrecision(3)}`;

function short(text: string | undefined): string {
  if (text === undefined) return words.unknownAmount;
  return text.trim() !== "" && Number.isFinite(Number(text)) ? String(Number(Number(text).toPrecision(4))) : text;
}

type Action = "promote" | "roll-back";

/** Gives the version to users, or takes it back, after a question that says what changes. */
function Move({ version, promoted }: MoveProps) {
  const client = useQueryClient();
  const mayMove = useMay("PromoteModelVersionRest");
  const [asked, setAsked] = useState<Action | null>(null);
  const move = useMutation({
    mutationFn: (action: Action) => write("POST", `/v1/model-versions/${encodeURIComponent(version.name)}/${action}`),
    onSuccess: () => setAsked(null),
    onSettled: () => Promise.all(["versions", "version"].map((key) => client.invalidateQueries({ queryKey: [key] }))),
  });
  const isPromoted = version.aliases.includes("promoted");
  if (!mayMove) return <p className="muted">{w.readOnly}</p>;
  const ask = (action: Action) => () => {
    move.reset();
    setAsked(action);
  };
  const missing = missingOf(version);
  return (
    <>
      <div className="actions">
        {isPromoted ? (
          <Button onPress={ask("roll-back")}>{w.rollBack}</Button>
        ) : (
          <Button className="primary" isDisabled={missing.length > 0} onPress={ask("promote")}>{w.promote}</Button>
        )}
      </div>
      {!isPromoted && missing.length > 0 && <p className="muted small missing">{missing.join(" ")}</p>}
      <Popup title={asked === "roll-back" ? w.sureBack(version.name) : w.sure(version.name)} open={asked !== null} onClose={() => setAsked(null)}>
        <p>{asked === "roll-back" ? w.backHint : w.promoteHint(promoted?.name ?? w.base)}</p>
        {move.error && <Failure error={move.error} />}
        <div className="actions">
          <Button className="primary" isDisabled={move.isPending} onPress={() => move.mutate(asked!)}>{asked === "roll-back" ? w.rollBack : w.promote}</Button>
          <Button onPress={() => setAsked(null)}>{words.cancel}</Button>
        </div>
      </Popup>
    </>
  );
}

interface MoveProps {
  version: ModelVersion;
  promoted: ModelVersion | undefined;
}

function missingOf(version: ModelVersion): string[] {
  const passed = version.gate_verdict === "GATE_VERDICT_PROMOTE";
  return [...(version.served ? [] : [w.needsServed]), ...(passed ? [] : [w.needsGate])];
}
