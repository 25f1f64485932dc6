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

/** Numbers of the system calls that we name, on the machines that we run on. Null: that machine does not have it. */
type Numbers = { x64: number | null; arm64: number | null }

const on = (x64: number | null, arm64: number | null = x64): Numbers => ({ x64, arm64 })

/**
 * System calls that sandboxes are refused: mounts, namespaces, kernel modules, keys, clocks, tracing of the machine.
 * Most need a capability that no sandbox has; the filter also protects against kernel bugs. Docker refuses them too.
 */
const REFUSED: Record<string, Numbers> = {
  acct: on(163, 89),
  add_key: on(248, 217),
  bpf: on(321, 280),
  clock_settime: on(227, 112),
  delete_module: on(176, 106),
  fanotify_init: on(300, 262),
  finit_module: on(313, 273),
  fsconfig: on(431),
  fsmount: on(432),
  fsopen: on(430),
  fspick: on(433),
  init_module: on(175, 105),
  io_uring_enter: on(426),
  io_uring_register: on(427),
  io_uring_setup: on(425),
  ioperm: on(173, null),
  iopl: on(172, null),
  kexec_file_load: on(320, 294),
  kexec_load: on(246, 104),
  keyctl: on(250, 219),
  lookup_dcookie: on(212, 18),
  mount: on(165, 40),
  mount_setattr: on(442),
  move_mount: on(429),
  name_to_handle_at: on(303, 264),
  nfsservctl: on(180, 42),
  open_by_handle_at: on(304, 265),
  open_tree: on(428),
  perf_event_open: on(298, 241),
  pivot_root: on(155, 41),
  quotactl: on(179, 60),
  quotactl_fd: on(443),
  reboot: on(169, 142),
  request_key: on(249, 218),
  setdomainname: on(171, 162),
  sethostname: on(170, 161),
  setns: on(308, 268),
  settimeofday: on(164, 170),
  swapoff: on(168, 225),
  swapon: on(167, 224),
  syslog: on(103, 116),
  umount2: on(166, 39),
  uselib: on(134, null),
  userfaultfd: on(323, 282),
  vhangup: on(153, 58),
}

/** Refused only when they create namespaces: the flags are their first argument. */
const NAMESPACE_MAKERS: Record<string, Numbers> = { clone: on(56, 220), unshare: on(272, 97) }

/** The flags of clone3 are not visible to a filter. When it is reported as missing, C libraries use `clone`. */
const CLONE3 = on(435)

/** Could inject input into the terminal that this server was started from. */
const IOCTL = on(16, 29)
const REFUSED_IOCTLS = { TIOCSTI: 0x5412, TIOCLINUX: 0x541c }

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
const NAMESPACE_FLAGS = 0x7e020000

/** vsock addresses belong to the hypervisor, whatever network a process is in. */
const SOCKET = on(41, 198)
const AF_VSOCK = 40
