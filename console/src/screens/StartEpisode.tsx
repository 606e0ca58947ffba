import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Button, Form, Label, TextArea, TextField } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { Choice, Popup } from "../ui/parts";
import { words } from "../words/en";

const w = words.episodes;

interface StartProps {
  onClose: () => void;
  /** The spec of an episode to run again. */
  from?: Partial<Schemas["EpisodeSpec"]>;
}

export function StartEpisode({ onClose, from }: StartProps) {
  const navigate = useNavigate();
  const [task, setTask] = useState(from?.task ?? "");
  const [model, setModel] = useState(from?.model ?? "");
  const [policy, setPolicy] = useState(from?.policy ?? "");
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
      write<Schemas["StartEpisodeResponse"]>("POST", "/v1/episodes", { spec: { task, model, policy } }),
    onSuccess: ({ episode }) => {
      onClose();
      void navigate({ to: "/episodes/$id", params: { id: episode!.id! } });
    },
  });
  const named = (names: string[]) =>
    Object.fromEntries([["", w.byDefault], ...[...new Set(names)].map((each) => [each, each])]);
  const orchestrators = (models.data?.data ?? []).map(({ id }) => id).filter((id) => !/[/:]/.test(id));
  return (
    <Popup title={w.start} open onClose={onClose}>
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
