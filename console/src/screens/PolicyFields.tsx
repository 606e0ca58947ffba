import { useState, type ReactNode } from "react";
import { Checkbox, Input, Label, Text, TextArea, TextField } from "react-aria-components";

import { withoutUnset } from "../format";
import { Choice } from "../ui/parts";
import { words } from "../words/en";
import { listOf, selectorOf, selectorText, specText, type PolicySpec } from "./policySpec";

const w = words.policies;
const WEIGHTS = ["outcome", "compute", "latency"] as const;

interface FieldsProps {
  spec: Partial<PolicySpec>;
  onChange: (spec: Partial<PolicySpec>) => void;
  /** All stored policies: presets give the weights that the spec leaves open. */
  policies: PolicySpec[];
  isNew: boolean;
}

/** The fields of a policy, and all of it as JSON: what has no field is written there. */
export function PolicyFields({ spec, onChange, policies, isNew }: FieldsProps) {
  // Counts specs that did not come from the fields, which then show them.
  const [revision, setRevision] = useState(0);
  const change = (changed: Partial<PolicySpec>) => onChange(withoutUnset({ ...spec, ...changed }));
  const preset = policies.find((each) => each.name === (spec.preset ?? "").replace("POLICY_PRESET_", "").toLowerCase().replaceAll("_", "-"));
  const weight = (name: (typeof WEIGHTS)[number]) => spec.preferences?.[name] ?? preset?.preferences?.[name] ?? (name === "outcome" ? 1 : 0);
  return (
    <>
      <div key={revision} className="form-grid">
        <Line label={w.fields.name} value={spec.name ?? ""} onChange={(name) => change({ name })} isDisabled={!isNew} hint={w.fields.nameHint} />
        <label className="field">
          {w.fields.preset}
          <Choice
            label={w.fields.preset}
            value={spec.preset ?? ""}
            options={w.presets}
            onChange={(value) => change({ preset: (value || undefined) as PolicySpec["preset"], preferences: undefined })}
          />
        </label>
        <fieldset>
          <legend>{w.fields.weights}</legend>
          {WEIGHTS.map((name) => (
            <label key={name} className="weight">
              <span>{w.weights[name]}</span>
              <input
                type="range"
                min={0}
                max={1}
                step={0.05}
                value={weight(name)}
                onChange={(event) =>
                  change({ preferences: { ...spec.preferences, [name]: Number(event.target.value) } as PolicySpec["preferences"] })
                }
              />
              <output>{weight(name).toFixed(2)}</output>
            </label>
          ))}
        </fieldset>
        <Line label={w.fields.allow} value={selectorText(spec.allow)} onChange={(text) => change({ allow: selectorOf(text) })} hint={w.fields.allowHint} />
        <Line label={w.fields.deny} value={selectorText(spec.deny)} onChange={(text) => change({ deny: selectorOf(text) })} hint={w.fields.selectorHint} />
        <Line label={w.fields.approval} value={selectorText(spec.approval)} onChange={(text) => change({ approval: selectorOf(text) })} hint={w.fields.approvalHint} />
        <Line label={w.fields.tags} value={(spec.required_tags ?? []).join(", ")} onChange={(text) => change({ required_tags: listOf(text) })} hint={w.fields.tagsHint} />
        <Line
          label={w.fields.price}
          value={spec.price_ceiling?.amount ?? ""}
          inputMode="decimal"
          onChange={(amount) => change({ price_ceiling: amount.trim() ? { amount: amount.trim(), currency_code: spec.price_ceiling?.currency_code || "USD" } : undefined })}
          hint={w.fields.priceHint}
        />
        <Line
          label={w.fields.latency}
          value={(spec.latency_ceiling ?? "").replace(/s$/, "")}
          inputMode="decimal"
          onChange={(text) => change({ latency_ceiling: text.trim() ? `${text.trim()}s` : undefined })}
        />
        <label className="field">
          {w.fields.unknownPrice}
          <Choice
            label={w.fields.unknownPrice}
            value={spec.unknown_price ?? ""}
            options={w.unknownPrices}
            onChange={(value) => change({ unknown_price: (value || undefined) as PolicySpec["unknown_price"] })}
          />
        </label>
        <Line label={w.fields.budgets} value={(spec.budget_ids ?? []).join(", ")} onChange={(text) => change({ budget_ids: listOf(text) })} />
        <TextField defaultValue={spec.instruction ?? ""} onChange={(instruction) => change({ instruction })} maxLength={2000}>
          <Label>{w.fields.instruction}</Label>
          <TextArea rows={2} />
        </TextField>
        <Tick selected={spec.self_approval ?? false} onChange={(self_approval) => change({ self_approval })}>{w.fields.selfApproval}</Tick>
        <Tick selected={spec.training_consent ?? false} onChange={(training_consent) => change({ training_consent })}>{w.fields.consent}</Tick>
      </div>
      <Json
        spec={spec}
        onChange={(written) => {
          onChange(isNew ? written : { ...written, name: spec.name! });
          setRevision((before) => before + 1);
        }}
      />
    </>
  );
}

interface LineProps {
  label: string;
  value: string;
  onChange: (text: string) => void;
  hint?: string;
  isDisabled?: boolean;
  inputMode?: "decimal";
}

/** A line of text of its own: what it means is written back in another form. */
function Line({ label, value, onChange, hint, isDisabled, inputMode }: LineProps) {
  return (
    <TextField defaultValue={value} onChange={onChange} isDisabled={isDisabled} inputMode={inputMode}>
      <Label>{label}</Label>
      <Input autoComplete="off" spellCheck={false} />
      {hint && <Text slot="description" className="muted small">{hint}</Text>}
    </TextField>
  );
}

function Tick({ selected, onChange, children }: { selected: boolean; onChange: (now: boolean) => void; children: ReactNode }) {
  return (
    <Checkbox defaultSelected={selected} onChange={onChange}>
      <span className="box" aria-hidden="true" /> {children}
    </Checkbox>
  );
}

function Json({ spec, onChange }: { spec: Partial<PolicySpec>; onChange: (spec: Partial<PolicySpec>) => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  const [fault, setFault] = useState("");
  const change = (text: string) => {
    setTyped(text);
    try {
      onChange(JSON.parse(text));
      setFault("");
    } catch (error) {
      setFault((error as Error).message);
    }
  };
  return (
    <details>
      <summary>{w.fields.json}</summary>
      <TextField
        aria-label={w.fields.json}
        value={typed ?? specText(spec as PolicySpec)}
        onChange={change}
        onBlur={() => !fault && setTyped(null)}
      >
        <TextArea rows={14} spellCheck={false} className="react-aria-TextArea mono" />
      </TextField>
      {fault && <p className="error" role="alert">{fault}</p>}
    </details>
  );
}
