/** A task in Harbor's format with all defaults applied. Plain data that can be stored as JSON and compared. */
export type Task = {
  /** Value of `[task].name`, or else the name of the folder. */
  name: string
  package: PackageInfo | null
  /** Origin of the task, as declared by its author. */
  source: string | null
  metadata: { [key: string]: TaskJson }
  environment: Environment
  /** A single-step task has one step without a name. Steps inherit settings from the task. */
  steps: [TaskStep, ...TaskStep[]]
  /** Combines the rewards of several steps. */
  rewardStrategy: 'mean' | 'final'
  solutionEnv: EnvVar[]
  /** Files covered by the digest, except task.toml, which the other fields represent. Sorted by path. */
  files: TaskFile[]
}

export type TaskJson = string | number | boolean | TaskJson[] | { [key: string]: TaskJson }

export type PackageInfo = {
  name: string
  version: string | null
  description: string
  authors: { name: string; email: string | null }[]
  keywords: string[]
}

export type TaskFile = { path: string; bytes: number; executable: boolean; sha256: string }

/** A string with variables of the runner's environment, which are not replaced yet. */
export type Template = (string | Variable)[]

/** A null fallback means that the task cannot start without a value. */
export type Variable = { variable: string; fallback: string | null }

export type EnvVar = { name: string; value: Template }

export type Environment = {
  os: 'linux' | 'windows'
  /** Folder of the task that is the build context and contains the compose file. */
  folder: string
  /** Prebuilt image, used instead of a Dockerfile. */
  image: string | null
  /** Path of the Dockerfile in the task. */
  dockerfile: string | null
  compose: Compose | null
  buildTimeoutSec: number
  resources: EnvironmentResources
  network: Network
  env: EnvVar[]
  mcpServers: McpServer[]
  skillsDir: string | null
  healthcheck: Healthcheck | null
  /** Null means the working directory of the image. */
  workdir: string | null
}

/** Null means the default of the sandbox. */
export type EnvironmentResources = {
  cpus: number | null
  memoryMb: number | null
  storageMb: number | null
  gpus: number | null
  gpuTypes: string[] | null
  tpu: { type: string; topology: string } | null
}

/**
 * Network policy. `hosts` is used only in mode `allowlist`, where an empty list means no access. `undeclared` means that the
 * task does not declare a mode, which Harbor treats as public.
 */
export type Network = { mode: 'public' | 'no-network' | 'allowlist' | 'undeclared'; hosts: string[] }

export type McpServer =
  | { name: string; transport: 'stdio'; command: string; args: string[] }
  | { name: string; transport: 'sse' | 'streamable-http'; url: string; headers: EnvVar[] }

export type Healthcheck = {
  command: string
  intervalSec: number
  timeoutSec: number
  startPeriodSec: number
  startIntervalSec: number
  retries: number
}

/** Null means the user of the image. */
export type User = string | number | null

export type TaskStep = {
  name: string | null
  /** Text that the agent sees, without canary lines. */
  instruction: string
  agent: Agent
  verifier: Verifier
  /** Runs after the setup of this step, in addition to that of the environment. */
  healthcheck: Healthcheck | null
  artifacts: TaskArtifact[]
  /** The following steps are skipped if one of these rewards is not reached. */
  minReward: { key: string; atLeast: number }[]
  /** Folder that is uploaded to the working directory before the agent starts. */
  workdir: string | null
  /** Script that runs in the working directory as the agent's user. */
  setup: string | null
  solution: TaskScript | null
  /** Earlier actions of an agent, in ATIF. */
  trajectory: string | null
}

export type Agent = {
  /** Null means no limit. */
  timeoutSec: number | null
  user: User
  network: Network
}

export type Verifier = {
  timeoutSec: number
  user: User
  env: EnvVar[]
  network: Network
  /** Hooks that run after the agent has ended and before artifacts are collected. */
  collect: CollectHook[]
  sandbox: VerifierSandbox
  /** Folders merged into /tests; later ones take precedence. Empty if the verifier's image contains the tests. */
  testFolders: string[]
  /** File of the task that runs the tests. Null if the verifier's image contains the tests. */
  testScript: string | null
}

/** The sandbox of the tests: the agent's, or a separate one with an environment of its own. */
export type VerifierSandbox = { mode: 'shared' } | { mode: 'separate'; environment: Environment }

/** A script and the folder that is uploaded with it. */
export type TaskScript = { folder: string; script: string }

export type CollectHook = { command: string; service: string; timeoutSec: number; user: User }

export type TaskArtifact = { source: string; destination: string | null; exclude: string[]; service: string }

/** The supported part of docker-compose.yaml. The agent's service is called main. */
export type Compose = { services: ComposeService[]; volumes: string[] }

export type ComposeService = {
  name: string
  image: Template | null
  build: ComposeBuild | null
  /** Null means the command of the image; likewise for `entrypoint`. */
  command: Template[] | null
  entrypoint: Template[] | null
  env: EnvVar[]
  user: string | null
  workdir: string | null
  hostname: string | null
  /** Additional host names of the service. */
  aliases: string[]
  dependsOn: { service: string; condition: 'started' | 'healthy' | 'completed' }[]
  healthcheck: ServiceHealthcheck | null
  mounts: ComposeMount[]
  network: 'default' | 'none'
  readOnly: boolean
  init: boolean
  stopSignal: string | null
  platform: string | null
  resources: { cpus: number | null; memoryMb: number | null; pids: number | null; shmMb: number | null }
}

/** `context` is a folder of the task; `dockerfile` is relative to it. */
export type ComposeBuild = { context: string; dockerfile: string; target: string | null; args: EnvVar[] }

export type ServiceHealthcheck =
  | { kind: 'none' }
  | {
      kind: 'shell' | 'exec'
      /** A single shell command line, or the words of a command. */
      test: string[]
      intervalSec: number
      timeoutSec: number
      startPeriodSec: number
      startIntervalSec: number
      retries: number
    }

export type ComposeMount =
  /** A volume without a name is created for each sandbox. */
  | { kind: 'volume'; name: string | null; target: string; readOnly: boolean }
  /** `source` is a path inside the task. */
  | { kind: 'bind'; source: string; target: string; readOnly: boolean }
  | { kind: 'tmpfs'; target: string; sizeMb: number | null }

/** A problem or a warning about a task. `path` is a file or a key of task.toml. */
export type TaskFinding = { path: string; code: string; message: string }

/** Thrown for a task that cannot be read or run. Lists every problem. */
export class TaskInvalid extends Error {
  override name = 'TaskInvalid'
  readonly findings: TaskFinding[]

  constructor(findings: TaskFinding[]) {
    super(summarise(findings))
    this.findings = findings
  }
}

function summarise([first, ...others]: TaskFinding[]): string {
  if (!first) return 'The task is invalid.'
  return `${first.path}: ${first.message}${others.length > 0 ? ` (and ${others.length} more)` : ''}`
}
