import { openTrap } from './trap.ts'

/** An attack of a build's commands, for every builder. `image` is the name of a Debian in the store. */
type BuildCase = AsyncDisposable & {
  files: Record<string, string>
  /** File of the built image in which the commands wrote what they found. */
  path: string
  /** Throws or returns false if the attack succeeded. */
  isHarmless: (text: string) => boolean
}

type OpenBuildCase = (options: { image: string; outside: string }) => Promise<BuildCase>

const plain = (files: Record<string, string>, path: string, isHarmless: BuildCase['isHarmless']): BuildCase => ({
  files,
  path,
  isHarmless,
  [Symbol.asyncDispose]: async () => {},
})

/** Leaves a root that is only changed: directly, and as a program that was given the right to change it. */
const leaving = (outside: string): string => `cp /usr/bin/perl /helper
perl -e 'my ($path, $name, $value) = ("/helper", "security.capability", pack "V5", 0x02000001, 0x00040000, 0, 0, 0); syscall 188, $path, $name, $value, 20, 0'
for program in perl /helper; do
  $program -e 'mkdir "/below"; chroot "/below"; chdir ".." for 1 .. 50; chroot "."; print -e "${outside}" ? "outside" : "inside"' || echo refused
  echo
done > /where`

const LOOK = `{ find /dev -type b; for path in /dev/kmsg /dev/fuse /dev/mem /dev/loop-control /proc/sysrq-trigger /proc/sys/kernel/core_pattern; do
perl -e 'print "$ARGV[0]\n" if open my $file, "+<", $ARGV[0]' "$path"; done; } > /seen; mknod /seen-too b 7 0 && echo made >> /seen; true`

const PROCESSES_MAX = 20

export const hostileBuilds: Record<string, OpenBuildCase> = {
  'a command of a build sees no process of this machine': async ({ image }) => {
    const look = `ls /proc | grep -c '^[0-9]' > /seen; kill -0 ${process.pid} 2>> /seen; true`
    return plain({ Dockerfile: `FROM ${image}\nRUN ${look}\n` }, '/seen', (text) => {
      const [count, kill = ''] = text.split('\n')
      return Number(count) < PROCESSES_MAX && kill.includes('No such process')
    })
  },
  'a build command cannot leave its root filesystem': async ({ image, outside }) => {
    const Dockerfile = `FROM ${image}\nCOPY leave.sh /\nRUN sh /leave.sh\n`
    const files = { Dockerfile, 'leave.sh': leaving(outside) }
    return plain(files, '/where', (text) => text !== '' && !text.includes('outside'))
  },
  'a build command reaches no disk or kernel setting of this machine, not even through a device file of its image':
    async ({ image }) => {
      const Dockerfile = `FROM ${image}\nCOPY look.sh /\nRUN sh /look.sh\n`
      return plain({ Dockerfile, 'look.sh': LOOK }, '/seen', (text) => text === '')
    },
  'a build command reaches neither this machine nor its networks': async ({ image }) => {
    const trap = await openTrap()
    return {
      files: trap.files(image),
      path: '/reached',
      isHarmless: (text) => text === '' && trap.seen.length === 0,
      [Symbol.asyncDispose]: trap[Symbol.asyncDispose],
    }
  },
}
