import type { SystemPackageManager, SystemPart } from './parts.ts'

export type SetupCommand = readonly [program: string, ...args: string[]]
export type SetupMachine = { manager: SystemPackageManager | undefined; isRoot: boolean; hasSudo: boolean }
type SetupPlan = { commands: SetupCommand[] } | { refusal: string }

/** Plans the commands that install parts, or returns why they cannot be installed. */
export function planInstallation(parts: readonly SystemPart[], machine: SetupMachine): SetupPlan {
  const { manager, isRoot, hasSudo } = machine
  if (!manager) return { refusal: `No supported package manager found. Install by hand: ${joinPartNames(parts)}.` }
  const unpackaged = parts.filter((part) => !part.packages[manager])
  if (unpackaged.length > 0) {
    return { refusal: `${manager} has no known package for: ${joinPartNames(unpackaged)}. Install by hand.` }
  }
  const packages = parts.flatMap((part) => part.packages[manager] ?? [])
  const commands = buildInstallCommands(manager, packages, machine)
  if (isRoot || hasSudo || manager === 'brew') return { commands }
  return { refusal: ['Run this as root:', ...formatCommands(commands)].join('\n') }
}

export const joinPartNames = (parts: readonly SystemPart[]): string => parts.map((part) => part.name).join(', ')

export const formatCommands = (commands: readonly SetupCommand[]): string[] =>
  commands.map((command) => `  ${command.join(' ')}`)

const APT_INSTALL = ['apt-get', 'install', '-q', '-y', '--no-install-recommends']

/** Returns the commands that install the packages, in order. */
function buildInstallCommands(
  manager: SystemPackageManager,
  packages: readonly string[],
  { isRoot, hasSudo }: SetupMachine,
): SetupCommand[] {
  if (manager === 'brew') return [['brew', 'install', ...packages]]
  const commands: Record<Exclude<SystemPackageManager, 'brew'>, SetupCommand[]> = {
    'apt-get': [
      ['apt-get', 'update', '-q'],
      ['env', 'DEBIAN_FRONTEND=noninteractive', ...APT_INSTALL, ...packages],
    ],
    dnf: [['dnf', 'install', '-y', ...packages]],
    apk: [['apk', 'add', ...packages]],
    pacman: [['pacman', '-S', '--needed', '--noconfirm', ...packages]],
  }
  const needsSudo = !isRoot && hasSudo
  return commands[manager].map((command): SetupCommand => (needsSudo ? ['sudo', ...command] : command))
}
