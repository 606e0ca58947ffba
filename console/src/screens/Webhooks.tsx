import { useQuery } from "@tanstack/react-query";

import { get, type Schemas } from "../api/http";
import { Time } from "../ui/parts";
import { Empty, Loading, Page } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.webhooks;

export default function Webhooks() {
  const webhooks = useQuery({
    queryKey: ["webhooks"],
    queryFn: () => get<Schemas["ListWebhooksResponse"]>("/v1/webhooks", { page_size: 200 }),
  });
  return (
    <Page title={w.title}>
      <Loading query={webhooks}>
        {({ webhooks: rows }) =>
          rows.length === 0 ? (
            <Empty title={w.empty} hint={w.emptyHint} />
          ) : (
            <Table
              label={w.title}
              rows={rows}
              rowKey={(row) => row.id!}
              columns={[
                { title: "Id", cell: (row) => row.id },
                { title: "URL", cell: (row) => row.url },
                { title: "Events", cell: (row) => row.event_types.join(", ") || "all" },
                { title: "By", minor: true, cell: (row) => row.created_by },
                { title: "Since", minor: true, cell: (row) => <Time value={row.create_time} /> },
              ]}
            />
          )
        }
      </Loading>
    </Page>
  );
}
