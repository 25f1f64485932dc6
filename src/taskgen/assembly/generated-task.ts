import { REPOSITORY_FOLDER } from '../../grading/suite.ts'
import { GENERATED_LIMITS } from '../../harbor/limits.ts'
import { MAIN_SERVICE } from '../../harbor/settings.ts'
import type { Environment, Task } from '../../harbor/task.ts'
import type { Difficulty } from '../schema.ts'

/** Fields of a generated task. They reveal nothing about its pull request. */
export type GeneratedTaskInput = {
  /** `org/slug`, with a random slug. */
  name: string
  title: string
  markdown: string
  difficulty: Difficulty
  buildTimeoutSec: number
  agentTimeoutSec: number
  verifierTimeoutSec: number
  resources: { cpus: number; memoryMb: number; storageMb: number }
}

/** Resources of generated tasks. The health check runs every suite with the same limits, so they suffice. */
export const DEFAULT_RESOURCES: GeneratedTaskInput['resources'] = {
  cpus: GENERATED_LIMITS.cpus,
  memoryMb: GENERATED_LIMITS.memoryMb,
  storageMb: GENERATED_LIMITS.diskMb,
}

/**
 * Builds a task with a separate verifier that sees only the agent's patch. No phase has network access; models are
 * reached through the gateway tunnel.
 */
export function buildTask(input: GeneratedTaskInput): Omit<Task, 'files'> {
  const { name, title, markdown, difficulty, agentTimeoutSec } = input
  return {
    name,
    package: { name, version: null, description: title, authors: [], keywords: [] },
    source: null,
    metadata: { difficulty },
    environment: buildEnvironment('environment', input),
    steps: [
      {
        name: null,
        instruction: markdown,
        agent: { timeoutSec: agentTimeoutSec, user: null, network: NO_NETWORK },
        verifier: buildVerifier(input),
        healthcheck: null,
        artifacts: [
          { source: COLLECT_PATHS.submission, destination: 'submission.patch', exclude: [], service: MAIN_SERVICE },
        ],
        minReward: [],
        workdir: null,
        setup: null,
        solution: { folder: 'solution', script: 'solution/solve.sh' },
        trajectory: null,
      },
    ],
    rewardStrategy: 'mean',
    solutionEnv: [],
  }
}

const NO_NETWORK = { mode: 'no-network' as const, hosts: [] }

const COLLECT_TIMEOUT_SEC = 300

const buildVerifier = (input: GeneratedTaskInput): Task['steps'][0]['verifier'] => ({
  timeoutSec: input.verifierTimeoutSec,
  user: 'root',
  env: [],
  network: NO_NETWORK,
  collect: [{ command: renderCollectScript(), service: MAIN_SERVICE, timeoutSec: COLLECT_TIMEOUT_SEC, user: 'root' }],
  sandbox: { mode: 'separate', environment: buildEnvironment('tests', input) },
  testFolders: [],
  testScript: null,
})

const buildEnvironment = (folder: string, { buildTimeoutSec, resources }: GeneratedTaskInput): Environment => ({
  os: 'linux',
  folder,
  image: null,
  dockerfile: `${folder}/Dockerfile`,
  compose: null,
  buildTimeoutSec: buildTimeoutSec,
  resources: { ...resources, gpus: null, gpuTypes: null, tpu: null },
  network: NO_NETWORK,
  env: [],
  mcpServers: [],
  skillsDir: null,
  healthcheck: null,
  workdir: REPOSITORY_FOLDER,
})

export type CollectPaths = {
  repository: string
  /** The only file that reaches the verifier. */
  submission: string
  /**
   * Copy of the base repository out of the agent's reach. The patch can be computed even if an agent deletes or
   * rewrites `.git`, commits, or sets hooks, filters and attributes.
   */
  base: string
}

const COLLECT_PATHS: CollectPaths = {
  repository: REPOSITORY_FOLDER,
  submission: '/logs/artifacts/submission.patch',
  base: '/var/lib/base.git',
}

/** Returns environment variables that make git ignore settings of the machine, of users and of the agent. */
const renderGitEnvironment = ({ base, repository }: CollectPaths): string =>
  `GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_DIR=${base} GIT_WORK_TREE=${repository}`

/** Git attributes that disable every conversion of file contents, whatever the repository's attributes say. */
const RAW_ATTRIBUTES = '* -text -ident -filter -working-tree-encoding !eol !diff'

/** Fixed author and committer, so that the same tree gives the same commit. */
const BASE_IDENTITY = ['AUTHOR', 'COMMITTER']
  .map((role) => `GIT_${role}_NAME=base GIT_${role}_EMAIL= GIT_${role}_DATE='@0 +0000'`)
  .join(' ')

/**
 * Returns shell code for the last step of a Dockerfile. It saves the tracked files of the repository, the paths of its
 * submodules, and the ignore rules of `.git/info/exclude`.
 */
export const renderSaveBaseScript = (
  paths: CollectPaths = COLLECT_PATHS,
): string => `cd ${paths.repository} && export ${renderGitEnvironment(paths)} \\
 && git init --quiet --template= --initial-branch=main && mkdir -p ${paths.base}/info \\
 && echo '${RAW_ATTRIBUTES}' > ${paths.base}/info/attributes && (cat .git/info/exclude > ${paths.base}/info/exclude || true) \\
 && git --git-dir=.git ls-files -s -z | grep -azv '^160000 ' | cut -z -f2- | git update-index --add -z --stdin \\
 && git --git-dir=.git ls-files -s -z | { grep -az '^160000 ' || true; } | git update-index -z --index-info \\
 && ${BASE_IDENTITY} git commit-tree -m base "$(git write-tree)" > ${paths.base}/refs/heads/main \\
 && rm ${paths.base}/config ${paths.base}/index
`

/** Larger new files are left out. Pull requests with larger files are not candidates. */
const FILE_KIB_MAX = 1024
const PATCH_BYTES_MAX = 32 * 1024 * 1024

const GIT_SETTINGS = Object.entries({
  'safe.directory': '*',
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.untrackedCache': 'false',
  'core.attributesFile': '/dev/null',
  'core.autocrlf': 'false',
})
  .map(([key, value]) => `-c '${key}=${value}'`)
  .join(' ')

/**
 * Returns a Bash script that runs as root in the agent's sandbox and writes the agent's changes as a patch. New files that
 * are too large, clones inside the repository and changes of submodules are left out. Git objects and the index are stored
 * in a temporary folder, so that files that the agent left cannot interfere.
 */
export const renderCollectScript = (
  paths: CollectPaths = COLLECT_PATHS,
): string => `export LC_ALL=C HOME=/nonexistent ${renderGitEnvironment(paths)}
folder=$(dirname ${paths.submission})
if [ -L "$folder" ] || [ ! -d "$folder" ]; then rm -rf "$folder"; mkdir -p "$folder"; fi
rm -rf ${paths.submission}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/objects" && cd ${paths.repository} || exit 1
export GIT_INDEX_FILE="$work/index" GIT_OBJECT_DIRECTORY="$work/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES=${paths.base}/objects
{
  find . -xdev -path ./.git -prune -o -type f -size +${FILE_KIB_MAX}k -print
  find . -xdev -mindepth 2 -name .git -prune -print | sed 's,/\\.git$,,'
} | sed 's,^\\.,,; s/[][*?\\\\ !#]/\\\\&/g' > "$work/exclude"
raw_git() { git ${GIT_SETTINGS} -c core.excludesFile="$work/exclude" "$@"; }
raw_git read-tree main && raw_git add --all --ignore-errors . 2> "$work/errors"
raw_git diff --cached --binary --full-index --no-renames --no-color --no-ext-diff --no-textconv --ignore-submodules=all main > "$work/patch" || exit 1
if [ "$(wc -c < "$work/patch")" -gt ${PATCH_BYTES_MAX} ]; then echo 'The change is too large.'; exit 1; fi
cp "$work/patch" ${paths.submission} && chmod 644 ${paths.submission}`
