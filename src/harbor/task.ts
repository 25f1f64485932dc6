/** A task in Harbor's format with every default written out. Plain data: it can be stored as JSON and compared. */
export type Task = {
  /** `[task].name`, or the name of its folder. */
  name: string
  package: PackageInfo | null
  /** Where the author took it from. */
  source: string | null
  metadata: { [key: string]: Json }
  environment: Environment
  /** A single-step task has one step, without a name. What a step does not say, it has from the task. */
  steps: [Step, ...Step[]]
  /** How the rewards of several steps become one. */
  rewardStrategy: 'mean' | 'final'
  solutionEnv: EnvVar[]
  /** All that its digest covers, except task.toml, whose meaning is in the other fields. Sorted by path. */
  files: TaskFile[]
}

export type Json = string | number | boolean | Json[] | { [key: string]: Json }

export type PackageInfo = {
  name: string
  version: string | null
  description: string
  authors: { name: string; email: string | null }[]
  keywords: string[]
}

export type TaskFile = { path: string; bytes: number; executable: boolean; sha256: string }

/** A text with places that are filled from the environment of whoever runs the task. We keep them open. */
export type Template = (string | Variable)[]

/** Null: there is no fallback, and without a value the task cannot start. */
export type Variable = { variable: string; fallback: string | null }

export type EnvVar = { name: string; value: Template }

export type Environment = {
  os: 'linux' | 'windows'
  /** The build context, and where the compose file lies: a folder of the task. */
  folder: string
  /** Built already: used instead of a Dockerfile. */
  image: string | null
  /** The path of the Dockerfile in the task. */
  dockerfile: string | null
  compose: Compose | null
  buildTimeoutSec: number
  resources: Resources
  network: Network
  env: EnvVar[]
  mcpServers: McpServer[]
  skillsDir: string | null
  healthcheck: Healthcheck | null
  /** Null: the one of the image. */
  workdir: string | null
}

/** Null: whatever the sandbox gives. */
export type Resources = {
  cpus: number | null
  memoryMb: number | null
  storageMb: number | null
  gpus: number | null
  gpuTypes: string[] | null
  tpu: { type: string; topology: string } | null
}

/**
 * Hosts are listed only in mode allowlist, where none means that nothing can be reached. `unsaid`: the task says nothing,
 * by which Harbor understands public.
 */
export type Network = { mode: 'public' | 'no-network' | 'allowlist' | 'unsaid'; hosts: string[] }

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

/** Null: the user of the image. */
export type User = string | number | null

export type Step = {
  name: string | null
  /** As the agent sees it: without the marks that keep it out of training data. */
  instruction: string
  agent: Agent
  verifier: Verifier
  /** After the setup of this step, besides the one of the environment. */
  healthcheck: Healthcheck | null
  artifacts: Artifact[]
  /** The steps after this one are skipped when one of these rewards is lower. */
  minReward: { key: string; atLeast: number }[]
  /** Put into the working folder before the agent starts. */
  workdir: string | null
  /** Run there, as the user of the agent. */
  setup: string | null
  solution: Script | null
  /** What an agent did before, in the format ATIF. */
  trajectory: string | null
}

export type Agent = {
  /** Null: as long as it likes. */
  timeoutSec: number | null
  user: User
  network: Network
}

export type Verifier = {
  timeoutSec: number
  user: User
  env: EnvVar[]
  network: Network
  /** Run when the agent has ended and before artifacts are taken. */
  collect: CollectHook[]
  place: VerifierPlace
  /** What becomes /tests, later folders over earlier ones. Empty when the verifier's image has the tests. */
  testFolders: string[]
  /** The file of the task that is run. Null when the verifier's image has the tests. */
  testScript: string | null
}

export type VerifierPlace = { mode: 'shared' } | { mode: 'separate'; environment: Environment }

/** A script, and the folder that is there when it runs. */
export type Script = { folder: string; script: string }

export type CollectHook = { command: string; service: string; timeoutSec: number; user: User }

export type Artifact = { source: string; destination: string | null; exclude: string[]; service: string }

/** The part of docker-compose.yaml that we interpret. The agent's service is called main. */
export type Compose = { services: Service[]; volumes: string[] }

export type Service = {
  name: string
  image: Template | null
  build: Build | null
  /** Null: the ones of the image. */
  command: Template[] | null
  entrypoint: Template[] | null
  env: EnvVar[]
  user: string | null
  workdir: string | null
  hostname: string | null
  /** Other names under which the services find it. */
  aliases: string[]
  dependsOn: { service: string; condition: 'started' | 'healthy' | 'completed' }[]
  healthcheck: ServiceHealthcheck | null
  mounts: Mount[]
  network: 'default' | 'none'
  readOnly: boolean
  init: boolean
  stopSignal: string | null
  platform: string | null
  resources: { cpus: number | null; memoryMb: number | null; pids: number | null; shmMb: number | null }
}

/** The context is a folder inside the task; the Dockerfile is relative to it. */
export type Build = { context: string; dockerfile: string; target: string | null; args: EnvVar[] }

export type ServiceHealthcheck =
  | { kind: 'none' }
  | {
      kind: 'shell' | 'exec'
      /** One text for the shell, or the words of a command. */
      test: string[]
      intervalSec: number
      timeoutSec: number
      startPeriodSec: number
      startIntervalSec: number
      retries: number
    }

export type Mount =
  /** Without a name: a new one for each sandbox. */
  | { kind: 'volume'; name: string | null; target: string; readOnly: boolean }
  /** The source is a path inside the task. */
  | { kind: 'bind'; source: string; target: string; readOnly: boolean }
  | { kind: 'tmpfs'; target: string; sizeMb: number | null }

/** Something about a task that is wrong, or that its author should know. The path is a file, or a key of task.toml. */
export type Finding = { path: string; code: string; message: string }

/** Not a task, or one that cannot be run. Lists everything that is wrong with it. */
export class TaskInvalid extends Error {
  override name = 'TaskInvalid'
  readonly findings: Finding[]

  constructor(findings: Finding[]) {
    super(sentence(findings))
    this.findings = findings
  }
}

function sentence([first, ...others]: Finding[]): string {
  if (!first) return 'The task is invalid.'
  return `${first.path}: ${first.message}${others.length > 0 ? ` (and ${others.length} more)` : ''}`
}
