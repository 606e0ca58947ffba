import { useEffect, useState, type ReactNode } from "react";
import { Button, Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";

import { exactMoney, money, time } from "../format";
import { words } from "../words/en";

type Tone = "good" | "bad" | "wait" | "plain";

const GLYPHS: Record<Tone, string> = { good: "✓", bad: "✕", wait: "◷", plain: "•" };

/** A state, by glyph and word: color alone says nothing. */
export function Badge({ tone, children }: { tone: Tone; children: ReactNode }) {
  return (
    <span className={`badge ${tone}`}>
      <span aria-hidden="true">{GLYPHS[tone]}</span> {children}
    </span>
  );
}

interface Amount {
  amount?: string;
  currency_code?: string;
}

export function Cost({ value, unknownCalls = 0 }: { value: Amount | null | undefined; unknownCalls?: number }) {
  return (
    <span className="nowrap" title={exactMoney(value)}>
      {money(value, unknownCalls)}
    </span>
  );
}

export function Time({ value }: { value: string | null | undefined }) {
  return value ? (
    <time className="nowrap" dateTime={value} title={value}>
      {time(value)}
    </time>
  ) : (
    <span>–</span>
  );
}

export function Facts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Code({ text, label }: { text: string; label?: string }) {
  return (
    <pre className="code" tabIndex={0} aria-label={label}>
      {text}
    </pre>
  );
}

export function CopyButton({ text, label = words.copy }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <Button
      className="quiet"
      onPress={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
    >
      {copied ? words.copied : label}
    </Button>
  );
}

interface PopupProps {
  title: string;
  open: boolean;
  onClose: () => void;
  children: ReactNode;
}

export function Popup({ title, open, onClose, children }: PopupProps) {
  return (
    <ModalOverlay className="overlay" isOpen={open} onOpenChange={(now) => !now && onClose()} isDismissable>
      <Modal className="modal">
        <Dialog className="dialog">
          <Heading slot="title">{title}</Heading>
          {children}
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

interface ConfirmProps {
  title: string;
  hint: string;
  action: string;
  error: Error | null;
  onConfirm: () => void;
  onClose: () => void;
}

/** Asks before what cannot be undone. */
export function Confirm({ title, hint, action, error, onConfirm, onClose }: ConfirmProps) {
  return (
    <Popup title={title} open onClose={onClose}>
      <p>{hint}</p>
      {error && <p className="error" role="alert">{error.message}</p>}
      <div className="actions">
        <Button className="primary" onPress={onConfirm}>{action}</Button>
        <Button onPress={onClose} autoFocus>{words.cancel}</Button>
      </div>
    </Popup>
  );
}

interface MeterProps {
  label: string;
  /** Shares of the limit, from 0. */
  posted: number;
  held: number;
  /** What it will be at the end, as a tick. */
  forecast?: number;
}

export function Meter({ label, posted, held, forecast = 0 }: MeterProps) {
  const percentOf = (share: number) => `${Math.min(100, Math.max(0, 100 * share))}%`;
  const now = Math.round(100 * Math.min(1, posted + held));
  return (
    <svg className="meter" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={now}>
      <rect className="meter-ground" width="100%" height="100%" />
      <rect className={posted > 1 ? "meter-over" : "meter-posted"} width={percentOf(posted)} height="100%" />
      <rect className="meter-held" x={percentOf(posted)} width={percentOf(Math.min(held, 1 - posted))} height="100%" />
      {forecast > 0 && <rect className="meter-forecast" x={percentOf(Math.min(forecast, 0.995))} width="2" height="100%" />}
    </svg>
  );
}

export function Choice({ label, value, options, onChange }: {
  label: string;
  value: string;
  options: Record<string, string>;
  onChange: (value: string) => void;
}) {
  return (
    <select aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
      {Object.entries(options).map(([key, text]) => (
        <option key={key} value={key}>
          {text}
        </option>
      ))}
    </select>
  );
}
