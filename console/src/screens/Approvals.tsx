import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { Button, Input, Label, TextField } from "react-aria-components";

import { write, type Schemas } from "../api/http";
import { useWaiting } from "../app/Shell";
import { duration, name, pretty } from "../format";
import { Code, Cost, Facts } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { words } from "../words/en";

const w = words.approvals;
const UNDO_S = 5;

type Waiting = Schemas["WaitingApproval"];

const keyOf = (each: Waiting) => `${each.episode_id}/${each.turn}/${each.call?.index ?? 0}`;

export default function Approvals() {
  const waiting = useWaiting();
  const count = waiting.data?.approvals.length ?? 0;
  return (
    <Page title={count ? `(${count}) ${w.title}` : w.title}>
      <Loading query={waiting}>
        {({ approvals }) =>
          approvals.length === 0 ? (
            <Empty title={w.empty} hint={w.emptyHint} />
          ) : (
            <ul className="cards">
              {[...approvals]
                .sort((a, b) => Date.parse(a.expire_time ?? "") - Date.parse(b.expire_time ?? ""))
                .map((each) => (
                  <WaitingCall key={keyOf(each)} waiting={each} />
                ))}
            </ul>
          )
        }
      </Loading>
    </Page>
  );
}

function WaitingCall({ waiting }: { waiting: Waiting }) {
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const decide = useMutation({
    mutationFn: (approved: boolean) =>
      write("POST", `/v1/episodes/${waiting.episode_id}/approve`, {
        turn: waiting.turn,
        call_index: waiting.call?.index ?? 0,
        approved,
        reason,
      }),
    onSettled: () => client.invalidateQueries({ queryKey: ["approvals"] }),
  });
  const { left, start, undo } = useUndo(() => decide.mutate(true));
  const expires = waiting.expire_time ? Date.parse(waiting.expire_time) - Date.now() : 0;
  return (
    <li className="card">
      <h2>
        {waiting.call?.tool_name}{" "}
        <span className="muted small">
          {w.of} {waiting.started_by} · {w.expires} {expires > 0 ? `in ${duration(expires)}` : "now"}
        </span>
      </h2>
      {waiting.task && <p className="answer">{waiting.task}</p>}
      <Facts
        facts={[
          [w.price, waiting.price ? <Cost key="price" value={waiting.price} /> : words.unknownAmount],
          [words.tools.sideEffect, name(waiting.side_effect, "SIDE_EFFECT_")],
          [words.episode.policy, waiting.policy_name || "–"],
          [words.policies.rule, waiting.reason || "–"],
        ]}
      />
      <Code text={pretty(waiting.call?.arguments_json ?? "")} label={words.episode.arguments} />
      {!waiting.approvable && <p className="notice">{w.own}</p>}
      <TextField value={reason} onChange={setReason} maxLength={1000}>
        <Label>{w.reason}</Label>
        <Input />
      </TextField>
      {decide.error && <p className="error" role="alert">{decide.error.message}</p>}
      <div className="actions">
        {left === null ? (
          <>
            <Button className="primary" isDisabled={!waiting.approvable || decide.isPending} onPress={start}>{w.approve}</Button>
            <Button isDisabled={decide.isPending} onPress={() => decide.mutate(false)}>{w.deny}</Button>
          </>
        ) : (
          <>
            <span role="status">{w.sending(left)}</span>
            <Button onPress={undo}>{w.undo}</Button>
          </>
        )}
        <Link to="/episodes/$id" params={{ id: waiting.episode_id! }}>{w.open}</Link>
      </div>
    </li>
  );
}

/** Seconds until `done`, null while nothing is pending; leaving the page undoes it. */
function useUndo(done: () => void) {
  const [left, setLeft] = useState<number | null>(null);
  const latest = useRef(done);
  latest.current = done;
  useEffect(() => {
    if (left === null) return;
    const timer = setTimeout(() => {
      if (left > 1) {
        setLeft(left - 1);
        return;
      }
      setLeft(null);
      latest.current();
    }, 1000);
    return () => clearTimeout(timer);
  }, [left]);
  return { left, start: () => setLeft(UNDO_S), undo: () => setLeft(null) };
}
