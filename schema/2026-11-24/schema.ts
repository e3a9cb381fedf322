// Skill Sharing Protocol: the types of its schema. Generated; see schema.json beside it.

/**
 * Everything about one skill.
 */
export interface SkillDescriptor {
  /** The protocol that this descriptor conforms to. */
  protocol: ProtocolVersion;
  /** Identifier of the skill, unique in the world. */
  id: string;
  /** Name for people. */
  name: string;
  /** Version of the skill, as SemVer. */
  version: string;
  /** What kind of capability it is. */
  capability_type: CapabilityType;
  /** What the skill does. */
  description: string;
  /** Who provides the skill. */
  provider: {
    /** Name of the provider. */
    name: string;
    /** URL of the provider. */
    url?: string;
    /** How to reach the provider. */
    contact?: string;
  };
  /** Where and how it is invoked. */
  endpoint: InvocationEndpoint;
  /** Inputs of the skill. */
  inputs: ParameterDefinition[];
  /** What it gives back. */
  output: OutputDefinition;
  /** How callers authenticate. */
  auth: AuthConfig;
  /** Who may see and invoke it. */
  access: AccessPolicy;
  /** Search words. */
  tags?: string[];
  /** URL of its documentation. */
  documentation_url?: string;
  /** When it was made, as ISO 8601. */
  created_at?: string;
  /** When it was last changed, as ISO 8601. */
  updated_at?: string;
}

/**
 * The skills of a domain.
 */
export interface SkillIndex {
  /** The protocol that this index conforms to. */
  protocol: ProtocolVersion;
  /** Who publishes the skills. */
  provider: {
    /** Name of the provider. */
    name: string;
    /** URL of the provider. */
    url?: string;
  };
  /** The skills, each id once. */
  skills: SkillIndexEntry[];
}

/**
 * One skill of an index.
 */
export interface SkillIndexEntry {
  /** Identifier of the skill, unique in the index. */
  id: string;
  /** Name for people. */
  name: string;
  /** What kind of capability it is. */
  capability_type: CapabilityType;
  /** What the skill does, in brief. */
  description: string;
  /** URL of its descriptor. */
  descriptor_url: string;
  /** Who may see and invoke it. */
  access: AccessPolicy;
  /** Version of the skill, as SemVer. */
  version: string;
}

/**
 * What a caller sends to invoke a skill.
 */
export interface InvocationRequest {
  /** Who invokes. */
  caller: {
    /** Identifier of the caller. */
    id: string;
    /** Kind of caller, such as ifay, service or user. */
    type: string;
    /** Credentials of the caller. */
    credentials?: Record<string, unknown>;
  };
  /** Which skill is invoked. */
  skill_id: string;
  /** Inputs by name. */
  inputs: Record<string, unknown>;
  /** Circumstances. */
  context?: {
    /** Identifier for tracing across systems. */
    trace_id?: string;
    /** How urgent it is. */
    priority?: "low" | "normal" | "high";
    /** How long the caller waits, in milliseconds. */
    timeout_ms?: number;
  };
}

/**
 * How far an execution is, and what came of it.
 */
export interface InvocationResponse {
  /** Identifier of the execution. */
  execution_id: string;
  /** How far it is. */
  status: ExecutionStatus;
  /** Which skill is executed. */
  skill_id: string;
  /** What the skill gave back, when status is completed. */
  output?: unknown;
  /** What went wrong, when status is failed or timeout. */
  error?: {
    /** Code of the error. */
    code: string;
    /** What happened, for people. */
    message: string;
    /** More about this case. */
    details?: unknown;
    /** Whether it helps to try again. */
    retry?: {
      /** Pause before the next attempt, in milliseconds. */
      suggested_delay_ms: number;
      /** How many attempts may be made. */
      max_attempts: number;
    };
  };
  /** When things happened. */
  timestamps: {
    /** When the execution was made. */
    created_at: string;
    /** When it last changed. */
    updated_at: string;
    /** When it ended. */
    completed_at?: string;
  };
}

/**
 * The version of the protocol that a document conforms to.
 */
export interface ProtocolVersion {
  /** Version of the protocol, as SemVer. */
  version: string;
  /** URL of the changelog. */
  changelog_url?: string;
}

/**
 * The classification of a skill's capability.
 */
export type CapabilityType = "plugin" | "api" | "knowledge" | "task";

/**
 * How far a skill is visible.
 */
export type AccessPolicy = "public" | "restricted" | "private";

/**
 * How a caller authenticates.
 */
export type AuthType = "api_key" | "oauth2" | "custom" | "none";

/**
 * The state of an execution.
 */
export type ExecutionStatus = "accepted" | "running" | "completed" | "failed" | "timeout";

/**
 * One input of a skill.
 */
export interface ParameterDefinition {
  /** Name of the parameter. */
  name: string;
  /** A type of JSON Schema. */
  type: string;
  /** What the parameter means. */
  description: string;
  /** Whether the parameter has to be given. */
  required: boolean;
  /** Value when the parameter is not given. */
  default?: unknown;
  /** JSON Schema of a complex parameter. */
  schema?: Record<string, unknown>;
}

/**
 * How callers authenticate.
 * `oauth2` is required when `type` is `oauth2`.
 * `custom` is required when `type` is `custom`.
 */
export interface AuthConfig {
  /** Method of authentication. */
  type: AuthType;
  /** What a caller should know. */
  description?: string;
  /** Header field that carries an API key. */
  header?: string;
  /** Required when type is oauth2. */
  oauth2?: {
    /** URL of the authorization endpoint. */
    authorization_url: string;
    /** URL of the token endpoint. */
    token_url: string;
    /** Scopes that exist: name to description. */
    scopes: Record<string, string>;
  };
  /** Required when type is custom. */
  custom?: {
    /** What a caller has to do. */
    instructions: string;
    /** What a caller needs. */
    parameters: ParameterDefinition[];
  };
}

/**
 * Where and how a skill is invoked.
 */
export interface InvocationEndpoint {
  /** URL to which an invocation is sent. */
  url: string;
  /** HTTP method. */
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Media type of the request; application/json when absent. */
  content_type?: string;
  /** URL of an execution's status; {execution_id} is replaced by the execution's id. */
  status_url?: string;
  /** URL of an execution's result; {execution_id} is replaced by the execution's id. */
  result_url?: string;
  /** Time limit of an invocation, in milliseconds. */
  timeout_ms?: number;
  /** How a failed call is made again. */
  retry?: {
    /** How many attempts may be made. */
    max_attempts: number;
    /** Pause before the next attempt, in milliseconds. */
    backoff_ms: number;
  };
}

/**
 * What a skill gives back.
 */
export interface OutputDefinition {
  /** Media type of the output. */
  content_type: string;
  /** JSON Schema of the output. */
  schema?: Record<string, unknown>;
  /** What the output means. */
  description?: string;
}
