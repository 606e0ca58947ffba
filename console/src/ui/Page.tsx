import { useEffect, type ReactNode } from "react";
import { Button } from "react-aria-components";

import { ApiError } from "../api/http";
import { words } from "../words/en";

interface PageProps {
  title: string;
  actions?: ReactNode;
  children: ReactNode;
}

export function Page({ title, actions, children }: PageProps) {
  useTitle(title);
  return (
    <section className="page">
      <header className="page-head">
        <h1>{title}</h1>
        <div className="actions">{actions}</div>
      </header>
      {children}
    </section>
  );
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Podium`;
  }, [title]);
}

export function Empty({ title, hint, children }: { title: string; hint?: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {hint && <p className="muted">{hint}</p>}
      {children}
    </div>
  );
}

export function Skeleton({ rows = 6 }: { rows?: number }) {
  return (
    <div className="skeleton" role="status" aria-label={words.loading}>
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className="skeleton-row" />
      ))}
    </div>
  );
}

export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const known = error instanceof ApiError ? error : null;
  return (
    <div className="failure" role="alert">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {known?.requestId && <p className="muted small">request {known.requestId}</p>}
      {retry && <Button onPress={retry}>{words.again}</Button>}
    </div>
  );
}

interface Loaded<T> {
  data: T | undefined;
  error: unknown;
  refetch: () => unknown;
}

/** Shows a query's rows: a skeleton first, and a failure above rows that are already there. */
export function Loading<T>({ query, children }: { query: Loaded<T>; children: (data: T) => ReactNode }) {
  return (
    <>
      {Boolean(query.error) && <Failure error={query.error} retry={() => void query.refetch()} />}
      {query.data === undefined ? !query.error && <Skeleton /> : children(query.data)}
    </>
  );
}
