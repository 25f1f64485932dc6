import {
  AF_VSOCK,
  CLONE3,
  IOCTL,
  NAMESPACE_FLAGS,
  NAMESPACE_MAKERS,
  REFUSED,
  REFUSED_IOCTLS,
  SOCKET,
} from './system-calls.ts'

export type MachineKind = 'x64' | 'arm64'

const EPERM = 1
const ENOSYS = 38
const ALLOW = 0x7fff0000
const fail = (errno: number): number => 0x00050000 | errno

/** The kernel's name of the architecture in seccomp data. */
const AUDIT_ARCH: Record<MachineKind, number> = { x64: 0xc000003e, arm64: 0xc00000b7 }
/** On x64 a second set of numbers for the same calls begins here. */
const X32_BIT = 0x40000000

// Offsets in `struct seccomp_data`. Only the lower half of an argument is compared.
const NUMBER = 0
const ARCH = 4
const FIRST_ARGUMENT = 16
const SECOND_ARGUMENT = 24

/** An instruction of the classic packet filter: code, jump offsets when true and when false, operand. */
type Instruction = [code: number, ifTrue: number, ifFalse: number, operand: number]

const load = (offset: number): Instruction => [0x20, 0, 0, offset]
const equals = (value: number, ifTrue: number, ifFalse: number): Instruction => [0x15, ifTrue, ifFalse, value]
const atLeast = (value: number, ifTrue: number, ifFalse: number): Instruction => [0x35, ifTrue, ifFalse, value]
const anyBit = (mask: number, ifTrue: number, ifFalse: number): Instruction => [0x45, ifTrue, ifFalse, mask]
const answer = (value: number): Instruction => [0x06, 0, 0, value]

/** A compiled filter, as bubblewrap reads it. */
export function seccompFilter(machine: MachineKind): Buffer {
  const program = filterProgram(machine)
  const bytes = Buffer.alloc(program.length * 8)
  program.forEach(([code, ifTrue, ifFalse, operand], index) => {
    bytes.writeUInt16LE(code, index * 8)
    bytes.writeUInt8(ifTrue, index * 8 + 2)
    bytes.writeUInt8(ifFalse, index * 8 + 3)
    bytes.writeUInt32LE(operand >>> 0, index * 8 + 4)
  })
  return bytes
}

function filterProgram(machine: MachineKind): Instruction[] {
  const numbers = (calls: Record<string, Record<MachineKind, number | null>>): number[] =>
    Object.values(calls).flatMap((call) => call[machine] ?? [])

  return [
    load(ARCH),
    equals(AUDIT_ARCH[machine], 1, 0),
    answer(fail(ENOSYS)),
    load(NUMBER),
    atLeast(X32_BIT, 0, 1),
    answer(fail(ENOSYS)),
    ...numbers({ CLONE3 }).flatMap((number) => [equals(number, 0, 1), answer(fail(ENOSYS))]),
    ...numbers(REFUSED).flatMap((number) => [equals(number, 0, 1), answer(fail(EPERM))]),
    ...numbers(NAMESPACE_MAKERS).flatMap((number) => [
      equals(number, 0, 4),
      load(FIRST_ARGUMENT),
      anyBit(NAMESPACE_FLAGS, 0, 1),
      answer(fail(EPERM)),
      answer(ALLOW),
    ]),
    ...numbers({ IOCTL }).flatMap((number) => [
      equals(number, 0, 5),
      load(SECOND_ARGUMENT),
      equals(REFUSED_IOCTLS.TIOCSTI, 1, 0),
      equals(REFUSED_IOCTLS.TIOCLINUX, 0, 1),
      answer(fail(EPERM)),
      answer(ALLOW),
    ]),
    ...numbers({ SOCKET }).flatMap((number) => [
      equals(number, 0, 4),
      load(FIRST_ARGUMENT),
      equals(AF_VSOCK, 0, 1),
      answer(fail(EPERM)),
      answer(ALLOW),
    ]),
    answer(ALLOW),
  ]
}

const ociRefusal = (index: number, value: number, op: string, valueTwo = 0): object => ({ index, value, valueTwo, op })

/** Returns the filter as runc's settings; runc compiles it. */
export function seccompSettings(machine: MachineKind): object {
  const refuse = { action: 'SCMP_ACT_ERRNO', errnoRet: EPERM }
  return {
    defaultAction: 'SCMP_ACT_ALLOW',
    architectures: [machine === 'x64' ? 'SCMP_ARCH_X86_64' : 'SCMP_ARCH_AARCH64'],
    syscalls: [
      { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
      { names: Object.keys(REFUSED), ...refuse },
      // libseccomp compares for equality only, so each flag is a rule of its own.
      ...flagsOf(NAMESPACE_FLAGS).map((flag) => ({
        names: Object.keys(NAMESPACE_MAKERS),
        ...refuse,
        args: [ociRefusal(0, flag, 'SCMP_CMP_MASKED_EQ', flag)],
      })),
      ...Object.values(REFUSED_IOCTLS).map((request) => ({
        names: ['ioctl'],
        ...refuse,
        args: [ociRefusal(1, request, 'SCMP_CMP_EQ')],
      })),
      { names: ['socket'], ...refuse, args: [ociRefusal(0, AF_VSOCK, 'SCMP_CMP_EQ')] },
    ],
  }
}

const flagsOf = (mask: number): number[] =>
  Array.from({ length: 31 }, (_, bit) => 2 ** bit).filter((flag) => (mask & flag) !== 0)
