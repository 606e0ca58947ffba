import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense } from "react";

import { get, type Schemas } from "../api/http";
import { usePolling } from "../app/live";
import { count, exactMoney } from "../format";
import { Choice, Cost, Facts } from "../ui/parts";
import { Empty, Loading, Page, Skeleton } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.spend;
const Savings = lazy(() => import("./Savings"));
const SpendChart = lazy(() => import("./SpendChart"));
const DAYS: Record<string, number> = { day: 1, week: 7, month: 30, quarter: 90 };

export type SpendRow = Schemas["SpendRow"];

const keyOf = (row: SpendRow) => row.values[0] ?? "";

function since(range: string): string {
  const start = new Date(Date.now() - (DAYS[range] ?? 7) * 86_400_000);
  if (range === "day") start.setUTCMinutes(0, 0, 0);
  else start.setUTCHours(0, 0, 0, 0);
  return start.toISOString();
}

function useSpend(dimensions: string[], start: string) {
  return useQuery({
    queryKey: ["spend", dimensions, start],
    queryFn: () =>
      get<Schemas["ReportSpendResponse"]>("/v1/spend", {
        group_by: dimensions.map((each) => `SPEND_DIMENSION_${each}`),
        start_time: start,
        page_size: 1000,
      }),
    placeholderData: (before) => before,
    refetchInterval: usePolling(),
  });
}

export default function Spend() {
  const search = useSearch({ strict: false }) as Record<string, string | undefined>;
  const navigate = useNavigate();
  const range = search["range"] ?? "week";
  const by = search["by"] ?? "TOOL";
  const start = since(range);
  const rows = useSpend([by], start);
  const bucket = search["bucket"] ?? (range === "quarter" ? "WEEK" : "DAY");
  const buckets = useSpend([bucket, by], start);
  const change = (changed: Record<string, string>) =>
    void navigate({ to: "/spend", search: { range, by, bucket, ...changed }, replace: true });
  return (
    <Page title={w.title}>
      <div className="filters">
        <Choice label="Time" value={range} options={w.ranges} onChange={(value) => change({ range: value })} />
        <Choice label={w.bucket} value={bucket} options={w.buckets} onChange={(value) => change({ bucket: value })} />
        <Choice label={w.by} value={by} options={w.dims} onChange={(value) => change({ by: value })} />
      </div>
      <Loading query={rows}>
        {(page) => {
          const total = sum(page.rows);
          return page.rows.length === 0 ? (
            <Empty title={w.empty} />
          ) : (
            <>
              <Facts
                facts={[
                  [w.total, <Cost key="total" value={total} />],
                  [w.unknown, count(page.rows.reduce((all, row) => all + Number(row.unpriced_call_count ?? 0), 0))],
                  [w.calls, count(page.rows.reduce((all, row) => all + Number(row.call_count ?? 0), 0))],
                ]}
              />
              <Suspense fallback={<Skeleton rows={4} />}>
                {buckets.data && <SpendChart rows={buckets.data.rows} />}
              </Suspense>
              <Table
                label={w.title}
                rows={page.rows}
                rowKey={(row) => keyOf(row)}
                columns={[
                  { title: w.dims[by] ?? by, cell: (row) => keyOf(row) || "–" },
                  { title: w.total, numeric: true, cell: (row) => <Cost value={row.amounts[0]} /> },
                  { title: "Share", numeric: true, cell: (row) => share(row, total) },
                  { title: w.calls, numeric: true, cell: (row) => count(row.call_count) },
                  { title: "Exact", minor: true, numeric: true, cell: (row) => exactMoney(row.amounts[0]) },
                ]}
              />
              <Suspense fallback={<Skeleton rows={2} />}>
                <Savings start={start} />
              </Suspense>
            </>
          );
        }}
      </Loading>
    </Page>
  );
}

function sum(rows: readonly SpendRow[]): Schemas["Money"] {
  // For display alone: the exact sums are those of the rows.
  const amount = rows.reduce((all, row) => all + Number(row.amounts[0]?.amount ?? 0), 0);
  return { amount: String(amount), currency_code: rows[0]?.amounts[0]?.currency_code ?? "USD" };
}

function share(row: SpendRow, total: Schemas["Money"]): string {
  const whole = Number(total.amount);
  return whole ? `${((100 * Number(row.amounts[0]?.amount ?? 0)) / whole).toFixed(1)} %` : "–";
}
