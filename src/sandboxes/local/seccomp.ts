export type MachineKind = 'x64' | 'arm64'

const EPERM = 1
const ENOSYS = 38
/** Return values of a filter: SECCOMP_RET_ALLOW, and SECCOMP_RET_ERRNO with an error number. */
const ALLOW = 0x7fff0000
const failWith = (errno: number): number => 0x00050000 | errno

/** The kernel's name of the architecture in seccomp data. */
const AUDIT_ARCH: Record<MachineKind, number> = { x64: 0xc000003e, arm64: 0xc00000b7 }
/** On x64 a second set of numbers for the same calls begins here. */
const X32_BIT = 0x40000000

// Offsets in `struct seccomp_data`. Only the lower half of an argument is compared.
const NUMBER_OFFSET = 0
const ARCH_OFFSET = 4
const FIRST_ARGUMENT_OFFSET = 16
const SECOND_ARGUMENT_OFFSET = 24

/** An instruction of the classic packet filter: code, jump offsets when true and when false, operand. */
type Instruction = [code: number, ifTrue: number, ifFalse: number, operand: number]

const load = (offset: number): Instruction => [0x20, 0, 0, offset]
const equals = (value: number, ifTrue: number, ifFalse: number): Instruction => [0x15, ifTrue, ifFalse, value]
const atLeast = (value: number, ifTrue: number, ifFalse: number): Instruction => [0x35, ifTrue, ifFalse, value]
const anyBit = (mask: number, ifTrue: number, ifFalse: number): Instruction => [0x45, ifTrue, ifFalse, mask]
const returnValue = (value: number): Instruction => [0x06, 0, 0, value]

/** Compiles the filter to the format that bubblewrap reads. */
export function compileFilter(machine: MachineKind): Buffer {
  const program = buildProgram(machine)
  const bytes = Buffer.alloc(program.length * 8)
  program.forEach(([code, ifTrue, ifFalse, operand], index) => {
    bytes.writeUInt16LE(code, index * 8)
    bytes.writeUInt8(ifTrue, index * 8 + 2)
    bytes.writeUInt8(ifFalse, index * 8 + 3)
    bytes.writeUInt32LE(operand >>> 0, index * 8 + 4)
  })
  return bytes
}

function buildProgram(machine: MachineKind): Instruction[] {
  const numbersOf = (calls: Record<string, SyscallNumbers>): number[] =>
    Object.values(calls).flatMap((call) => call[machine] ?? [])

  return [
    load(ARCH_OFFSET),
    equals(AUDIT_ARCH[machine], 1, 0),
    returnValue(failWith(ENOSYS)),
    load(NUMBER_OFFSET),
    atLeast(X32_BIT, 0, 1),
    returnValue(failWith(ENOSYS)),
    ...numbersOf({ CLONE3 }).flatMap((number) => [equals(number, 0, 1), returnValue(failWith(ENOSYS))]),
    ...numbersOf(REFUSED).flatMap((number) => [equals(number, 0, 1), returnValue(failWith(EPERM))]),
    ...numbersOf(NAMESPACE_CALLS).flatMap((number) => [
      equals(number, 0, 4),
      load(FIRST_ARGUMENT_OFFSET),
      anyBit(NAMESPACE_FLAGS, 0, 1),
      returnValue(failWith(EPERM)),
      returnValue(ALLOW),
    ]),
    ...numbersOf({ IOCTL }).flatMap((number) => [
      equals(number, 0, 5),
      load(SECOND_ARGUMENT_OFFSET),
      equals(REFUSED_IOCTLS.TIOCSTI, 1, 0),
      equals(REFUSED_IOCTLS.TIOCLINUX, 0, 1),
      returnValue(failWith(EPERM)),
      returnValue(ALLOW),
    ]),
    ...numbersOf({ SOCKET }).flatMap((number) => [
      equals(number, 0, 4),
      load(FIRST_ARGUMENT_OFFSET),
      equals(AF_VSOCK, 0, 1),
      returnValue(failWith(EPERM)),
      returnValue(ALLOW),
    ]),
    returnValue(ALLOW),
  ]
}

const buildOciArgument = (index: number, value: number, op: string, valueTwo = 0): object => ({
  index,
  value,
  valueTwo,
  op,
})

/** Builds the filter as runc's settings; runc compiles it. */
export function buildOciFilter(machine: MachineKind): object {
  const refuse = { action: 'SCMP_ACT_ERRNO', errnoRet: EPERM }
  return {
    defaultAction: 'SCMP_ACT_ALLOW',
    architectures: [machine === 'x64' ? 'SCMP_ARCH_X86_64' : 'SCMP_ARCH_AARCH64'],
    syscalls: [
      { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
      { names: Object.keys(REFUSED), ...refuse },
      // libseccomp compares for equality only, so each flag is a rule of its own.
      ...listFlags(NAMESPACE_FLAGS).map((flag) => ({
        names: Object.keys(NAMESPACE_CALLS),
        ...refuse,
        args: [buildOciArgument(0, flag, 'SCMP_CMP_MASKED_EQ', flag)],
      })),
      ...Object.values(REFUSED_IOCTLS).map((request) => ({
        names: ['ioctl'],
        ...refuse,
        args: [buildOciArgument(1, request, 'SCMP_CMP_EQ')],
      })),
      { names: ['socket'], ...refuse, args: [buildOciArgument(0, AF_VSOCK, 'SCMP_CMP_EQ')] },
    ],
  }
}

const listFlags = (mask: number): number[] =>
  Array.from({ length: 31 }, (_, bit) => 2 ** bit).filter((flag) => (mask & flag) !== 0)

/** Number of a system call on each architecture. Null: the architecture does not have it. */
type SyscallNumbers = { x64: number | null; arm64: number | null }

const numbers = (x64: number | null, arm64: number | null = x64): SyscallNumbers => ({ x64, arm64 })

/**
 * System calls that sandboxes are refused: mounts, namespaces, kernel modules, keys, clocks, tracing of the machine.
 * Most need a capability that no sandbox has; the filter also protects against kernel bugs. Docker refuses them too.
 */
const REFUSED: Record<string, SyscallNumbers> = {
  acct: numbers(163, 89),
  add_key: numbers(248, 217),
  bpf: numbers(321, 280),
  clock_settime: numbers(227, 112),
  delete_module: numbers(176, 106),
  fanotify_init: numbers(300, 262),
  finit_module: numbers(313, 273),
  fsconfig: numbers(431),
  fsmount: numbers(432),
  fsopen: numbers(430),
  fspick: numbers(433),
  init_module: numbers(175, 105),
  io_uring_enter: numbers(426),
  io_uring_register: numbers(427),
  io_uring_setup: numbers(425),
  ioperm: numbers(173, null),
  iopl: numbers(172, null),
  kexec_file_load: numbers(320, 294),
  kexec_load: numbers(246, 104),
  keyctl: numbers(250, 219),
  lookup_dcookie: numbers(212, 18),
  mount: numbers(165, 40),
  mount_setattr: numbers(442),
  move_mount: numbers(429),
  name_to_handle_at: numbers(303, 264),
  nfsservctl: numbers(180, 42),
  open_by_handle_at: numbers(304, 265),
  open_tree: numbers(428),
  perf_event_open: numbers(298, 241),
  pivot_root: numbers(155, 41),
  quotactl: numbers(179, 60),
  quotactl_fd: numbers(443),
  reboot: numbers(169, 142),
  request_key: numbers(249, 218),
  setdomainname: numbers(171, 162),
  sethostname: numbers(170, 161),
  setns: numbers(308, 268),
  settimeofday: numbers(164, 170),
  swapoff: numbers(168, 225),
  swapon: numbers(167, 224),
  syslog: numbers(103, 116),
  umount2: numbers(166, 39),
  uselib: numbers(134, null),
  userfaultfd: numbers(323, 282),
  vhangup: numbers(153, 58),
}

/** System calls that are refused only when they create namespaces. The flags are their first argument. */
const NAMESPACE_CALLS: Record<string, SyscallNumbers> = { clone: numbers(56, 220), unshare: numbers(272, 97) }

/** Refused as missing, after which C libraries use `clone`: a filter cannot read the flags of clone3. */
const CLONE3 = numbers(435)

/** System call for terminals. Two of its requests could inject input into the terminal of this server. */
const IOCTL = numbers(16, 29)
const REFUSED_IOCTLS = { TIOCSTI: 0x5412, TIOCLINUX: 0x541c }

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
const NAMESPACE_FLAGS = 0x7e020000

/** System call that creates sockets. Sockets of vsock reach the hypervisor from any network namespace. */
const SOCKET = numbers(41, 198)
const AF_VSOCK = 40
