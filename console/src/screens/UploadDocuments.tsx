import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Button, Form, Input, Label, TextField } from "react-aria-components";

import { write, type Schemas } from "../api/http";
import { Badge, Meter, Popup } from "../ui/parts";
import { words } from "../words/en";

const w = words.corpora;
// Endings of file names, and what the API calls the type.
const TYPES: Record<string, string> = {
  txt: "text/plain", md: "text/markdown", markdown: "text/markdown", html: "text/html", htm: "text/html", pdf: "application/pdf",
};
const BYTES_MAX = 10 * 1024 * 1024;
const CHARACTERS_MAX = 1_000_000;

interface Outcome {
  name: string;
  error: string | null;
}

interface UploadProps {
  /** The corpus that is proposed; "" where none is chosen. */
  corpus: string;
  onClose: () => void;
  onStored: (corpus: string) => void;
}

/** Stores files one by one: what is wrong with one is shown beside it, and stops none of the others. */
export function UploadDocuments({ corpus: given, onClose, onStored }: UploadProps) {
  const client = useQueryClient();
  const [corpus, setCorpus] = useState(given);
  const [files, setFiles] = useState<File[]>([]);
  const [outcomes, setOutcomes] = useState<Outcome[]>([]);
  const [busy, setBusy] = useState(false);
  const stopped = useRef(false);
  const upload = async () => {
    setBusy(true);
    setOutcomes([]);
    const path = `/v1/corpora/${encodeURIComponent(corpus.trim())}/documents`;
    let stored = false;
    for (const file of files) {
      if (stopped.current) break;
      const error = await documentOf(file)
        .then((document) => write("PUT", path, { documents: [document] }))
        .then(() => null, (problem: Error) => problem.message);
      stored ||= error === null;
      setOutcomes((before) => [...before, { name: file.name, error }]);
    }
    setBusy(false);
    await client.invalidateQueries({ queryKey: ["corpora"] });
    if (stored) onStored(corpus.trim());
  };
  const close = () => {
    stopped.current = true;
    onClose();
  };
  const failed = outcomes.filter((each) => each.error !== null).length;
  return (
    <Popup title={w.upload} open onClose={close}>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          void upload();
        }}
      >
        <TextField value={corpus} onChange={setCorpus} isRequired autoFocus={!given} maxLength={64}>
          <Label>{w.corpus}</Label>
          <Input spellCheck={false} />
        </TextField>
        <label className="field">
          {w.files}
          <input
            type="file"
            multiple
            accept=".txt,.md,.markdown,.html,.htm,.pdf"
            onChange={(event) => {
              setFiles([...(event.target.files ?? [])]);
              setOutcomes([]);
            }}
          />
        </label>
        <p className="muted small">{w.filesHint}</p>
        {(busy || outcomes.length > 0) && (
          <div role="status">
            {w.progress(outcomes.length, files.length, failed)}
            <Meter label={w.upload} posted={outcomes.length / Math.max(1, files.length)} held={0} />
          </div>
        )}
        {outcomes.length > 0 && (
          <ul className="outcomes">
            {outcomes.map((each, place) => (
              <li key={place}>
                <Badge tone={each.error === null ? "good" : "bad"}>{each.error === null ? w.storedOne : w.failedOne}</Badge> {each.name}
                {each.error !== null && <p className="error small">{each.error}</p>}
              </li>
            ))}
          </ul>
        )}
        <div className="actions">
          <Button type="submit" className="primary" isDisabled={busy || files.length === 0 || !corpus.trim()}>{w.uploadThem(files.length)}</Button>
          <Button onPress={close}>{words.close}</Button>
        </div>
      </Form>
    </Popup>
  );
}

/** Throws Error for a file that the API would not accept. */
async function documentOf(file: File): Promise<Partial<Schemas["Document"]>> {
  const type = TYPES[file.name.split(".").pop()!.toLowerCase()];
  if (!type) throw new Error(w.unknownType);
  const named = { id: file.name.slice(0, 200), media_type: type };
  if (type === "application/pdf") {
    if (file.size > BYTES_MAX) throw new Error(w.tooLarge);
    return { ...named, data: base64Of(new Uint8Array(await file.arrayBuffer())) };
  }
  const content = await file.text();
  if (content.length > CHARACTERS_MAX) throw new Error(w.tooLong);
  return { ...named, content };
}

function base64Of(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += 0x8000) parts.push(String.fromCharCode(...bytes.subarray(at, at + 0x8000)));
  return btoa(parts.join(""));
}
