import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, lazy, Suspense, useContext, type ReactNode } from "react";

import { ApiError, get, send, setCsrfToken, type Session } from "../api/http";
import { Failure, Skeleton } from "../ui/Page";

const SignIn = lazy(() => import("./SignIn"));

const SessionContext = createContext<Session | null>(null);

/** The session of the page; only below SessionGate. */
export function useSession(): Session {
  return useContext(SessionContext)!;
}

export function useMay(operation: string): boolean {
  return useSession().operations.includes(operation);
}

/** The session of the cookie; null without one. */
export async function resume(): Promise<Session | null> {
  try {
    const session = await get<Session>("/v1/session");
    setCsrfToken(session.csrf_token);
    return session;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    throw error;
  }
}

export const SESSION = ["session"];

/** Shows its children to people who are signed in, and the sign-in to others. */
export function SessionGate({ children }: { children: ReactNode }) {
  const session = useQuery({ queryKey: SESSION, queryFn: resume, staleTime: 60_000, refetchInterval: 300_000 });
  if (session.error && !session.data) {
    return <Failure error={session.error} retry={() => void session.refetch()} />;
  }
  if (session.data === undefined) return <Skeleton rows={3} />;
  if (session.data === null) {
    return (
      <Suspense fallback={<Skeleton rows={3} />}>
        <SignIn />
      </Suspense>
    );
  }
  return <SessionContext value={session.data}>{children}</SessionContext>;
}

export function useSignOut(): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    await send("DELETE", "/v1/session").catch(() => undefined);
    client.setQueryData(SESSION, null);
    client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== SESSION[0] });
  };
}
