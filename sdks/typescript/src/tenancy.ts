import type { Input, ListOptions } from "./inputs.js";
import type { Pages } from "./pages.js";
import type {
  ApiKey,
  ApiKeyResponse,
  AuditEntry,
  ChangeLimitsRequest,
  CreateApiKeyResponse,
  Limits,
  ListApiKeysResponse,
  ListAuditLogResponse,
  Role,
  RotateApiKeyResponse,
} from "./schema.js";
import { path, type Transport } from "./transport.js";

/** API keys. A new key's text is in one answer alone: a lost one is not asked for again. */
export class Keys {
  constructor(private readonly transport: Transport) {}

  /** The key and its text, which is shown this once. */
  async create(
    subject: string,
    options: { scopes?: string[]; roles?: Role[]; teams?: string[]; expireTime?: Date } = {},
  ): Promise<CreateApiKeyResponse> {
    const body = {
      subject,
      scopes: options.scopes ?? [],
      roles: options.roles ?? [],
      teams: options.teams ?? [],
      expire_time: options.expireTime ?? null,
    };
    return this.transport.call("POST", "/v1/api-keys", { body, repeatable: false });
  }

  /** Without their secrets. */
  list(options: ListOptions = {}): Pages<ApiKey> {
    return this.transport.pages("/v1/api-keys", (page: ListApiKeysResponse) => page.api_keys, {
      page_size: options.pageSize,
    });
  }

  /** A key in its place; the old one goes on working for a while. */
  async rotate(keyId: string, options: { overlapS?: number } = {}): Promise<RotateApiKeyResponse> {
    const body = options.overlapS === undefined ? {} : { overlap_s: options.overlapS };
    const address = path`/v1/api-keys/${keyId}/rotate`;
    return this.transport.call("POST", address, { body, repeatable: false });
  }

  /** Ends it. */
  async revoke(keyId: string): Promise<ApiKey> {
    const address = path`/v1/api-keys/${keyId}/revoke`;
    return (await this.transport.call<ApiKeyResponse>("POST", address)).api_key;
  }
}

/** Limits, and who changed what. */
export class Tenancy {
  constructor(private readonly transport: Transport) {}

  /** Of the caller's tenant. */
  async limits(): Promise<Limits> {
    return this.transport.call("GET", "/v1/limits");
  }

  /** Of any tenant; platform admins only. */
  async limitsOf(tenant: string): Promise<Limits> {
    return this.transport.call("GET", path`/v1/tenants/${tenant}/limits`);
  }

  /** Changes what is given; platform admins only. */
  async changeLimits(tenant: string, changes: Input<ChangeLimitsRequest>): Promise<Limits> {
    return this.transport.call("PUT", path`/v1/tenants/${tenant}/limits`, { body: changes });
  }

  /** Back to the platform's; platform admins only. */
  async resetLimits(tenant: string): Promise<Limits> {
    return this.transport.call("DELETE", path`/v1/tenants/${tenant}/limits`);
  }

  /** Administrative changes, newest first. */
  auditLog(
    options: ListOptions & {
      subject?: string;
      action?: string;
      resource?: string;
      since?: Date;
      until?: Date;
    } = {},
  ): Pages<AuditEntry> {
    const { pageSize, ...filter } = options;
    return this.transport.pages("/v1/audit-log", (page: ListAuditLogResponse) => page.entries, {
      ...filter,
      page_size: pageSize,
    });
  }
}
