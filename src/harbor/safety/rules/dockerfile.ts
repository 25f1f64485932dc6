import { type DockerfileInstruction, listCopies } from '../../dockerfile.ts'
import { isInsideFolder, listRawServices } from '../compose-services.ts'
import type { RuleMatch, SafetyRule } from '../rule.ts'
import type { TaskView, UsedDockerfile } from '../view.ts'

/** Matches each instruction for which `detailOf` returns a detail. */
const matchInstructions =
  (detailOf: (instruction: DockerfileInstruction) => string | undefined) =>
  ({ dockerfiles }: TaskView): RuleMatch[] =>
    dockerfiles.flatMap(({ path, dockerfile }) =>
      dockerfile.stages
        .flatMap(({ instructions }) => instructions)
        .flatMap((instruction) => {
          const detail = detailOf(instruction)
          return detail === undefined ? [] : [{ path, line: instruction.line, detail }]
        }),
    )

const matchContextEscapes = ({ dockerfiles }: TaskView): RuleMatch[] =>
  dockerfiles.flatMap((used) =>
    listCopies(used.dockerfile)
      .filter(({ source }) => source.split('/').includes('..') && !isInsideFolder(source.replace(/^\/+/, '')))
      .map(({ line }) => ({ path: used.path, line, detail: 'The source is outside the build context.' })),
  )

const listMounts = ({ flags }: DockerfileInstruction): string[] =>
  flags.flatMap(({ name, value }) => (name === 'mount' ? [value ?? ''] : []))

const describeSecretMount = (instruction: DockerfileInstruction): string | undefined =>
  listMounts(instruction).some((mount) => /(?:^|,)type=(?:secret|ssh)(?:,|$)/.test(mount))
    ? 'The build would mount a secret of the host.'
    : undefined

const PRIVILEGES: Record<string, RegExp> = { security: /^insecure$/, network: /^host$/, device: /./ }

const describePrivilege = ({ flags }: DockerfileInstruction): string | undefined => {
  const flag = flags.find(({ name, value }) => PRIVILEGES[name]?.test(value ?? ''))
  return flag && `--${flag.name}=${flag.value} would weaken the isolation of the build.`
}

const FRONTEND = /^#\s*syntax\s*=\s*(\S+)/i
const KNOWN_FRONTEND = /^(?:docker\.io\/)?docker\/dockerfile(?:-upstream)?(?:[:@][\w.:-]+)?$/

/** Matches `# syntax=` directives. They count only before the first instruction. */
function matchFrontends({ path, text }: UsedDockerfile): RuleMatch[] {
  const lines = text.split('\n', 20)
  const end = lines.findIndex((line) => !/^\s*(?:#|$)/.test(line))
  return lines.slice(0, end < 0 ? lines.length : end).flatMap((line, index) => {
    const frontend = FRONTEND.exec(line)?.[1]
    if (frontend === undefined || KNOWN_FRONTEND.test(frontend)) return []
    return [{ path, line: index + 1, detail: 'The build would run an untrusted frontend image.' }]
  })
}

/** Returns true for a working directory that could allow an escape from runc (CVE-2024-21626). */
const isKernelPath = (folder: string | null | undefined): boolean =>
  typeof folder === 'string' && /^["']?\/(?:proc|dev\/fd|sys)(?:\/|["']?$)/.test(folder)

const matchWorkdirs = (view: TaskView): RuleMatch[] => [
  ...matchInstructions(({ keyword, text }) =>
    keyword === 'WORKDIR' && isKernelPath(text) ? WORKDIR_DETAIL : undefined,
  )(view),
  ...view.environments
    .filter(({ workdir }) => isKernelPath(workdir))
    .map(() => ({ path: 'environment.workdir', detail: WORKDIR_DETAIL })),
  ...listRawServices(view)
    .filter(({ settings }) => typeof settings.working_dir === 'string' && isKernelPath(settings.working_dir))
    .map(({ path }) => ({ path: `${path}.working_dir`, detail: WORKDIR_DETAIL })),
]

const WORKDIR_DETAIL = 'The working directory could give access to the file system of the host.'

export const dockerfileRules: SafetyRule[] = [
  {
    id: 'dockerfile_context',
    severity: 'block',
    description: 'files copied from outside the build context',
    check: matchContextEscapes,
  },
  {
    id: 'dockerfile_secrets',
    severity: 'block',
    description: 'secrets and SSH agents mounted in a build',
    check: matchInstructions(describeSecretMount),
  },
  {
    id: 'dockerfile_privileges',
    severity: 'block',
    description: 'build steps with --security=insecure, --network=host or a host device',
    check: matchInstructions(describePrivilege),
  },
  {
    id: 'dockerfile_frontend',
    severity: 'block',
    description: 'a Dockerfile frontend other than Docker’s own',
    check: ({ dockerfiles }) => dockerfiles.flatMap(matchFrontends),
  },
  {
    id: 'workdir_escape',
    severity: 'block',
    description: 'a working directory in /proc, /sys or /dev/fd',
    check: matchWorkdirs,
  },
]
