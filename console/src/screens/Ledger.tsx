import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "react-aria-components";

import { get, type Schemas } from "../api/http";
import { count } from "../format";
import { Badge } from "../ui/parts";
import { Failure, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.ledger;

type Report = Schemas["VerifyLedgerResponse"];

interface Progress {
  checked: number;
  total: string;
  findings: Schemas["Finding"][];
  done: boolean;
}

export default function Ledger() {
  const [progress, setProgress] = useState<Progress | null>(null);
  const verify = useMutation({
    mutationFn: async () => {
      let [checked, token] = [0, ""];
      const findings: Schemas["Finding"][] = [];
      do {
        const page: Report = await get("/v1/audit/verify", { page_token: token });
        checked += Number(page.checked_count ?? 0);
        findings.push(...page.findings);
        token = page.next_page_token ?? "";
        setProgress({ checked, total: page.total_count ?? "0", findings: [...findings], done: !token });
      } while (token);
    },
  });
  return (
    <Page
      title={w.title}
      actions={<Button className="primary" isDisabled={verify.isPending} onPress={() => verify.mutate()}>{w.verify}</Button>}
    >
      {verify.error && <Failure error={verify.error} retry={() => verify.mutate()} />}
      {progress && (
        <div role="status">
          {progress.done && progress.findings.length === 0 ? (
            <Badge tone="good">{w.verified(count(progress.checked))}</Badge>
          ) : (
            <p>{w.checking(count(progress.checked), count(progress.total))}</p>
          )}
        </div>
      )}
      {progress && progress.findings.length > 0 && (
        <Table
          label={w.findings}
          rows={progress.findings}
          rowKey={(row) => `${row.rule} ${row.row}`}
          columns={[
            { title: "Rule", cell: (row) => row.rule_text || row.rule },
            { title: "Row", cell: (row) => row.row },
            { title: "Problem", cell: (row) => row.problem },
          ]}
        />
      )}
    </Page>
  );
}
