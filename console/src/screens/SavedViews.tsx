import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Button, Checkbox, Form, Input, Label, TextField } from "react-aria-components";

import type { Search } from "../api/episodes";
import { useViews } from "../api/views";
import { Popup } from "../ui/parts";
import { words } from "../words/en";

const w = words.views;

/** The search as a saved view has it, in one order. */
function queryOf(search: Search): string {
  const pairs = Object.entries(search).filter((pair): pair is [string, string] => Boolean(pair[1]));
  const query = new URLSearchParams(pairs);
  query.sort();
  return query.toString();
}

/** Saved filters of the list as tabs: one's own, and those that others share. */
export function SavedViews({ search }: { search: Search }) {
  const { views, save, remove } = useViews();
  const [saving, setSaving] = useState(false);
  const current = queryOf(search);
  const saved = views.data?.views ?? [];
  const shown = saved.find((view) => queryOf(Object.fromEntries(new URLSearchParams(view.query))) === current);
  return (
    <nav className="views" aria-label={w.title}>
      <Link to="/episodes" search={{}} aria-current={current === "" ? "page" : undefined}>{w.all}</Link>
      {saved.map((view) => (
        <Link
          key={view.id}
          to="/episodes"
          search={Object.fromEntries(new URLSearchParams(view.query))}
          aria-current={view === shown ? "page" : undefined}
          title={view.shared ? w.sharedBy(view.saved_by) : undefined}
        >
          {view.name}
        </Link>
      ))}
      {current !== "" && !shown && <Button className="quiet" onPress={() => setSaving(true)}>{w.save}</Button>}
      {shown?.deletable && (
        <Button className="quiet" isDisabled={remove.isPending} onPress={() => remove.mutate(shown.id)}>{w.remove(shown.name)}</Button>
      )}
      {remove.error && <span className="error" role="alert">{remove.error.message}</span>}
      {saving && (
        <SaveView
          error={save.error}
          onClose={() => setSaving(false)}
          onSave={(name, shared) => save.mutate({ name, shared, query: current }, { onSuccess: () => setSaving(false) })}
        />
      )}
    </nav>
  );
}

interface SaveViewProps {
  error: Error | null;
  onSave: (name: string, shared: boolean) => void;
  onClose: () => void;
}

function SaveView({ error, onSave, onClose }: SaveViewProps) {
  const [name, setName] = useState("");
  const [shared, setShared] = useState(false);
  return (
    <Popup title={w.save} open onClose={onClose}>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          onSave(name.trim(), shared);
        }}
      >
        <TextField value={name} onChange={setName} isRequired autoFocus maxLength={80}>
          <Label>{w.name}</Label>
          <Input />
        </TextField>
        <Checkbox isSelected={shared} onChange={setShared}>
          <span className="box" aria-hidden="true" /> {w.share}
        </Checkbox>
        {error && <p className="error" role="alert">{error.message}</p>}
        <div className="actions">
          <Button type="submit" className="primary" isDisabled={!name.trim()}>{w.saveIt}</Button>
          <Button onPress={onClose}>{words.cancel}</Button>
        </div>
      </Form>
    </Popup>
  );
}
