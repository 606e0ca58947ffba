import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";

import { get, send } from "../api/http";
import { useTitle } from "../ui/Page";
import { words } from "../words/en";
import { resume, SESSION } from "./session";

interface SignInOption {
  name: string;
  path: string;
}

export default function SignIn() {
  useTitle(words.signIn.title);
  const client = useQueryClient();
  const failed = new URLSearchParams(location.search).get("sign-in");
  const [error, setError] = useState<string | null>(failed && (words.signIn.failed[failed] ?? failed));
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const providers = useQuery({
    queryKey: ["sign-in-options"],
    queryFn: () => get<SignInOption[]>("/console/sign-in-options"),
  });
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await send("POST", "/v1/session", { headers: { authorization: `Bearer ${key.trim()}` } });
      setKey("");
      const session = await resume();
      if (session === null) setError(words.signIn.noCookie);
      else client.setQueryData(SESSION, session);
    } catch (problem) {
      setError((problem as Error).message);
    }
    setBusy(false);
  };
  return (
    <main className="sign-in">
      <Form onSubmit={(event) => void submit(event)} className="card">
        <h1>{words.signIn.title}</h1>
        {providers.data?.map(({ name, path }) => (
          <a key={path} className="button" href={path}>
            {words.signIn.with(name)}
          </a>
        ))}
        <TextField value={key} onChange={setKey} isRequired type="password" autoComplete="off">
          <Label>{words.signIn.key}</Label>
          <Input placeholder="pod_…" spellCheck={false} />
        </TextField>
        <p className="muted small">{words.signIn.hint}</p>
        {error && (
          <p className="error" role="alert">
            {error}
          </p>
        )}
        <Button type="submit" className="primary" isDisabled={busy || !key.trim()}>
          {words.signIn.open}
        </Button>
        <p className="muted small">{words.signIn.where}</p>
      </Form>
    </main>
  );
}
