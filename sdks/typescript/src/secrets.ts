import type { ListOptions } from "./inputs.js";
import type { Pages } from "./pages.js";
import type {
  ListSecretsResponse,
  ListUserSecretsResponse,
  PutSecretResponse,
  PutUserSecretResponse,
  Secret,
} from "./schema.js";
import { path, required, type Transport } from "./transport.js";

/**
 * Secrets that tools use by name: secret://NAME, or secret://user/NAME of whoever calls. Values go in
 * and never come out. Those of the tenant are for its admins, `...Mine` for all.
 */
export class Secrets {
  constructor(private readonly transport: Transport) {}

  /** Stores one, or replaces its value. */
  async put(name: string, value: string): Promise<Secret> {
    const body = { value };
    const reply = await this.transport.call<PutSecretResponse>("PUT", path`/v1/secrets/${name}`, { body });
    return required(reply.secret);
  }

  /** In the order of their names. */
  list(options: ListOptions = {}): Pages<Secret> {
    return this.transport.pages("/v1/secrets", (page: ListSecretsResponse) => page.secrets, {
      page_size: options.pageSize,
    });
  }

  /** Tools that name it fail from now on. */
  async delete(name: string): Promise<void> {
    await this.transport.call("DELETE", path`/v1/secrets/${name}`);
  }

  /** Stores one of the caller's own; its value goes to these hosts alone. */
  async putMine(name: string, value: string, hosts: string[]): Promise<Secret> {
    const body = { value, hosts };
    const address = path`/v1/user-secrets/${name}`;
    return required((await this.transport.call<PutUserSecretResponse>("PUT", address, { body })).secret);
  }

  /** In the order of their names. */
  listMine(options: ListOptions = {}): Pages<Secret> {
    return this.transport.pages("/v1/user-secrets", (page: ListUserSecretsResponse) => page.secrets, {
      page_size: options.pageSize,
    });
  }

  async deleteMine(name: string): Promise<void> {
    await this.transport.call("DELETE", path`/v1/user-secrets/${name}`);
  }
}
