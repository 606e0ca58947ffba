interface IntervalProps {
  label: string;
  mean: number;
  lower: number;
  upper: number;
  /** The ends of the axis, which the intervals of a table share. */
  from: number;
  to: number;
  /** A place on the axis to compare with. */
  mark?: number;
}

/** A value as a dot on its interval. */
export function Interval({ label, mean, lower, upper, from, to, mark }: IntervalProps) {
  const at = (value: number) => `${(100 * Math.min(1, Math.max(0, (value - from) / (to - from || 1)))).toFixed(2)}%`;
  return (
    <svg className="interval" role="img" aria-label={label}>
      {mark !== undefined && <line className="interval-mark" x1={at(mark)} x2={at(mark)} y1="0" y2="100%" />}
      <line className="interval-line" x1={at(lower)} x2={at(upper)} y1="50%" y2="50%" />
      <circle className="interval-dot" cx={at(mean)} cy="50%" r="4" />
    </svg>
  );
}
