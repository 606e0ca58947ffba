import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Autocomplete, Input, Menu, MenuItem, Text, TextField, useFilter } from "react-aria-components";

import { get, type Schemas } from "../api/http";
import { Popup } from "../ui/parts";
import { words } from "../words/en";
import type { NavItem } from "./navigation";

interface Entry {
  path: string;
  title: string;
  kind: string;
}

const EPISODE_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export default function Palette({ items, onClose }: { items: NavItem[]; onClose: () => void }) {
  const navigate = useNavigate();
  const { contains } = useFilter({ sensitivity: "base" });
  const [typed, setTyped] = useState("");
  const tools = useQuery({
    queryKey: ["palette", "tools"],
    queryFn: () => get<Schemas["ListToolsResponse"]>("/v1/tools", { page_size: 200 }),
    enabled: items.some((item) => item.path === "/tools"),
  });
  const entries: Entry[] = [
    ...(EPISODE_ID.test(typed) ? [{ path: `/episodes/${typed}`, title: typed, kind: words.nav.episodes }] : []),
    ...items.map(({ path, title }) => ({ path, title, kind: "" })),
    ...(tools.data?.tools ?? []).map(({ spec }) => ({
      path: `/tools/${encodeURIComponent(spec!.name!)}`,
      title: spec!.name!,
      kind: words.nav.tools,
    })),
  ];
  return (
    <Popup title={words.palette} open onClose={onClose}>
      <Autocomplete filter={contains} inputValue={typed} onInputChange={setTyped}>
        <TextField aria-label={words.palette} autoFocus>
          <Input placeholder={words.palette} />
        </TextField>
        <Menu
          className="palette"
          items={entries}
          onAction={(path) => {
            onClose();
            void navigate({ to: String(path) });
          }}
        >
          {(entry) => (
            <MenuItem id={entry.path} textValue={`${entry.title} ${entry.kind}`}>
              <Text slot="label">{entry.title}</Text>
              <Text slot="description">{entry.kind}</Text>
            </MenuItem>
          )}
        </Menu>
      </Autocomplete>
    </Popup>
  );
}
