import type { ReactNode } from "react";

import { words } from "../words/en";
import type { Bounds, Ratio } from "./documents";

export function Section({ title, hint, children }: { title: string; hint?: string; children: ReactNode }) {
  return (
    <section className="report-section">
      <h2>{title}</h2>
      {hint && <p className="muted">{hint}</p>}
      {children}
    </section>
  );
}

export const short = (value: number) => String(Number(value.toPrecision(3)));

export const bounds = (value: Bounds | null, format: (value: number) => string) =>
  value ? <Bounded value={format(value.mean)} lower={format(value.lower)} upper={format(value.upper)} /> : words.unknownAmount;

export function ratio(value: Ratio | null, format: (value: number) => string): ReactNode {
  const end = (bound: number | null) => (bound === null ? "?" : format(bound));
  return value ? <Bounded value={format(value.value)} lower={end(value.lower)} upper={end(value.upper)} /> : words.unknownAmount;
}

function Bounded({ value, lower, upper }: { value: string; lower: string; upper: string }) {
  return (
    <>
      {value}
      <br />
      <span className="muted small nowrap">[{lower}, {upper}]</span>
    </>
  );
}
