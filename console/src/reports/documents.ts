/** Documents of reports, as the podium command computes them; money and other figures are in its units. */

export interface Bounds {
  mean: number;
  lower: number;
  upper: number;
}

export interface Ratio {
  value: number;
  /** Unset: without end. */
  lower: number | null;
  upper: number | null;
}

export interface ArmFigures {
  arm: string;
  accuracy: Bounds | null;
  least: number;
  most: number;
  judged: number;
  unjudged: number;
  not_run: number;
  diverged: number;
  cost: Bounds | null;
  cost_per_solved: Ratio | null;
  latency_p50_s: number;
  latency_p90_s: number;
  passes: Record<string, number>;
  /** Where no other arm is better for less. */
  on_front: boolean;
  paid: { agents: string; users: string; checks: string };
  spec: string;
}

interface PairFigures {
  first: string;
  second: string;
  items: number;
  accuracy: Bounds;
  p_value: number;
  adjusted: number;
  cost_ratio: Ratio | null;
  latency_ratio: Ratio | null;
}

interface Choosing {
  top_share: number | null;
  evenness: number | null;
  over_escalation: number | null;
  gap_closed: number | null;
}

export interface ArmChoices extends Choosing {
  arm: string;
  orchestrator_cost: Bounds | null;
  calls: Record<string, number>;
}

export interface Baseline extends Choosing {
  name: string;
  score: Bounds;
  cost: number;
}

export interface WorstTrial {
  item_id: string;
  question: string;
  arm: string;
  episode_id: string;
  kind: string;
  explanation: string;
  answer?: string;
  calls?: string[];
}

export interface JudgeFigures {
  judge: string;
  right: number;
  wrong: number;
  unjudged: number;
  cost: string | null;
  /** How the judge did on answers that people had labelled; null for one that was not calibrated. */
  calibration: {
    name: string;
    date: string;
    model: string;
    tool_version: number;
    agreement: { judged: number; unjudged: number; accuracy: Bounds | null; kappa: Bounds | null; false_positives: Bounds | null; false_negatives: Bounds | null };
  } | null;
}

export interface EvaluationDocument {
  kind: "evaluation";
  id: string;
  suite: string;
  state: string;
  items: number;
  repeats: number;
  console_url: string;
  arms: ArmFigures[];
  pairs: PairFigures[];
  choices: ArmChoices[];
  judges: JudgeFigures[];
  agreements: { first: string; second: string; trials: number; equal: number; kappa: Bounds | null }[];
  /** Of three judges or more. */
  all_agree: { judges: number; trials: number; kappa: number | null } | null;
  /** Trials that one judge calls right and another wrong, of which `disagreements` are some. */
  disagreeing: number;
  disagreements: { item_id: string; arm: string; episode_id: string; score: number | null; verdicts: Record<string, boolean | null> }[];
  baselines: Baseline[];
  curves: { name: string; points: { limit: number; spent: number; score: Bounds }[] }[];
  families: Record<string, Record<string, { solved: number; count: number }>>;
  failures: { kind: string; meaning: string; counts: Record<string, number> }[];
  /** Failed trials whose traces were read. */
  read: number;
  worst: WorstTrial[];
  comparability: Record<string, string>;
}

export interface DemoDocument {
  kind: "demo";
  written: string;
  models: string[];
  tools: number;
  console_url: string;
  duration_s: number;
  kinds: { kind: string; right: number; total: number }[];
  ledger: string;
  trajectories: string;
  agree: boolean;
  spend: { name: string; calls: number; unpriced_calls: number; cost: string }[];
  tasks: {
    id: string; kind: string; question: string; called: string; failed_calls: number; answer: string; stop_reason: string;
    expected: string; right: boolean; turns: number; cost: string; start_s: number; seconds: number; model_s: number; tools_s: number; episode_id: string;
  }[];
}

export interface TrainingDocument {
  kind: "training";
  run: string;
  steps: { step: string; figures: Record<string, number> }[];
}

export type ReportDocument = EvaluationDocument | DemoDocument | TrainingDocument;
