import { queryOptions, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import type { Episode } from "./episodes";
import { follow, type AnswerPart, type EpisodeEvent } from "./events";
import { get, type Schemas } from "./http";

export const episodeQuery = (id: string) =>
  queryOptions({
    queryKey: ["episode", id],
    queryFn: async () => (await get<Schemas["GetEpisodeResponse"]>(`/v1/episodes/${encodeURIComponent(id)}`)).episode!,
    refetchInterval: (query) => (query.state.data?.end_time ? false : 3000),
  });

export const useEpisode = (id: string) => useQuery(episodeQuery(id));

/** The events of an episode, live until it ends; without content where the reader may not see that. */
export function useEvents(episode: Episode | undefined) {
  const [events, setEvents] = useState<EpisodeEvent[]>([]);
  const [written, setWritten] = useState("");
  const [connected, setConnected] = useState(true);
  const [error, setError] = useState<Error | null>(null);
  const id = episode?.id;
  useEffect(() => {
    setEvents([]);
    setWritten("");
    setError(null);
    if (!id) return;
    const end = new AbortController();
    // Many events at once are one rendering.
    let waiting: EpisodeEvent[] = [];
    let text = "";
    // An attempt that begins anew replaces what was written; after a lost part nothing is added.
    const onPart = ({ start = 0, text: part = "" }: AnswerPart) => {
      if (start === 0 || start === text.length) text = text.slice(0, start) + part;
    };
    const flush = () => {
      const seen = waiting;
      waiting = [];
      setWritten(text);
      if (seen.length) setEvents((before) => [...before, ...seen]);
    };
    const timer = setInterval(flush, 80);
    follow(id, { onEvent: (event) => waiting.push(event), onConnection: setConnected, onPart }, end.signal)
      .then(flush)
      .catch(setError);
    return () => {
      end.abort();
      clearInterval(timer);
    };
  }, [id]);
  return { events, written, connected, error };
}

export interface Step {
  key: string;
  kind: "model" | "tool" | "check" | "wait";
  title: string;
  turn: number;
  startMs: number;
  endMs: number;
  cost: Schemas["Money"] | undefined;
  failed: boolean;
  event: EpisodeEvent;
}

const seconds = (text: string | null | undefined) => (text ? Number(text.replace(/s$/, "")) * 1000 : 0);

/** The steps of the events, with times since the start. Each event is of the end of its step. */
export function stepsOf(events: EpisodeEvent[]): Step[] {
  const begin = Date.parse(events[0]?.time ?? "");
  const steps: Step[] = [];
  const waits = new Map<string, Step>();
  for (const event of events) {
    const endMs = Date.parse(event.time!) - begin;
    const turn = event.turn ?? 0;
    const add = (kind: Step["kind"], title: string, ms: number, cost: Schemas["Money"] | null | undefined, failed: boolean) => {
      const step: Step = {
        key: event.sequence!, kind, title, turn, startMs: Math.max(0, endMs - ms), endMs, cost: cost ?? undefined, failed, event,
      };
      steps.push(step);
      return step;
    };
    if (event.action_decided) {
      const { action, latency, cost, model_version } = event.action_decided;
      add("model", model_version || "model", seconds(latency), cost, Boolean(action?.malformed));
    } else if (event.tool_returned) {
      const { observation, latency, cost } = event.tool_returned;
      const name = observation?.call?.tool_name ?? "";
      const index = observation?.call?.index ?? 0;
      const wait = waits.get(`${turn}/${index}`);
      if (wait) wait.endMs = endMs - seconds(latency);
      add("tool", name, seconds(latency), cost, Boolean(observation?.failure));
    } else if (event.verifier_called) {
      const { observation, latency, cost } = event.verifier_called;
      add("check", observation?.call?.tool_name ?? "", seconds(latency), cost, Boolean(observation?.failure));
    } else if (event.approval_requested) {
      const call = event.approval_requested.call;
      const step = add("wait", call?.tool_name ?? "", 0, undefined, false);
      waits.set(`${turn}/${call?.index ?? 0}`, step);
    }
  }
  return steps;
}
