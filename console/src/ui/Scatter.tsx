import { CartesianGrid, LabelList, ResponsiveContainer, Scatter as Dots, ScatterChart, Tooltip, XAxis, YAxis } from "recharts";

interface Point {
  name: string;
  x: number;
  y: number;
  marked: boolean;
}

interface ScatterProps {
  title: string;
  x: string;
  y: string;
  formatX: (value: number) => string;
  formatY: (value: number) => string;
  points: readonly Point[];
}

/** Named points; those that are marked are joined from left to right. A table beside it has the figures. */
export default function Scatter({ title, x, y, formatX, formatY, points }: ScatterProps) {
  const line = points.filter((each) => each.marked).sort((a, b) => a.x - b.x);
  return (
    <figure className="curves" aria-label={title}>
      <div aria-hidden="true">
        <ResponsiveContainer width="100%" height={260}>
          <ScatterChart accessibilityLayer={false} margin={{ left: 0, right: 16, top: 16 }}>
            <CartesianGrid stroke="var(--edge-soft)" />
            <XAxis dataKey="x" name={x} type="number" tickFormatter={formatX} stroke="var(--muted)" fontSize={12} padding={{ right: 96 }} />
            <YAxis dataKey="y" name={y} type="number" tickFormatter={formatY} stroke="var(--muted)" fontSize={12} width={60} domain={["auto", "auto"]} />
            <Tooltip
              contentStyle={{ background: "var(--raised)", border: "1px solid var(--edge)", color: "var(--text)" }}
              formatter={(value, name) => (name === x ? formatX(Number(value)) : formatY(Number(value)))}
            />
            <Dots data={line} fill="none" line={{ stroke: "var(--series-2)" }} isAnimationActive={false} />
            <Dots data={[...points]} fill="var(--series-1)" isAnimationActive={false}>
              <LabelList dataKey="name" position="right" fill="var(--text)" fontSize={12} />
            </Dots>
          </ScatterChart>
        </ResponsiveContainer>
      </div>
      <figcaption className="muted small">{`${y} (up), ${x} (right)`}</figcaption>
    </figure>
  );
}
