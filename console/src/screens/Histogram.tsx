import { useMemo } from "react";

import type { Schemas } from "../api/http";
import { time } from "../format";

const WIDTH = 1000;
const HEIGHT = 56;

/** How many episodes started over time, and how many of them were answered. */
export function Histogram({ counts }: { counts: Schemas["SummarizeEpisodesResponse"] | undefined }) {
  const bars = useMemo(() => {
    const byTime = new Map<string, { good: number; other: number }>();
    for (const each of counts?.series ?? []) {
      const bar = byTime.get(each.start_time!) ?? { good: 0, other: 0 };
      bar[each.stop_reason === "STOP_REASON_ANSWERED" ? "good" : "other"] += each.count ?? 0;
      byTime.set(each.start_time!, bar);
    }
    return [...byTime.entries()].map(([start, bar]) => ({ start, ...bar }));
  }, [counts]);
  if (bars.length < 2) return null;
  const times = bars.map((bar) => Date.parse(bar.start));
  const [first, last] = [times[0]!, times.at(-1)!];
  const step = Math.min(...times.slice(1).map((each, place) => each - times[place]!));
  const width = (WIDTH * step) / (last - first + step);
  const most = Math.max(...bars.map((bar) => bar.good + bar.other));
  const scale = (count: number) => (HEIGHT * count) / most;
  return (
    <svg className="histogram" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label="Episodes over time">
      {bars.map((bar, place) => {
        const x = (WIDTH * (times[place]! - first)) / (last - first + step);
        return (
          <g key={bar.start}>
            <title>{`${time(bar.start)}: ${bar.good} answered, ${bar.other} others`}</title>
            <rect className="bar-other" x={x} width={width * 0.9} y={HEIGHT - scale(bar.good + bar.other)} height={scale(bar.other)} />
            <rect className="bar-good" x={x} width={width * 0.9} y={HEIGHT - scale(bar.good)} height={scale(bar.good)} />
          </g>
        );
      })}
    </svg>
  );
}
