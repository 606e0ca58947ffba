import { Checkbox, Input, Label, Text, TextArea, TextField } from "react-aria-components";

import { words } from "../words/en";

export interface Schema {
  type?: string | string[];
  enum?: unknown[];
  description?: string;
  default?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
}

/** Written values by name; what is not written is not sent. */
export type Written = Record<string, string | boolean>;

const typeOf = (schema: Schema): string => {
  const types = [schema.type ?? ""].flat().filter((each) => each !== "null");
  return types.length === 1 ? types[0]! : "";
};

/** The arguments that are written, typed as the schema says. Throws SyntaxError for text that is no JSON. */
export function argumentsOf(schema: Schema, written: Written): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(written)) {
    if (text === "") continue;
    const field = schema.properties?.[name] ?? {};
    if (typeof text === "boolean") found[name] = text;
    else if (field.enum) found[name] = field.enum.find((each) => String(each) === text);
    else if (typeOf(field) === "string") found[name] = text;
    else found[name] = parsed(name, text, typeOf(field));
  }
  return found;
}

function parsed(name: string, text: string, type: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Any value is allowed: what is no JSON is a text.
    if (type === "") return text;
    throw new SyntaxError(words.tools.notJson(name, type));
  }
}

interface FieldsProps {
  schema: Schema;
  written: Written;
  onChange: (written: Written) => void;
}

/** One field for each property of a JSON schema; objects and lists are written as JSON. */
export function SchemaFields({ schema, written, onChange }: FieldsProps) {
  const properties = Object.entries(schema.properties ?? {});
  if (properties.length === 0) return <p className="muted">{words.tools.noArguments}</p>;
  return (
    <>
      {properties.map(([name, field]) => (
        <Field
          key={name}
          name={name}
          schema={field}
          required={schema.required?.includes(name) ?? false}
          value={written[name]}
          onChange={(value) => onChange({ ...written, [name]: value })}
        />
      ))}
    </>
  );
}

interface FieldProps {
  name: string;
  schema: Schema;
  required: boolean;
  value: string | boolean | undefined;
  onChange: (value: string | boolean) => void;
}

function Field({ name, schema, required, value, onChange }: FieldProps) {
  const type = typeOf(schema);
  if (type === "boolean") {
    return (
      <Checkbox isSelected={value === true} onChange={onChange}>
        <span className="box" aria-hidden="true" /> {name} <span className="muted small">{schema.description}</span>
      </Checkbox>
    );
  }
  const text = typeof value === "string" ? value : "";
  if (schema.enum) {
    return (
      <label className="field">
        <span>{name}{required && " *"}</span>
        <select value={text} onChange={(event) => onChange(event.target.value)} required={required}>
          <option value="">–</option>
          {schema.enum.map((each) => <option key={String(each)}>{String(each)}</option>)}
        </select>
        <span className="muted small">{schema.description}</span>
      </label>
    );
  }
  const long = !["string", "number", "integer"].includes(type);
  return (
    <TextField value={text} onChange={onChange} isRequired={required} inputMode={type === "number" || type === "integer" ? "decimal" : "text"}>
      <Label>{name}{required && " *"}</Label>
      {long || name === "code" || name === "prompt" ? <TextArea rows={3} spellCheck={false} /> : <Input autoComplete="off" />}
      <Text slot="description" className="muted small">
        {[long && type && words.tools.asJson(type), schema.description].filter(Boolean).join(" · ")}
      </Text>
    </TextField>
  );
}
