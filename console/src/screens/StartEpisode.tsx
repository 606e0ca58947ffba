import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Button, Form, Label, TextArea, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { withoutUnset } from "../format";
import { Choice, Popup } from "../ui/parts";
import { words } from "../words/en";

const w = words.episodes;

interface StartProps {
  onClose: () => void;
  /** An episode to run again: the two are shown beside each other. */
  again?: Schemas["Episode"];
}

/** The rest of the order; its place in a group, below a parent or as a replay was the first run's alone. */
function repeated(spec: Partial<Schemas["EpisodeSpec"]>): object {
  const { group: _group, parent: _parent, replay_of: _replayOf, ...rest } = spec;
  return withoutUnset(rest);
}

export function StartEpisode({ onClose, again }: StartProps) {
  const navigate = useNavigate();
  const from: Partial<Schemas["EpisodeSpec"]> = again?.spec ?? {};
  const [task, setTask] = useState(from.task ?? "");
  const [model, setModel] = useState(from.model ?? "");
  const [policy, setPolicy] = useState(from.policy ?? "");
  const models = useQuery({
    queryKey: ["models"],
    queryFn: () => get<{ data: { id: string }[] }>("/v1/models"),
  });
  const policies = useQuery({
    queryKey: ["policies"],
    queryFn: () => get<Schemas["ListPoliciesResponse"]>("/v1/policies", { page_size: 500 }),
  });
  const start = useMutation({
    mutationFn: () =>
      write<Schemas["StartEpisodeResponse"]>("POST", "/v1/episodes", { spec: { ...repeated(from), task, model, policy, stream_answer: true } }),
    onSuccess: ({ episode }) => {
      onClose();
      if (again) void navigate({ to: "/episodes/compare", search: { ids: `${again.id},${episode!.id}` } });
      else void navigate({ to: "/episodes/$id", params: { id: episode!.id! } });
    },
  });
  const named = (names: string[]) =>
    Object.fromEntries([["", w.byDefault], ...[...new Set(names)].map((each) => [each, each])]);
  const orchestrators = (models.data?.data ?? []).map(({ id }) => id).filter((id) => !/[/:]/.test(id));
  return (
    <Popup title={again ? words.episode.again : w.start} open onClose={onClose}>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          start.mutate();
        }}
      >
        <TextField value={task} onChange={setTask} isRequired autoFocus>
          <Label>{w.task}</Label>
          <TextArea
            rows={4}
            placeholder={w.taskHint}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && task.trim()) start.mutate();
            }}
          />
        </TextField>
        <div className="field-row">
          <label>
            {w.model}
            <Choice label={w.model} value={model} options={named(orchestrators)} onChange={setModel} />
          </label>
          <label>
            {w.policy}
            <Choice
              label={w.policy}
              value={policy}
              options={named((policies.data?.policies ?? []).map((each) => each.spec!.name!))}
              onChange={setPolicy}
            />
          </label>
        </div>
        {start.error && <p className="error" role="alert">{start.error.message}</p>}
        <div className="actions">
          <Button type="submit" className="primary" isDisabled={start.isPending || !task.trim()}>{w.begin}</Button>
          <Button onPress={onClose}>{words.cancel}</Button>
        </div>
      </Form>
    </Popup>
  );
}
