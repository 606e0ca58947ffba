import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Button, Form, Tab, TabList, TabPanel, Tabs } from "react-aria-components";

import { get, write, type Schemas } from "../api/http";
import { useMay } from "../app/session";
import { withoutUnset } from "../format";
import { Decisions, sameVerdict } from "../ui/Decisions";
import { Empty, Failure, Loading, Page, Skeleton } from "../ui/Page";
import { words } from "../words/en";
import { PastTrial } from "./PastTrial";
import { PolicyFields } from "./PolicyFields";
import type { PolicySpec } from "./policySpec";

const w = words.policies;
const SETTLED_MS = 300;

export const usePolicies = () =>
  useQuery({
    queryKey: ["policies"],
    queryFn: () => get<Schemas["ListPoliciesResponse"]>("/v1/policies", { page_size: 500 }),
  });

/** The page of a new policy, or of the next version of the one that the address names. */
export default function PolicyEditor() {
  const { name = "" } = useSearch({ strict: false }) as { name?: string };
  const policies = usePolicies();
  return (
    <Page title={name ? w.nextVersion(name) : w.create}>
      <Loading query={policies}>
        {({ policies: all }) => {
          const found = all.find((each) => each.spec!.name === name)?.spec;
          if (name && !found) return <Empty title={w.unknown(name)} />;
          return <Editor key={name} from={found} policies={all.map((each) => each.spec!)} />;
        }}
      </Loading>
    </Page>
  );
}

function Editor({ from, policies }: { from: PolicySpec | undefined; policies: PolicySpec[] }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const mayCreate = useMay("CreatePolicyRest");
  const [spec, setSpec] = useState<Partial<PolicySpec>>(
    withoutUnset(from ?? { name: "", preset: "POLICY_PRESET_BALANCED" }),
  );
  // A policy is explained before it has a name.
  const written = JSON.stringify({ ...spec, name: spec.name || "draft" });
  const settled = useSettled(written);
  const create = useMutation({
    mutationFn: () => write<Schemas["CreatePolicyResponse"]>("POST", "/v1/policies", { spec }),
    onSuccess: async ({ policy }) => {
      await client.invalidateQueries({ queryKey: ["policies"] });
      void navigate({ to: "/policies/$name", params: { name: policy!.spec!.name } });
    },
  });
  return (
    <div className="split editor">
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <PolicyFields spec={spec} onChange={setSpec} policies={policies} isNew={!from} />
        {create.error && <p className="error" role="alert">{create.error.message}</p>}
        {mayCreate ? (
          <div className="actions">
            <Button type="submit" className="primary" isDisabled={create.isPending || !spec.name}>
              {from ? w.createVersion : w.create}
            </Button>
            <span className="muted small">{w.stored}</span>
          </div>
        ) : (
          <p className="notice">{w.tryOnly}</p>
        )}
      </Form>
      <Tabs className="tabs detail">
        <TabList aria-label={w.effect}>
          <Tab id="tools">{w.tools}</Tab>
          <Tab id="past">{w.past}</Tab>
        </TabList>
        <TabPanel id="tools"><Explained tried={settled} before={from?.name ?? ""} /></TabPanel>
        <TabPanel id="past"><PastTrial tried={written} /></TabPanel>
      </Tabs>
    </div>
  );
}

/** What the spec allows, against the stored policy or the default. */
function Explained({ tried, before }: { tried: string; before: string }) {
  const explain = (body: object) => write<Schemas["ExplainToolsetResponse"]>("POST", "/v1/policies/explain", body);
  const now = useQuery({
    queryKey: ["explain-spec", tried],
    queryFn: () => explain({ spec: JSON.parse(tried) }),
    placeholderData: keepPreviousData,
    retry: false,
  });
  const earlier = useQuery({ queryKey: ["explain", before], queryFn: () => explain({ policy: before }) });
  const known = new Map(earlier.data?.decisions.map((each) => [each.name, each]));
  const changes = (now.data?.decisions ?? []).filter((each) => !sameVerdict(known.get(each.name), each)).length;
  return (
    <>
      {now.error && <Failure error={now.error} />}
      {now.data?.notices.map((each) => <p key={each} className="notice">{each}</p>)}
      {!now.data && !now.error && <Skeleton />}
      {now.data && earlier.data && !now.error && (
        <>
          <p className="muted small" role="status">{w.changes(changes, before || w.theDefault)}</p>
          <Decisions label={w.explain} decisions={now.data.decisions} before={earlier.data.decisions} />
        </>
      )}
    </>
  );
}

/** The text, once it has not changed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
