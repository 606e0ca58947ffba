import { name } from "../format";
import { Badge } from "../ui/parts";
import type { Episode } from "../api/episodes";

const TONES: Record<string, "good" | "bad" | "wait"> = {
  STOP_REASON_ANSWERED: "good",
  STOP_REASON_FAILED: "bad",
  STOP_REASON_CANCELLED: "wait",
};

/** How an episode ended, or what it does now. */
export function Ending({ episode }: { episode: Episode }) {
  if (!episode.end_time) {
    const waits = episode.state === "EPISODE_STATE_WAITING";
    return <Badge tone={waits ? "wait" : "plain"}>{name(episode.state, "EPISODE_STATE_")}</Badge>;
  }
  if (episode.score !== undefined && episode.score < 1) {
    return <Badge tone="bad">wrong</Badge>;
  }
  return <Badge tone={TONES[episode.stop_reason ?? ""] ?? "bad"}>{name(episode.stop_reason, "STOP_REASON_")}</Badge>;
}
