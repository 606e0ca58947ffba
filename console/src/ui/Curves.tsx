import { CartesianGrid, Line, LineChart, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";

import { words } from "../words/en";

const w = words.charts;
const SERIES_MAX = 7;

export interface Series {
  name: string;
  /** From left to right. */
  points: readonly (readonly [number, number])[];
}

interface CurvesProps {
  title: string;
  x: string;
  series: readonly Series[];
  format: (value: number) => string;
  formatX?: (value: number) => string;
}

/** Curves over one axis. The caption says where each begins and ends, for those who do not see them. */
export default function Curves({ title, x, series, format, formatX = String }: CurvesProps) {
  const drawn = series.filter((each) => each.points.length > 0).slice(0, SERIES_MAX);
  const rows = new Map<number, Record<string, number>>();
  drawn.forEach(({ points }, place) => {
    for (const [at, value] of points) rows.set(at, { ...rows.get(at), at, [place]: value });
  });
  const data = [...rows.values()].sort((a, b) => a["at"]! - b["at"]!);
  return (
    <figure className="curves" aria-label={title}>
      <figcaption>
        <strong>{title}</strong>
        <ul className="legend">
          {drawn.map(({ name, points }, place) => (
            <li key={name}>
              <svg width="10" height="10" aria-hidden="true"><rect width="10" height="10" fill={`var(--series-${place + 1})`} /></svg>{" "}
              {(drawn.length > 1 || name !== title) && <>{name}: </>}
              <span className="nowrap">{w.fromTo(format(points[0]![1]), format(points.at(-1)![1]))}</span>
            </li>
          ))}
          {series.length > drawn.length && drawn.length === SERIES_MAX && <li>{w.more(series.length - drawn.length)}</li>}
        </ul>
      </figcaption>
      <div aria-hidden="true">
        <ResponsiveContainer width="100%" height={180}>
          <LineChart accessibilityLayer={false} data={data} margin={{ left: 0, right: 16, top: 8 }}>
            <CartesianGrid vertical={false} stroke="var(--edge-soft)" />
            <XAxis dataKey="at" type="number" domain={["dataMin", "dataMax"]} tickFormatter={formatX} stroke="var(--muted)" fontSize={12} />
            <YAxis tickFormatter={format} stroke="var(--muted)" fontSize={12} width={60} domain={["auto", "auto"]} />
            <Tooltip
              contentStyle={{ background: "var(--raised)", border: "1px solid var(--edge)", color: "var(--text)" }}
              labelFormatter={(at) => `${x} ${formatX(Number(at))}`}
              formatter={(value) => format(Number(value))}
            />
            {drawn.map(({ name, points }, place) => (
              <Line
                key={name} name={name} dataKey={String(place)} stroke={`var(--series-${place + 1})`} strokeWidth={2} connectNulls
                dot={points.length < 20} isAnimationActive={false}
              />
            ))}
          </LineChart>
        </ResponsiveContainer>
      </div>
    </figure>
  );
}
