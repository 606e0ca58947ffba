import type { Input, ListOptions } from "./inputs.js";
import type { Pages } from "./pages.js";
import type {
  ActivatePolicyResponse,
  BindPolicyResponse,
  CreatePolicyResponse,
  DeletePolicyResponse,
  DryRunPolicyResponse,
  ExplainToolsetResponse,
  GetPolicyResponse,
  ListActivationsResponse,
  ListPoliciesResponse,
  ListPolicyBindingsResponse,
  PastEpisodes,
  Policy,
  PolicyActivation,
  PolicyBinding,
  PolicySpec,
  ReportAdherenceRequest,
  ReportAdherenceResponse,
  ToolDecision,
  UnbindPolicyResponse,
} from "./schema.js";
import { path, required, type Transport } from "./transport.js";

/** A policy's name, or a spec that is tried without being stored. */
export type PolicyOrSpec = string | Input<PolicySpec>;

/** What is preferred, allowed and paid. */
export class Policies {
  constructor(private readonly transport: Transport) {}

  /** A policy, or a new version of it; the same spec again keeps its version. */
  async create(spec: Input<PolicySpec>): Promise<Policy> {
    const body = { spec };
    const reply = await this.transport.call<CreatePolicyResponse>("POST", "/v1/policies", { body });
    return required(reply.policy);
  }

  /** Throws BadRequest for what cannot be created; stores nothing. */
  async validate(spec: Input<PolicySpec>): Promise<void> {
    await this.transport.call("POST", "/v1/policies", { body: { spec, validate_only: true } });
  }

  /** One version; unset means the newest. */
  async get(name: string, version = 0): Promise<Policy> {
    const address = path`/v1/policies/${name}`;
    const reply = await this.transport.call<GetPolicyResponse>("GET", address, { query: { version } });
    return required(reply.policy);
  }

  /** Newest versions, presets first. */
  list(options: ListOptions = {}): Pages<Policy> {
    return this.transport.pages("/v1/policies", (page: ListPoliciesResponse) => page.policies, {
      page_size: options.pageSize,
    });
  }

  /** Makes a version the default of new episodes, now or from a time on. */
  async activate(
    name: string,
    options: { version?: number; effectiveTime?: Date } = {},
  ): Promise<Policy> {
    const body = { version: options.version, effective_time: options.effectiveTime };
    const address = path`/v1/policies/${name}/activate`;
    const reply = await this.transport.call<ActivatePolicyResponse>("POST", address, { body });
    return required(reply.policy);
  }

  /** Deletes versions that nothing used, 0 all of them; what was used stays. */
  async delete(name: string, version = 0): Promise<Policy[]> {
    const address = path`/v1/policies/${name}`;
    const query = { version };
    const reply = await this.transport.call<DeletePolicyResponse>("DELETE", address, { query });
    return reply.policies;
  }

  /** When which policy became or becomes the default, newest first. */
  activations(options: ListOptions = {}): Pages<PolicyActivation> {
    const items = (page: ListActivationsResponse) => page.activations;
    return this.transport.pages("/v1/policy-activations", items, { page_size: options.pageSize });
  }

  /** Makes it bind "team:NAME", "role:NAME", "user:NAME" or "key:ORIGIN_ID". */
  async bind(name: string, principal: string): Promise<PolicyBinding> {
    const address = path`/v1/policies/${name}/bind`;
    const body = { principal };
    const reply = await this.transport.call<BindPolicyResponse>("POST", address, { body });
    return required(reply.binding);
  }

  /** Takes a binding back. */
  async unbind(name: string, principal: string): Promise<PolicyBinding> {
    const address = path`/v1/policies/${name}/unbind`;
    const body = { principal };
    const reply = await this.transport.call<UnbindPolicyResponse>("POST", address, { body });
    return required(reply.binding);
  }

  /** Whom which policy binds, whatever policy they name. */
  bindings(options: ListOptions = {}): Pages<PolicyBinding> {
    const items = (page: ListPolicyBindingsResponse) => page.bindings;
    return this.transport.pages("/v1/policy-bindings", items, { page_size: options.pageSize });
  }

  /** Why each tool is in or out; unset means under the active policy. */
  async explain(policy: PolicyOrSpec = ""): Promise<ToolDecision[]> {
    const body = named(policy);
    const reply = await this.transport.call<ExplainToolsetResponse>("POST", "/v1/policies/explain", {
      body,
    });
    return reply.decisions;
  }

  /** What a policy would have changed in past episodes. */
  async dryRun(policy: PolicyOrSpec, past?: Input<PastEpisodes>): Promise<DryRunPolicyResponse> {
    return this.transport.call("POST", "/v1/policies/dry-run", { body: { ...named(policy), past } });
  }

  /** How well past episodes followed their preferences. */
  async report(request: Input<ReportAdherenceRequest> = {}): Promise<ReportAdherenceResponse> {
    return this.transport.call("POST", "/v1/policies/report", { body: request });
  }
}

function named(policy: PolicyOrSpec): { policy?: string; spec?: Input<PolicySpec> } {
  return typeof policy === "string" ? { policy } : { spec: policy };
}
