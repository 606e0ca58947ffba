import { useInfiniteQuery, useQuery } from "@tanstack/react-query";

import { get, type Query, type Schemas } from "./http";

export type Episode = Schemas["Episode"];

/** Fields of EpisodeFilter that the address of the list carries, as it carries them. */
export const FILTERS = [
  "words", "stop_reasons", "policies", "models", "tool_names", "subjects", "failure_kinds", "states",
  "group_id", "parent_episode_id", "min_cost", "max_cost",
] as const;
export type FilterName = (typeof FILTERS)[number];

const RANGES_H: Record<string, number> = { day: 24, week: 168, month: 720 };
const BUCKETS_S: Record<string, number> = { day: 1800, week: 10_800, month: 43_200, all: 86_400 };
const ORDERS: Record<string, string> = { cost: "EPISODE_ORDER_COST", duration: "EPISODE_ORDER_DURATION" };
const SINGLE = new Set<string>(["words", "group_id", "parent_episode_id", "min_cost", "max_cost"]);

export type Search = Record<string, string | undefined>;

/** Reads several values of a filter, as the address has them: separated by commas. */
export function valuesOf(search: Search, name: FilterName): string[] {
  const text = search[name];
  return text === undefined ? [] : SINGLE.has(name) ? [text] : text.split(",");
}

function filterOf(search: Search): Query {
  const query: Query = {};
  for (const name of FILTERS) query[`filter.${name}`] = valuesOf(search, name);
  const hours = RANGES_H[search["range"] ?? "week"];
  if (hours) {
    // To the minute, so that a list and its counts are of the same time and are found in the cache.
    const start = Math.floor(Date.now() / 60_000) * 60_000 - hours * 3_600_000;
    query["filter.start_time"] = new Date(start).toISOString();
  }
  return query;
}

const PAGE_SIZE = 100;

export function useEpisodes(search: Search, pollMs: number | false) {
  return useInfiniteQuery({
    queryKey: ["episodes", search],
    queryFn: ({ pageParam, signal }) =>
      get<Schemas["ListEpisodesResponse"]>(
        "/v1/episodes",
        {
          ...filterOf(search),
          view: "EPISODE_VIEW_SUMMARY",
          order_by: ORDERS[search["sort"] ?? ""],
          page_size: PAGE_SIZE,
          page_token: pageParam,
        },
        signal,
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_page_token || undefined,
    placeholderData: (before) => before,
    refetchInterval: pollMs,
    maxPages: 50,
  });
}

export function useEpisodeCounts(search: Search, pollMs: number | false) {
  return useQuery({
    queryKey: ["episode-counts", search],
    queryFn: ({ signal }) =>
      get<Schemas["SummarizeEpisodesResponse"]>(
        "/v1/episode-summary",
        { ...filterOf(search), bucket: `${BUCKETS_S[search["range"] ?? "week"] ?? 86_400}s` },
        signal,
      ),
    placeholderData: (before) => before,
    refetchInterval: pollMs,
  });
}
