import { Bar, BarChart, CartesianGrid, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";

import { day, money, time } from "../format";
import type { SpendRow } from "./Spend";

const SERIES_MAX = 7;

/** Spending over time, stacked by the most expensive values. The table below is the legend. */
export default function SpendChart({ rows }: { rows: readonly SpendRow[] }) {
  const totals = new Map<string, number>();
  const days = new Map<string, Record<string, number | string>>();
  for (const row of rows) {
    const [date = "", value = ""] = row.values;
    const amount = Number(row.amounts[0]?.amount ?? 0);
    totals.set(value, (totals.get(value) ?? 0) + amount);
    const bar = days.get(date) ?? { date };
    bar[value || "–"] = amount;
    days.set(date, bar);
  }
  const names = [...totals.entries()].sort((a, b) => b[1] - a[1]).slice(0, SERIES_MAX).map(([name]) => name || "–");
  const data = [...days.values()].sort((a, b) => String(a["date"]).localeCompare(String(b["date"])));
  return (
    <div className="chart" aria-hidden="true">
      <ResponsiveContainer width="100%" height={240}>
        <BarChart accessibilityLayer={false} data={data} margin={{ left: 8, right: 8 }}>
          <CartesianGrid vertical={false} stroke="var(--edge-soft)" />
          <XAxis dataKey="date" tickFormatter={(value: string) => (value.length > 10 ? time(value).slice(0, 12) : day(value).slice(0, 6))} stroke="var(--muted)" fontSize={12} />
          <YAxis tickFormatter={(value: number) => money({ amount: String(value) })} stroke="var(--muted)" fontSize={12} width={88} />
          <Tooltip
            cursor={{ fill: "var(--sunken)" }}
            contentStyle={{ background: "var(--raised)", border: "1px solid var(--edge)", color: "var(--text)" }}
            formatter={(value) => money({ amount: String(value) })}
          />
          {names.map((name, place) => (
            <Bar key={name} dataKey={name} stackId="spend" fill={`var(--series-${place + 1})`} maxBarSize={64} isAnimationActive={false} />
          ))}
        </BarChart>
      </ResponsiveContainer>
    </div>
  );
}
