import { diffLines } from "diff";

import { words } from "../words/en";

const CONTEXT_LINES = 3;

/** Lines of two texts that differ, with some around them: - before, + after. */
export default function Diff({ label, before, after }: { label: string; before: string; after: string }) {
  const parts = diffLines(before, after);
  if (parts.every((part) => !part.added && !part.removed)) return <p className="muted">{words.same}</p>;
  return (
    <pre className="code diff" tabIndex={0} aria-label={label}>
      {parts.map((part, place) => {
        const lines = part.value.replace(/\n$/, "").split("\n");
        const kind = part.added ? "added" : part.removed ? "removed" : "same";
        const sign = { added: "+", removed: "-", same: " " }[kind];
        const shown = kind === "same" ? shortened(lines, place > 0, place < parts.length - 1) : lines;
        return (
          <span key={place} className={kind}>
            {shown.map((line) => `${sign} ${line}\n`).join("")}
          </span>
        );
      })}
    </pre>
  );
}

function shortened(lines: string[], afterChange: boolean, beforeChange: boolean): string[] {
  const head = afterChange ? CONTEXT_LINES : 0;
  const tail = beforeChange ? CONTEXT_LINES : 0;
  return lines.length <= head + tail + 1 ? lines : [...lines.slice(0, head), "…", ...lines.slice(lines.length - tail)];
}
