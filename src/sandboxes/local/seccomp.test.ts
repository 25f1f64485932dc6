import { describe, expect, test } from 'vitest'
import { compileFilter, type MachineKind } from './seccomp.ts'

const ALLOWED = 0x7fff0000
const REFUSED = 0x00050001
const MISSING = 0x00050026

/** AUDIT_ARCH of the kernel, and numbers from its tables of system calls. `otherMount` is that of mount on the other one. */
const MACHINES = {
  x64: { arch: 0xc000003e, mount: 165, otherMount: 40, clone: 56, ioctl: 16, socket: 41, read: 0 },
  arm64: { arch: 0xc00000b7, mount: 40, otherMount: 165, clone: 220, ioctl: 29, socket: 198, read: 63 },
} as const
const ARM_32 = 0x40000028
const CLONE3 = 435
const [SIGCHLD, CLONE_NEWUSER, CLONE_NEWNET] = [17, 0x10000000, 0x40000000]
const [TCGETS, TIOCSTI] = [0x5401, 0x5412]
const [AF_UNIX, AF_VSOCK] = [1, 40]

type Comparison = (value: number, operand: number) => boolean

/** Codes of the instructions of the classic packet filter. */
const [LOAD, RETURN] = [0x20, 0x06]
const JUMPS = new Map<number, Comparison>([
  [0x15, (value, operand) => value === operand],
  [0x35, (value, operand) => value >= operand],
  [0x45, (value, operand) => (value & operand) !== 0],
])

type Call = { arch: number; number: number; args?: [first?: number, second?: number] }

/** Runs the compiled filter on a system call, as the kernel does. */
function judge(machine: MachineKind, { arch, number, args: [first = 0, second = 0] = [] }: Call): number {
  const bytes = compileFilter(machine)
  const data = new Map([
    [0, number],
    [4, arch],
    [16, first],
    [24, second],
  ])
  let value = 0
  for (let offset = 0; offset < bytes.length; offset += 8) {
    const code = bytes.readUInt16LE(offset)
    const operand = bytes.readUInt32LE(offset + 4)
    if (code === RETURN) return operand
    if (code === LOAD) value = data.get(operand) ?? Number.NaN
    else offset += 8 * bytes.readUInt8(offset + (JUMPS.get(code)?.(value, operand) ? 2 : 3))
  }
  throw new Error('The filter ends without a result.')
}

describe.each(['x64', 'arm64'] as const)('the system call filter on %s', (machine) => {
  const { arch, ...numbers } = MACHINES[machine]

  test.each([
    ['refuses mount', REFUSED, numbers.mount, []],
    ['allows the call that has the number of mount elsewhere', ALLOWED, numbers.otherMount, []],
    ['allows read', ALLOWED, numbers.read, []],
    ['allows clone without namespaces', ALLOWED, numbers.clone, [SIGCHLD]],
    ['refuses clone with a user namespace', REFUSED, numbers.clone, [CLONE_NEWUSER]],
    ['refuses clone with a network namespace', REFUSED, numbers.clone, [CLONE_NEWNET | SIGCHLD]],
    ['reports clone3 as missing', MISSING, CLONE3, []],
    ['allows ioctl', ALLOWED, numbers.ioctl, [0, TCGETS]],
    ['refuses input into a terminal', REFUSED, numbers.ioctl, [0, TIOCSTI]],
    ['allows local sockets', ALLOWED, numbers.socket, [AF_UNIX]],
    ['refuses sockets to the hypervisor', REFUSED, numbers.socket, [AF_VSOCK]],
  ] as const)('%s', (_, result, number, args) => {
    expect(judge(machine, { arch, number, args: [...args] })).toBe(result)
  })

  test('reports every call of another architecture as missing', () => {
    const others = [ARM_32, ...Object.values(MACHINES).map((other) => other.arch)].filter((other) => other !== arch)
    expect(others.map((other) => judge(machine, { arch: other, number: numbers.read }))).toEqual([MISSING, MISSING])
  })

  test('reports a second set of numbers as missing', () => {
    expect(judge(machine, { arch, number: 0x40000000 + numbers.read })).toBe(MISSING)
  })
})
