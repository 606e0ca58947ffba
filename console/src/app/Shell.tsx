import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import { Button } from "react-aria-components";

import { get, type Schemas } from "../api/http";
import { Skeleton } from "../ui/Page";
import { words } from "../words/en";
import { usePolling } from "./live";
import { NAVIGATION, type NavItem } from "./navigation";
import { useSession, useSignOut } from "./session";

const Palette = lazy(() => import("./Palette"));
const KeyHelp = lazy(() => import("./KeyHelp"));
const PREFIX_MS = 1500;

export function Shell() {
  const session = useSession();
  const navigate = useNavigate();
  const signOut = useSignOut();
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const groups = NAVIGATION.map((group) => ({
    ...group,
    items: group.items.filter((item) => session.operations.includes(item.operation)),
  })).filter((group) => group.items.length > 0);
  const items = groups.flatMap((group) => group.items);
  useKeys(items, (path) => void navigate({ to: path }), () => setPalette(true), () => setHelp(true));
  return (
    <div className="shell">
      <a className="skip" href="#content">
        {words.skip}
      </a>
      <header className="top">
        <Link to="/" className="brand">
          Podium
        </Link>
        <Button className="search" onPress={() => setPalette(true)}>
          {words.palette} <kbd>⌘K</kbd>
        </Button>
        <span className="who muted" title={session.credential}>
          {session.subject} · {session.tenant}
        </span>
        <Button className="quiet" onPress={() => setHelp(true)} aria-label={words.keysHelp}>
          ?
        </Button>
        <Button className="quiet" onPress={nextTheme}>
          {words.theme}
        </Button>
        <Button className="quiet" onPress={() => void signOut()}>
          {words.out}
        </Button>
      </header>
      <nav className="side" aria-label="Podium">
        {groups.map((group) => (
          <div key={group.title}>
            <h2>{group.title}</h2>
            {group.items.map((item) => (
              <Link key={item.path} to={item.path} activeProps={{ "aria-current": "page" }}>
                {item.title}
                {item.path === "/approvals" && <WaitingCount />}
              </Link>
            ))}
          </div>
        ))}
      </nav>
      <main id="content" tabIndex={-1}>
        <Suspense fallback={<Skeleton />}>
          <Outlet />
        </Suspense>
      </main>
      <Suspense fallback={null}>
        {palette && <Palette items={items} onClose={() => setPalette(false)} />}
        {help && <KeyHelp items={items} onClose={() => setHelp(false)} />}
      </Suspense>
    </div>
  );
}

export function useWaiting() {
  return useQuery({
    queryKey: ["approvals"],
    queryFn: () => get<Schemas["ListApprovalsResponse"]>("/v1/approvals", { page_size: 100 }),
    // A call without a decision expires without an event.
    refetchInterval: usePolling() || 60_000,
  });
}

function WaitingCount() {
  const waiting = useWaiting().data?.approvals.length ?? 0;
  return waiting > 0 ? <span className="count">{waiting}</span> : null;
}

const THEMES = ["", "light", "dark"];

function nextTheme() {
  const now = THEMES.indexOf(document.documentElement.dataset["theme"] ?? "");
  const next = THEMES[(now + 1) % THEMES.length]!;
  document.documentElement.dataset["theme"] = next;
  localStorage.setItem("podium.theme", next);
}

export function restoreTheme() {
  document.documentElement.dataset["theme"] = localStorage.getItem("podium.theme") ?? "";
}

export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;
}

function useKeys(items: NavItem[], go: (path: string) => void, openPalette: () => void, openHelp: () => void) {
  useEffect(() => {
    let prefixed = 0;
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        openPalette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.key === "?") openHelp();
      else if (event.key === "g") prefixed = Date.now();
      else if (Date.now() - prefixed < PREFIX_MS) {
        prefixed = 0;
        const item = items.find((each) => each.key === event.key);
        if (item) go(item.path);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
}
