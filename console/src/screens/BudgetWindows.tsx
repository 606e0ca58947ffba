import { useInfiniteQuery } from "@tanstack/react-query";
import { Button } from "react-aria-components";

import { get, type Schemas } from "../api/http";
import { Cost, Meter, Time } from "../ui/parts";
import { Empty, Loading } from "../ui/Page";
import { Table } from "../ui/Table";
import { words } from "../words/en";

const w = words.budgets;

/** What a budget counted in its windows so far, newest first. */
export default function BudgetWindows({ id }: { id: string }) {
  const windows = useInfiniteQuery({
    queryKey: ["budgets", id, "windows"],
    queryFn: ({ pageParam }) =>
      get<Schemas["ListBudgetWindowsResponse"]>(`/v1/budgets/${encodeURIComponent(id)}/windows`, {
        page_size: 30,
        page_token: pageParam,
      }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_page_token || undefined,
  });
  return (
    <Loading query={windows}>
      {({ pages }) => {
        const rows = pages.flatMap((page) => page.windows);
        return rows.length === 0 ? (
          <Empty title={w.noWindows} />
        ) : (
          <>
            <Table
              label={w.windows}
              rows={rows}
              rowKey={(row) => row.start_time!}
              columns={[
                { title: w.from, cell: (row) => <Time value={row.start_time} /> },
                { title: w.until, minor: true, cell: (row) => <Time value={row.end_time} /> },
                { title: w.posted, numeric: true, cell: (row) => <Cost value={row.posted} /> },
                { title: w.held, minor: true, numeric: true, cell: (row) => <Cost value={row.held} /> },
                { title: w.limit, numeric: true, cell: (row) => <Cost value={row.hard_limit} /> },
                { title: w.used, minor: true, cell: (row) => <Used window={row} id={id} /> },
              ]}
            />
            {windows.hasNextPage && (
              <Button isDisabled={windows.isFetchingNextPage} onPress={() => void windows.fetchNextPage()}>{words.more}</Button>
            )}
          </>
        );
      }}
    </Loading>
  );
}

function Used({ window, id }: { window: Schemas["CountedWindow"]; id: string }) {
  const limit = Number(window.hard_limit?.amount ?? 0);
  const share = (money: Schemas["Money"] | null | undefined) => (limit ? Number(money?.amount ?? 0) / limit : 0);
  return <Meter label={`${id} ${window.start_time}`} posted={share(window.posted)} held={share(window.held)} />;
}
