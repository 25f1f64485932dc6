import type { Instruction } from '../../dockerfile.ts'
import { isInside, servicesOf } from '../compose-services.ts'
import { copiesOf } from '../copies.ts'
import type { Found, Rule } from '../rule.ts'
import type { UsedDockerfile } from '../task-parts.ts'
import type { View } from '../view.ts'

/** A finding for each instruction for which there is a detail. */
const where =
  (detailOf: (instruction: Instruction) => string | undefined) =>
  ({ dockerfiles }: View): Found[] =>
    dockerfiles.flatMap(({ path, dockerfile }) =>
      dockerfile.stages
        .flatMap(({ instructions }) => instructions)
        .flatMap((instruction) => {
          const detail = detailOf(instruction)
          return detail === undefined ? [] : [{ path, line: instruction.line, detail }]
        }),
    )

const contextEscapes = ({ dockerfiles }: View): Found[] =>
  dockerfiles.flatMap((used) =>
    copiesOf(used)
      .filter(({ source }) => source.split('/').includes('..') && !isInside(source.replace(/^\/+/, '')))
      .map(({ line }) => ({ path: used.path, line, detail: 'It copies from outside the folder that it is built in.' })),
  )

const mounts = ({ flags }: Instruction): string[] =>
  flags.flatMap(({ name, value }) => (name === 'mount' ? [value ?? ''] : []))

const secretMount = (instruction: Instruction): string | undefined =>
  mounts(instruction).some((mount) => /(?:^|,)type=(?:secret|ssh)(?:,|$)/.test(mount))
    ? 'It mounts a secret of the machine that builds it.'
    : undefined

const PRIVILEGES: Record<string, RegExp> = { security: /^insecure$/, network: /^host$/, device: /./ }

const privileges = ({ flags }: Instruction): string | undefined => {
  const flag = flags.find(({ name, value }) => PRIVILEGES[name]?.test(value ?? ''))
  return flag && `--${flag.name}=${flag.value} would open the machine that builds it.`
}

const FRONTEND = /^#\s*syntax\s*=\s*(\S+)/i
const KNOWN_FRONTEND = /^(?:docker\.io\/)?docker\/dockerfile(?:-upstream)?(?:[:@][\w.:-]+)?$/

/** Directives stand before everything else. */
function frontends({ path, text }: UsedDockerfile): Found[] {
  const lines = text.split('\n', 20)
  const end = lines.findIndex((line) => !/^\s*(?:#|$)/.test(line))
  return lines.slice(0, end < 0 ? lines.length : end).flatMap((line, place) => {
    const frontend = FRONTEND.exec(line)?.[1]
    if (frontend === undefined || KNOWN_FRONTEND.test(frontend)) return []
    return [{ path, line: place + 1, detail: 'The build would be done by an image of a stranger.' }]
  })
}

/** runc once followed such a folder to the host: CVE-2024-21626. */
const isHandle = (folder: string | null | undefined): boolean =>
  typeof folder === 'string' && /^["']?\/(?:proc|dev\/fd|sys)(?:\/|["']?$)/.test(folder)

const workdirs = (view: View): Found[] => [
  ...where(({ keyword, text }) => (keyword === 'WORKDIR' && isHandle(text) ? HANDLE : undefined))(view),
  ...view.environments
    .filter(({ workdir }) => isHandle(workdir))
    .map(() => ({ path: 'environment.workdir', detail: HANDLE })),
  ...servicesOf(view)
    .filter(({ settings }) => typeof settings.working_dir === 'string' && isHandle(settings.working_dir))
    .map(({ path }) => ({ path: `${path}.working_dir`, detail: HANDLE })),
]

const HANDLE = 'This working folder is a way through the kernel to the host.'

export const dockerfileRules: Rule[] = [
  {
    id: 'dockerfile_context',
    severity: 'block',
    what: 'files copied from outside the folder of the build',
    check: contextEscapes,
  },
  {
    id: 'dockerfile_secrets',
    severity: 'block',
    what: 'secrets and SSH agents mounted in a build',
    check: where(secretMount),
  },
  {
    id: 'dockerfile_privileges',
    severity: 'block',
    what: 'builds without confinement, on the network or with devices of the host',
    check: where(privileges),
  },
  {
    id: 'dockerfile_frontend',
    severity: 'block',
    what: 'a build program other than Docker’s own',
    check: ({ dockerfiles }) => dockerfiles.flatMap(frontends),
  },
  {
    id: 'workdir_escape',
    severity: 'block',
    what: 'a working folder in /proc, /sys or /dev/fd',
    check: workdirs,
  },
]
