import { createRootRoute, createRoute, createRouter, lazyRouteComponent, Navigate } from "@tanstack/react-router";

import { Empty, Failure } from "../ui/Page";
import { words } from "../words/en";
import { NAVIGATION } from "./navigation";
import { useSession } from "./session";
import { Shell } from "./Shell";

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => <Empty title={words.notFound} />,
});

function Home() {
  const { operations } = useSession();
  const first = NAVIGATION.flatMap((group) => group.items).find((item) => operations.includes(item.operation));
  return first ? <Navigate to={first.path} replace /> : <Empty title={words.noAccess} hint={words.noAccessHint} />;
}

/** Search parameters are texts: each screen reads those that it knows. */
const texts = (search: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(Object.entries(search).map(([name, value]) => [name, String(value)]));

const screens = {
  "/episodes": lazyRouteComponent(() => import("../screens/Episodes")),
  "/episodes/compare": lazyRouteComponent(() => import("../screens/Compare")),
  "/episodes/$id": lazyRouteComponent(() => import("../screens/Episode")),
  "/approvals": lazyRouteComponent(() => import("../screens/Approvals")),
  "/tools": lazyRouteComponent(() => import("../screens/Tools")),
  "/tools/$name": lazyRouteComponent(() => import("../screens/Tools")),
  "/tool-import": lazyRouteComponent(() => import("../screens/ToolImport")),
  "/policies": lazyRouteComponent(() => import("../screens/Policies")),
  "/policies/$name": lazyRouteComponent(() => import("../screens/Policies")),
  "/policy-editor": lazyRouteComponent(() => import("../screens/PolicyEditor")),
  "/access": lazyRouteComponent(() => import("../screens/Access")),
  "/corpora": lazyRouteComponent(() => import("../screens/Corpora")),
  "/evaluations": lazyRouteComponent(() => import("../screens/Evaluations")),
  "/evaluations/$id": lazyRouteComponent(() => import("../screens/Evaluations")),
  "/evaluation-compare": lazyRouteComponent(() => import("../screens/EvaluationCompare")),
  "/spend": lazyRouteComponent(() => import("../screens/Spend")),
  "/budgets": lazyRouteComponent(() => import("../screens/Budgets")),
  "/ledger": lazyRouteComponent(() => import("../screens/Ledger")),
  "/changes": lazyRouteComponent(() => import("../screens/Changes")),
  "/health": lazyRouteComponent(() => import("../screens/Health")),
  "/training": lazyRouteComponent(() => import("../screens/Training")),
  "/versions/$name": lazyRouteComponent(() => import("../screens/Versions")),
  "/versions": lazyRouteComponent(() => import("../screens/Versions")),
  "/keys": lazyRouteComponent(() => import("../screens/Keys")),
  "/limits": lazyRouteComponent(() => import("../screens/Limits")),
  "/secrets": lazyRouteComponent(() => import("../screens/Secrets")),
  "/webhooks": lazyRouteComponent(() => import("../screens/Webhooks")),
};

const routes = Object.entries(screens).map(([path, component]) =>
  createRoute({ getParentRoute: () => root, path, component, validateSearch: texts }),
);

export const router = createRouter({
  routeTree: root.addChildren([createRoute({ getParentRoute: () => root, path: "/", component: Home }), ...routes]),
  basepath: "/console",
  defaultPreload: "intent",
  defaultErrorComponent: ({ error, reset }) => <Failure error={error} retry={reset} />,
  // A search of texts: numbers and lists would be quoted in the address.
  parseSearch: (search) => Object.fromEntries(new URLSearchParams(search)),
  stringifySearch: (search) => {
    const text = new URLSearchParams(search as Record<string, string>).toString();
    return text ? `?${text}` : "";
  },
});
