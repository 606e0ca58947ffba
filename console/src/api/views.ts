import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { get, write, type Schemas } from "./http";

const VIEWS = ["views"];

export function useViews() {
  const client = useQueryClient();
  const changed = { onSuccess: () => client.invalidateQueries({ queryKey: VIEWS }) };
  return {
    views: useQuery({ queryKey: VIEWS, queryFn: () => get<Schemas["ListViewsResponse"]>("/v1/views") }),
    save: useMutation({
      mutationFn: (view: { name: string; query: string; shared: boolean }) => write<Schemas["SavedView"]>("POST", "/v1/views", view),
      ...changed,
    }),
    remove: useMutation({ mutationFn: (id: string) => write("DELETE", `/v1/views/${id}`), ...changed }),
  };
}
