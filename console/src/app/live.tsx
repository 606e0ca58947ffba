import { useQueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useRef, useState, useSyncExternalStore, type ReactNode } from "react";

import { followTenant, type TenantEvent } from "../api/events";

// Changes within this time are one refresh of a list.
const GATHER_MS = 1_000;
// A list that was scrolled further down is refreshed when it is opened again.
const PAGES_MAX = 5;
const POLL_MS = 10_000;
// A live stream has a heartbeat every 15 s; others are of a connection that is gone.
const SILENCE_MS = 45_000;

const LiveContext = createContext(false);

/** How often a list asks again: never while the stream of the tenant's events is open. */
export function usePolling(): number | false {
  return useContext(LiveContext) ? false : POLL_MS;
}

function listsOf(event: TenantEvent): string[] {
  if (event.episode_started) return ["episodes", "episode-counts"];
  if (event.episode_ended) return ["episodes", "episode-counts", "approvals", "budgets", "spend"];
  if (event.approval_requested || event.approval_decided) return ["approvals", "episodes"];
  if (event.budget_limit_passed) return ["budgets", "budget-alerts"];
  // What happened before the stream was open, or while it was broken for too long.
  return event.opened ? ["episodes", "episode-counts", "approvals", "budgets", "spend"] : [];
}

/** Refreshes the lists below it when what they show has changed, by a stream of events. */
export function Live({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const following = useSyncExternalStore(onChange, () => document.visibilityState === "visible" && navigator.onLine);
  const [connected, setConnected] = useState(false);
  const [attempt, setAttempt] = useState(0);
  const position = useRef("");
  useEffect(() => {
    // A browser has six connections to a host: hidden tabs leave theirs to others.
    if (!following) return;
    let seenAt = Date.now();
    const end = new AbortController();
    const changed = new Set<string>();
    const timer = setInterval(() => {
      if (Date.now() - seenAt > SILENCE_MS) setAttempt(attempt + 1);
      const stale = [...changed];
      changed.clear();
      void client.invalidateQueries({
        predicate: ({ queryKey, state }) => stale.includes(String(queryKey[0])) && pagesOf(state.data) <= PAGES_MAX,
      });
    }, GATHER_MS);
    const onEvent = (event: TenantEvent) => {
      seenAt = Date.now();
      position.current = event.position ?? "";
      for (const list of listsOf(event)) changed.add(list);
    };
    followTenant(position.current, { onEvent, onConnection: setConnected }, end.signal).catch(() => setConnected(false));
    return () => {
      end.abort();
      clearInterval(timer);
      setConnected(false);
    };
  }, [client, following, attempt]);
  return <LiveContext value={connected}>{children}</LiveContext>;
}

function onChange(changed: () => void) {
  const unseen = new AbortController();
  document.addEventListener("visibilitychange", changed, unseen);
  for (const name of ["online", "offline"]) addEventListener(name, changed, unseen);
  return () => unseen.abort();
}

function pagesOf(data: unknown): number {
  return (data as { pages?: unknown[] } | undefined)?.pages?.length ?? 1;
}
