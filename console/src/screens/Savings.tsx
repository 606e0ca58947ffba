import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { percent } from "../format";
import { Choice, Cost, Facts } from "../ui/parts";
import { words } from "../words/en";

const w = words.savings;

interface Model {
  name: string;
  spec: Schemas["PriceSpec"];
}

interface Compared {
  spent: number;
  other: number;
  own: number;
  currency: string;
  leftOut: string[];
}

/** What the same calls of models come to at the price of one of them. */
export default function Savings({ start }: { start: string }) {
  const [chosen, setChosen] = useState("");
  const models = useQuery({ queryKey: ["priced-models"], queryFn: pricedModels });
  const run = useMutation({ mutationFn: (model: Model) => compared(models.data ?? [], model, start) });
  const model = models.data?.find((each) => each.name === chosen) ?? models.data?.[0];
  if (!model) return null;
  const found = run.data;
  const amount = (value: number) => ({ amount: String(value), currency_code: found?.currency ?? "USD" });
  return (
    <section aria-label={w.title}>
      <h2>{w.title}</h2>
      <p className="muted small">{w.hint}</p>
      <div className="actions">
        <Choice
          label={w.against}
          value={model.name}
          options={Object.fromEntries(models.data!.map((each) => [each.name, each.name]))}
          onChange={setChosen}
        />
        <Button onPress={() => run.mutate(model)} isDisabled={run.isPending}>{w.compare}</Button>
      </div>
      {run.error && <p className="error" role="alert">{run.error.message}</p>}
      {found && (
        <div role="status">
          <Facts
            facts={[
              [w.spent, <Cost key="spent" value={amount(found.spent)} />],
              [w.own, <Cost key="own" value={amount(found.own)} />],
              [w.other(run.variables.name), <Cost key="other" value={amount(found.other)} />],
              [w.saved, <Saved key="saved" found={found} />],
            ]}
          />
          {found.leftOut.length > 0 && <p className="notice">{w.leftOut(found.leftOut.join(", "))}</p>}
        </div>
      )}
    </section>
  );
}

function Saved({ found }: { found: Compared }) {
  const saved = found.other - found.spent;
  return (
    <>
      <Cost value={{ amount: String(saved), currency_code: found.currency }} />
      {found.other > 0 && ` (${percent(saved / found.other)})`}
    </>
  );
}

/** The models of tools that have a price, the most expensive output first. */
async function pricedModels(): Promise<Model[]> {
  const { tools } = await get<Schemas["ListToolsResponse"]>("/v1/tools", { page_size: 500 });
  const named = tools.flatMap((tool) =>
    (tool.spec?.connection?.llm?.models ?? [])
      .filter((each) => each.sku && each.api !== "LLM_API_OPENAI_EMBEDDINGS")
      .map((each) => ({ name: `${tool.spec!.name}/${each.alias}`, sku: each.sku })),
  );
  if (named.length === 0) return [];
  const { prices } = await get<Schemas["GetEffectivePricesResponse"]>("/v1/prices/effective", {
    skus: [...new Set(named.map((each) => each.sku))].slice(0, 200),
  });
  return named
    .flatMap(({ name, sku }) => (prices[sku]?.spec ? [{ name, spec: prices[sku].spec }] : []))
    .sort((a, b) => outputRate(b.spec) - outputRate(a.spec));
}

function outputRate(spec: Schemas["PriceSpec"]): number {
  const rates = spec.components
    .filter((each) => each.dimension === "USAGE_DIMENSION_OUTPUT_TEXT")
    .map((each) => Number(each.unit_price) / Number(each.per || 1));
  return Math.max(0, ...rates);
}

async function compared(models: readonly Model[], model: Model, start: string): Promise<Compared> {
  const { currency_code: currency, components } = model.spec;
  const skus = [...new Set(models.map((each) => each.spec.sku))];
  const specs = skus.map((sku) => ({ sku, currency_code: currency, components }));
  const result: Compared = { spent: 0, other: 0, own: 0, currency, leftOut: [] };
  let token = "";
  do {
    const page: Schemas["SimulatePricesResponse"] = await write("POST", "/v1/audit/simulate", {
      specs,
      start_time: start,
      page_token: token,
    });
    page.costs.forEach((cost) => add(result, cost));
    token = page.next_page_token;
  } while (token);
  return result;
}

function add(result: Compared, cost: Schemas["SimulatedCost"]): void {
  if (!cost.model) return;
  // An orchestrator's own calls are charged under its name alone.
  const isOwn = cost.model === cost.tool;
  const amounts = isOwn ? cost.posted : [...cost.posted, ...cost.simulated];
  const unpriced = Number(cost.unpriced_posted_count) || (!isOwn && Number(cost.unpriced_simulated_count));
  if (unpriced || amounts.some((each) => each.currency_code !== result.currency)) {
    const name = `${cost.tool}/${cost.model}`;
    if (!result.leftOut.includes(name)) result.leftOut.push(name);
    return;
  }
  const posted = Number(cost.posted[0]?.amount ?? 0);
  result.spent += posted;
  if (isOwn) result.own += posted;
  else result.other += Number(cost.simulated[0]?.amount ?? 0);
}
