import { words } from "../words/en";

export interface NavItem {
  path: string;
  title: string;
  /** The operation that lists what the page shows: without it the entry is not there. */
  operation: string;
  key?: string;
}

export interface NavGroup {
  title: string;
  items: NavItem[];
}

const n = words.nav;

export const NAVIGATION: NavGroup[] = [
  {
    title: n.work,
    items: [
      { path: "/episodes", title: n.episodes, operation: "ListEpisodesRest", key: "e" },
      { path: "/approvals", title: n.approvals, operation: "ListApprovalsRest", key: "a" },
    ],
  },
  {
    title: n.build,
    items: [
      { path: "/tools", title: n.tools, operation: "ListToolsRest", key: "t" },
      { path: "/policies", title: n.policies, operation: "ListPoliciesRest", key: "p" },
      { path: "/access", title: n.access, operation: "ListPolicyBindingsRest" },
      { path: "/corpora", title: n.corpora, operation: "ListCorporaRest" },
      { path: "/evaluations", title: n.evaluations, operation: "ListEvaluationsRest", key: "v" },
    ],
  },
  {
    title: n.money,
    items: [
      { path: "/spend", title: n.spend, operation: "ReportSpendRest", key: "s" },
      { path: "/budgets", title: n.budgets, operation: "ListBudgetsRest", key: "b" },
    ],
  },
  {
    title: n.trust,
    items: [
      { path: "/ledger", title: n.ledger, operation: "VerifyLedgerRest", key: "l" },
      { path: "/changes", title: n.changes, operation: "ListAuditLog", key: "c" },
    ],
  },
  {
    title: n.improve,
    items: [
      { path: "/training", title: n.training, operation: "ListLearningStepsRest" },
      { path: "/versions", title: n.versions, operation: "ListModelVersionsRest" },
    ],
  },
  { title: n.platform, items: [{ path: "/health", title: n.health, operation: "GetPlatformStatus", key: "h" }] },
  {
    title: n.admin,
    items: [
      { path: "/keys", title: n.keys, operation: "ListApiKeys", key: "k" },
      { path: "/limits", title: n.limits, operation: "GetLimits" },
      { path: "/webhooks", title: n.webhooks, operation: "ListWebhooksRest" },
      { path: "/secrets", title: n.secrets, operation: "ListSecretsRest" },
    ],
  },
];
