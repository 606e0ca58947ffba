import { useQuery } from "@tanstack/react-query";

import { get, type Schemas } from "../api/http";
import { count, percent } from "../format";
import { Facts } from "../ui/parts";
import { Interval } from "../ui/Interval";
import { Loading } from "../ui/Page";
import { words } from "../words/en";

const w = words.live;

export const useEvaluation = (id: string) =>
  useQuery({
    queryKey: ["evaluation", id],
    queryFn: () => get<Schemas["GetEvaluationResponse"]>(`/v1/evaluations/${encodeURIComponent(id)}`),
    refetchInterval: (query) => (query.state.data?.evaluation?.end_time ? false : 5_000),
  });

/** The test of a live evaluation so far, which may be looked at as often as one likes. */
export function LiveTest({ id }: { id: string }) {
  const found = useEvaluation(id);
  return <Loading query={found}>{({ evaluation, comparison }) => <Comparison traffic={evaluation?.traffic} comparison={comparison} />}</Loading>;
}

interface ComparisonProps {
  traffic: Schemas["LiveTraffic"] | undefined;
  comparison: Schemas["LiveComparison"] | undefined;
}

export function Comparison({ traffic, comparison }: ComparisonProps) {
  const { baseline_count: own = 0, candidate_count: other = 0, difference = 0, lower = -1, upper = 1, p_value } = comparison ?? {};
  const none = !own || !other;
  return (
    <>
      <Facts
        facts={[
          [w.share, percent(traffic?.share ?? 0)],
          [w.own, count(own)],
          [w.candidate, count(other)],
          [w.difference, none ? words.unknownAmount : points(difference)],
          [w.bounds, none ? words.unknownAmount : `${points(lower)} … ${points(upper)}`],
          [w.p, p_value === undefined || none ? "–" : p_value.toPrecision(2)],
        ]}
      />
      {!none && <Interval label={w.interval(points(difference), points(lower), points(upper))} mean={difference} lower={lower} upper={upper} from={-1} to={1} mark={0} />}
      <p className="muted">{none ? w.waits : lower > 0 ? w.better : upper < 0 ? w.worse : w.open}</p>
    </>
  );
}

const points = (share: number) => `${share >= 0 ? "+" : ""}${(100 * share).toFixed(1)}`;
