import { useQueries } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";

import type { Episode } from "../api/episodes";
import { episodeQuery, stepsOf, useEvents } from "../api/followed";
import { between, duration } from "../format";
import { Cost, Facts } from "../ui/parts";
import { Failure, Page, Skeleton } from "../ui/Page";
import { words } from "../words/en";
import { Ending } from "./endings";

const w = words.compare;
const IDS_MAX = 4;

/** Episodes beside each other: what each answered, cost, took and called. */
export default function Compare() {
  const { ids: written = "" } = useSearch({ strict: false }) as { ids?: string };
  const ids = [...new Set(written.split(",").filter(Boolean))].slice(0, IDS_MAX);
  const found = useQueries({ queries: ids.map((id) => episodeQuery(id)) });
  return (
    <Page title={w.title}>
      <div className="compared">
        {found.map(({ data, error }, place) => (
          <article key={ids[place]} className="card" aria-label={w.run(place + 1)}>
            {error ? <Failure error={error} /> : data ? <Run episode={data} first={place > 0 ? found[0]?.data : undefined} number={place + 1} /> : <Skeleton />}
          </article>
        ))}
      </div>
      {ids.length < IDS_MAX && <Add ids={ids} />}
    </Page>
  );
}

function Run({ episode, first, number }: { episode: Episode; first: Episode | undefined; number: number }) {
  const { events } = useEvents(episode);
  const steps = useMemo(() => stepsOf(events), [events]);
  const calls = steps.filter((step) => step.kind === "tool");
  return (
    <>
      <h2>
        <Link to="/episodes/$id" params={{ id: episode.id! }}>{w.run(number)}</Link> <Ending episode={episode} />
      </h2>
      <p className="muted small">{episode.content_withheld ? words.episodes.withheld : episode.spec?.task}</p>
      <Facts
        facts={[
          [words.episodes.policy, `${episode.policy_name}@${episode.policy_version}`],
          [words.episodes.model, episode.spec?.model || words.episodes.byDefault],
          [
            words.episode.cost,
            <span key="cost">
              <Cost value={episode.cost} unknownCalls={episode.unpriced_call_count ?? 0} />
              <Against now={costOf(episode)} before={first && costOf(first)} />
            </span>,
          ],
          [
            words.episodes.columns.time,
            <span key="time">
              {duration(between(episode.create_time, episode.end_time))}
              <Against now={tookOf(episode)} before={first && tookOf(first)} />
            </span>,
          ],
          [words.episode.turns, episode.turn_count ?? 0],
          ...(episode.score === undefined ? [] : [[words.episode.score, episode.score] as const]),
        ]}
      />
      <h3>{words.episode.answer}</h3>
      <p className="answer">{episode.answer || <span className="muted">{episode.end_time ? words.episode.noAnswer : words.episode.runs}</span>}</p>
      <h3>{words.episode.calls}</h3>
      {calls.length === 0 ? (
        <p className="muted">{w.noCalls}</p>
      ) : (
        <ol>
          {calls.map((step) => (
            <li key={step.key}>
              {step.title} <span className="muted small">{duration(step.endMs - step.startMs)}{step.failed && ` · ${words.episode.failed}`}</span>
            </li>
          ))}
        </ol>
      )}
    </>
  );
}

/** The whole cost; undefined while it grows, and where a part of it is unknown. */
const costOf = (episode: Episode) =>
  episode.end_time && !episode.unpriced_call_count ? Number(episode.cost?.amount) : undefined;

const tookOf = (episode: Episode) =>
  episode.end_time ? between(episode.create_time, episode.end_time) : undefined;

/** How much more or less than the first run's. */
function Against({ now, before }: { now: number | undefined; before: number | undefined }) {
  if (!before || now === undefined) return null;
  const change = Math.round((100 * (now - before)) / before);
  return <span className="muted small"> {change > 0 ? `+${change}` : change} %</span>;
}

function Add({ ids }: { ids: string[] }) {
  const navigate = useNavigate();
  const [id, setId] = useState("");
  return (
    <Form
      className="inline spaced"
      onSubmit={(event) => {
        event.preventDefault();
        void navigate({ to: "/episodes/compare", search: { ids: [...ids, id.trim()].join(",") } });
        setId("");
      }}
    >
      <TextField value={id} onChange={setId}>
        <Label>{w.add}</Label>
        <Input spellCheck={false} />
      </TextField>
      <Button type="submit" isDisabled={!id.trim()}>{w.addIt}</Button>
    </Form>
  );
}
