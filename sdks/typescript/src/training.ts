import type { ListOptions } from "./inputs.js";
import type { Pages } from "./pages.js";
import type {
  DeadLetter,
  GetModelVersionResponse,
  ListDeadLettersResponse,
  ListModelVersionsResponse,
  ModelVersion,
  PromoteModelVersionResponse,
  RedriveDeadLettersResponse,
  RollBackModelVersionResponse,
} from "./schema.js";
import { path, required, type Transport } from "./transport.js";

/** Trained versions of the orchestrator; platform admins only. */
export class ModelVersions {
  constructor(private readonly transport: Transport) {}

  /** By run and number. */
  list(options: ListOptions = {}): Pages<ModelVersion> {
    const items = (page: ListModelVersionsResponse) => page.versions;
    return this.transport.pages("/v1/model-versions", items, { page_size: options.pageSize });
  }

  /** One version. */
  async get(name: string): Promise<ModelVersion> {
    const address = path`/v1/model-versions/${name}`;
    return required((await this.transport.call<GetModelVersionResponse>("GET", address)).version);
  }

  /** Gives it to users, from the next call on. */
  async promote(name: string): Promise<PromoteModelVersionResponse> {
    return this.transport.call("POST", path`/v1/model-versions/${name}/promote`, { body: {} });
  }

  /** Gives users the version before it; `name` must be the promoted one. */
  async rollBack(name: string): Promise<ModelVersion> {
    const address = path`/v1/model-versions/${name}/roll-back`;
    const reply = await this.transport.call<RollBackModelVersionResponse>("POST", address, { body: {} });
    return required(reply.version);
  }
}

/** Records that are on no topic. */
export class DeadLetters {
  constructor(private readonly transport: Transport) {}

  /** Newest first. */
  list(options: ListOptions & { allTenants?: boolean } = {}): Pages<DeadLetter> {
    const items = (page: ListDeadLettersResponse) => page.dead_letters;
    const query = { all_tenants: options.allTenants, page_size: options.pageSize };
    return this.transport.pages("/v1/dead-letters", items, query);
  }

  /** Publishes them again, all where none is named; how many. */
  async redrive(recordIds: string[] = [], options: { allTenants?: boolean } = {}): Promise<string> {
    const body = { record_ids: recordIds, all_tenants: options.allTenants ?? false };
    const address = "/v1/dead-letters/redrive";
    return (await this.transport.call<RedriveDeadLettersResponse>("POST", address, { body })).count;
  }
}
