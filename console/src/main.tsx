import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { ApiError } from "./api/http";
import { Live } from "./app/live";
import { router } from "./app/router";
import { SessionGate } from "./app/session";
import { restoreTheme } from "./app/Shell";
import "./ui/base.css";

restoreTheme();
// A rolling update has removed a part that this page still names: the new page names others.
addEventListener("vite:preloadError", () => {
  if (sessionStorage.getItem("podium.reloaded") === location.href) return;
  sessionStorage.setItem("podium.reloaded", location.href);
  location.reload();
});

const client = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      staleTime: 5_000,
      // Offline, too, they fail and say so; otherwise they would wait in silence.
      networkMode: "always",
    },
  },
});
client.getQueryCache().subscribe(({ query }) => {
  const error = query.state.error;
  if (error instanceof ApiError && error.status === 401 && query.queryKey[0] !== "session") {
    client.setQueryData(["session"], null);
  }
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <SessionGate>
        <Live>
          <RouterProvider router={router} />
        </Live>
      </SessionGate>
    </QueryClientProvider>
  </StrictMode>,
);
