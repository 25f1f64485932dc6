/** Numbers of the system calls that we name, on the machines that we run on. Null: that machine does not have it. */
type Numbers = { x64: number | null; arm64: number | null }

const on = (x64: number | null, arm64: number | null = x64): Numbers => ({ x64, arm64 })

/**
 * System calls that sandboxes are refused: mounts, namespaces, kernel modules, keys, clocks, tracing of the machine.
 * Most need a capability that no sandbox has; the filter also protects against kernel bugs. Docker refuses them too.
 */
export const REFUSED: Record<string, Numbers> = {
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

/** Refused only when they make namespaces: the flags are their first argument. */
export const NAMESPACE_MAKERS: Record<string, Numbers> = { clone: on(56, 220), unshare: on(272, 97) }

/** The flags of clone3 are not visible to a filter. When it is reported as missing, C libraries use `clone`. */
export const CLONE3 = on(435)

/** Could inject input into the terminal that this server was started from. */
export const IOCTL = on(16, 29)
export const REFUSED_IOCTLS = { TIOCSTI: 0x5412, TIOCLINUX: 0x541c }

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
export const NAMESPACE_FLAGS = 0x7e020000

/** vsock addresses belong to the hypervisor, whatever network a process is in. */
export const SOCKET = on(41, 198)
export const AF_VSOCK = 40
