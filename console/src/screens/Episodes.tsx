import { useVirtualizer } from "@tanstack/react-virtual";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";
import { Button, Input, SearchField } from "react-aria-components";

import { FILTERS, useEpisodeCounts, useEpisodes, valuesOf, type Episode, type FilterName, type Search } from "../api/episodes";
import type { Schemas } from "../api/http";
import { usePolling } from "../app/live";
import { useMay } from "../app/session";
import { isTyping } from "../app/Shell";
import { between, day, duration, name } from "../format";
import { Choice, Cost, Time } from "../ui/parts";
import { Empty, Failure, Page, Skeleton } from "../ui/Page";
import { words } from "../words/en";
import { Ending } from "./endings";
import { Histogram } from "./Histogram";
import { SavedViews } from "./SavedViews";
import { StartEpisode } from "./StartEpisode";

const w = words.episodes;
const ROW_PX = 36;

export default function Episodes() {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const polling = usePolling();
  const [starting, setStarting] = useState(false);
  const mayStart = useMay("StartEpisodeRest");
  const episodes = useEpisodes(search, polling);
  const counts = useEpisodeCounts(search, polling);
  const { rows, fresh, show } = useSettledRows(episodes.data?.pages, search);
  const change = (changed: Search) => {
    const next = Object.fromEntries(
      Object.entries({ ...search, ...changed }).filter(([, value]) => value !== undefined && value !== ""),
    );
    void navigate({ to: "/episodes", search: next as Record<string, string>, replace: true });
  };
  const filtered = FILTERS.some((each) => search[each]);
  return (
    <Page
      title={w.title}
      actions={mayStart && <Button className="primary" onPress={() => setStarting(true)}>{w.start}</Button>}
    >
      {starting && <StartEpisode onClose={() => setStarting(false)} />}
      <SavedViews search={search} />
      <Filters search={search} change={change} />
      <div className="episodes">
        <Facets counts={counts.data} search={search} change={change} />
        <div className="episodes-main">
          <Histogram counts={counts.data} />
          <div className="list-state">
            <p className="muted small" role="status">
              {counts.data ? w.counted(counts.data.count ?? 0) : words.loading}
              {counts.data?.series_start_time && w.charted(day(counts.data.series_start_time))}
            </p>
            {fresh > 0 && <Button className="fresh" onPress={show}>{w.fresh(fresh)} <kbd>.</kbd></Button>}
          </div>
          {Boolean(episodes.error) && <Failure error={episodes.error} retry={() => void episodes.refetch()} />}
          {episodes.data === undefined && !episodes.error && <Skeleton rows={10} />}
          {episodes.data !== undefined && rows.length === 0 && (
            <Empty
              title={filtered ? w.noMatch : w.empty}
              hint={filtered ? w.noMatchHint : w.emptyHint}
            />
          )}
          {rows.length > 0 && (
            <Rows
              rows={rows}
              dimmed={episodes.isPlaceholderData}
              onEnd={() => episodes.hasNextPage && !episodes.isFetchingNextPage && void episodes.fetchNextPage()}
            />
          )}
        </div>
      </div>
    </Page>
  );
}

/**
 * The rows without episodes that are newer than those first seen: they wait until `show`, so that
 * nothing jumps below the pointer, while rows that are shown change in place.
 */
function useSettledRows(pages: readonly { episodes: Episode[] }[] | undefined, search: Search) {
  const key = JSON.stringify(search);
  const [seen, setSeen] = useState({ key: "", newest: 0 });
  const all = useMemo(() => pages?.flatMap((page) => page.episodes) ?? [], [pages]);
  const newest = all.reduce((latest, { create_time }) => Math.max(latest, Date.parse(create_time!)), 0);
  const settled = seen.key === key ? seen.newest : 0;
  useEffect(() => {
    if (newest && !settled) setSeen({ key, newest });
  }, [key, newest, settled]);
  const rows = useMemo(() => (settled ? all.filter(({ create_time }) => Date.parse(create_time!) <= settled) : all), [all, settled]);
  const fresh = all.length - rows.length;
  const show = () => setSeen({ key, newest });
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "." && fresh > 0 && !isTyping(event.target)) show();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  return { rows, fresh, show };
}

interface FilterProps {
  search: Search;
  change: (changed: Search) => void;
}

function Filters({ search, change }: FilterProps) {
  const [typed, setTyped] = useState(search["words"] ?? "");
  useEffect(() => {
    if (typed === (search["words"] ?? "")) return;
    const timer = setTimeout(() => change({ words: typed }), 250);
    return () => clearTimeout(timer);
  });
  return (
    <div className="filters">
      <SearchField aria-label={w.filter} value={typed} onChange={setTyped}>
        <Input placeholder={w.filter} />
      </SearchField>
      <Choice label="Time" value={search["range"] ?? "week"} options={w.ranges} onChange={(range) => change({ range })} />
      <Choice label="Sort" value={search["sort"] ?? "newest"} options={w.sort} onChange={(sort) => change({ sort })} />
      {FILTERS.filter((each) => each !== "words").flatMap((each) =>
        valuesOf(search, each).map((value) => (
          <Button key={`${each}=${value}`} className="token" onPress={() => change(without(search, each, value))}>
            {w.facets[each] ?? each}: {shown(each, value)} <span aria-hidden="true">✕</span>
          </Button>
        )),
      )}
    </div>
  );
}

function without(search: Search, filter: FilterName, value: string): Search {
  return { [filter]: valuesOf(search, filter).filter((each) => each !== value).join(",") };
}

function shown(field: string, value: string): string {
  if (field === "stop_reasons") return name(value, "STOP_REASON_");
  if (field === "failure_kinds") return name(value, "FAILURE_KIND_");
  if (field === "states") return name(value, "EPISODE_STATE_");
  return value || w.byDefault;
}

function Facets({ counts, search, change }: FilterProps & { counts: Schemas["SummarizeEpisodesResponse"] | undefined }) {
  const fields = Object.keys(w.facets).filter((field) => counts?.facets.some((each) => each.field === field));
  return (
    <aside className="facets" aria-label="Filters">
      {fields.map((field) => (
        <details key={field} open={field === "stop_reasons" || field === "policies" || field === "tool_names"}>
          <summary>{w.facets[field]}</summary>
          {counts!.facets
            .filter((each) => each.field === field && each.value)
            .slice(0, 8)
            .map((each) => {
              const chosen = valuesOf(search, field as FilterName);
              const on = chosen.includes(each.value!);
              return (
                <button
                  key={each.value}
                  type="button"
                  className="facet"
                  aria-pressed={on}
                  onClick={() =>
                    change(on ? without(search, field as FilterName, each.value!) : { [field]: [...chosen, each.value!].join(",") })
                  }
                >
                  <span>{shown(field, each.value!)}</span>
                  <span className="muted">{(each.count ?? 0).toLocaleString("en")}</span>
                </button>
              );
            })}
        </details>
      ))}
    </aside>
  );
}

interface RowsProps {
  rows: Episode[];
  dimmed: boolean;
  onEnd: () => void;
}

function Rows({ rows, dimmed, onEnd }: RowsProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const lastShown = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (lastShown >= rows.length - 20) onEnd();
  });
  const c = w.columns;
  return (
    <div className="rows" role="table" aria-label={w.title} aria-rowcount={rows.length} data-dimmed={dimmed || undefined}>
      <div role="row" className="row row-head">
        {[c.ending, c.task, c.policy, c.tools, c.turns, c.cost, c.time, c.started].map((title) => (
          <span role="columnheader" key={title}>
            {title}
          </span>
        ))}
      </div>
      <div
        className="rows-scroll"
        role="rowgroup"
        tabIndex={0}
        ref={scroller}
        onKeyDown={moveFocus}
      >
        <div role="presentation" style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {items.map((item) => (
            <Row key={rows[item.index]!.id} episode={rows[item.index]!} top={item.start} index={item.index} />
          ))}
        </div>
      </div>
    </div>
  );
}

function moveFocus(event: React.KeyboardEvent<HTMLDivElement>) {
  const step = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLAnchorElement>("a.row-open")];
  const at = links.indexOf(document.activeElement as HTMLAnchorElement);
  const next = links[at + step] ?? (at < 0 ? links[0] : undefined);
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

function Row({ episode, top, index }: { episode: Episode; top: number; index: number }) {
  const tools = episode.called_tools ?? [];
  const task = episode.content_withheld ? w.withheld : (episode.spec?.task ?? "");
  return (
    <div role="row" aria-rowindex={index + 1} className="row row-body" style={{ transform: `translateY(${top}px)` }}>
      <span role="cell"><Ending episode={episode} /></span>
      <span role="cell" className="cut">
        <Link
          className={episode.content_withheld ? "row-open muted" : "row-open"}
          title={task}
          to="/episodes/$id"
          params={{ id: episode.id! }}
        >
          {task}
        </Link>
      </span>
      <span role="cell" className="cut">{episode.policy_name}@{episode.policy_version}</span>
      <span role="cell" className="cut" title={tools.join(", ")}>
        {tools.slice(0, 2).join(", ")}{tools.length > 2 && ` +${tools.length - 2}`}
      </span>
      <span role="cell" className="numeric">{episode.turn_count ?? 0}</span>
      <span role="cell" className="numeric"><Cost value={episode.cost} unknownCalls={episode.unpriced_call_count ?? 0} /></span>
      <span role="cell" className="numeric">{duration(between(episode.create_time, episode.end_time))}</span>
      <span role="cell"><Time value={episode.create_time} /></span>
    </div>
  );
}
