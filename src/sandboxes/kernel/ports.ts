import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, rename } from 'node:fs/promises'
import { createServer, Server } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type Port, SandboxUnavailable } from '../sandbox.ts'
import { STANDARD_PATH } from './shell.ts'

/**
 * Creates the listening sockets in the sandbox's network and passes them to Node over its IPC channel. Perl takes a
 * few milliseconds, during which the start of the sandbox waits; another Node process takes fifty.
 *
 * The numbers are constants of Linux: 46 and 211 the system call `sendmsg`; 2, 1, 6 `AF_INET`, `SOCK_STREAM` and
 * `IPPROTO_TCP`; 1, 2 `SOL_SOCKET` and `SO_REUSEADDR`; 4, 04002 `F_SETFL` and `O_RDWR | O_NONBLOCK`. `$rights` and
 * `$message` are a `cmsghdr` with `SCM_RIGHTS` and a `msghdr`.
 */
const LISTEN_PERL = `my %number = (x86_64 => 46, aarch64 => 211);
my ($machine) = map { $number{$_} // () } split /-/, (require Config, $Config::Config{archname})[1];
my $channel = $ENV{NODE_CHANNEL_FD};
die "unsupported processor\\n" unless $machine && $channel && length pack("P", "") == 8;
open my $answers, "<&=", $channel or die "$!\\n";
for my $port (@ARGV) {
  socket my $listening, 2, 1, 6 or die "$!\\n";
  setsockopt $listening, 1, 2, 1;
  bind $listening, pack "S n a4 x8", 2, $port, "\\x7f\\0\\0\\1" or die "$port: $!\\n";
  listen $listening, 511 or die "$!\\n";
  fcntl $listening, 4, 04002 or die "$!\\n";
  my $text = "{\\"cmd\\":\\"NODE_HANDLE\\",\\"type\\":\\"net.Server\\",\\"msg\\":\\"$port\\"}\\n";
  my $piece = pack "P Q", $text, length $text;
  my $rights = pack "Q l l l x4", 20, 1, 1, fileno $listening;
  my $message = pack "Q Q P Q P Q Q", 0, 0, $piece, 1, $rights, length $rights, 0;
  syscall($machine, $channel + 0, $message, 0) == length $text or die "$!\\n";
  defined readline $answers or last;
}`

/** JavaScript version of the program above, for machines without perl. Node runs it directly: it must contain no types. */
const LISTEN_NODE = `const ports = process.argv.slice(1)
let sent = 0
const onSent = () => {
  sent += 1
  if (sent === ports.length) process.exit(0)
}
for (const port of ports) {
  const server = require('node:net').createServer()
  server.listen(Number(port), '127.0.0.1', () => process.send(port, server, onSent))
}`

type ListenProgram = (ports: string[]) => string[]

export const listenPrograms = {
  perl: (ports) => ['perl', '-e', LISTEN_PERL, ...ports],
  node: (ports) => [process.execPath, '-e', LISTEN_NODE, ...ports],
} as const satisfies Record<string, ListenProgram>

/** Timeout for opening the ports, which takes milliseconds. */
const LISTEN_TIMEOUT_MS = 30_000

let hasPerl = true

/**
 * Listens on the loopback of a sandbox's network. A child process enters the network, creates the sockets and passes
 * them to this process. `enterArgs` is the command line prefix that enters the network.
 */
export async function openPorts(enterArgs: string[], ports: Port[]): Promise<Server[]> {
  const byPerl = hasPerl ? await listenWith(listenPrograms.perl, enterArgs, ports) : undefined
  if (byPerl && 'servers' in byPerl) return byPerl.servers
  const byNode = await listenWith(listenPrograms.node, enterArgs, ports)
  if ('error' in byNode) throw new SandboxUnavailable(`The ports could not be opened in the sandbox: ${byNode.error}`)
  hasPerl = false // Node succeeded where perl failed
  return byNode.servers
}

/** Opens the ports with one of the two programs. Exported for tests. */
export async function listenWith(
  buildArgs: ListenProgram,
  [program = '', ...args]: string[],
  ports: Port[],
): Promise<{ servers: Server[] } | { error: string }> {
  const words = [...args, ...buildArgs(ports.map(({ port }) => String(port)))]
  const child = spawn(program, words, { env: { PATH: STANDARD_PATH }, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  const errors = child.stderr === null ? Promise.resolve('') : text(child.stderr)
  const servers = new Map<string, Server>()
  const received = Promise.withResolvers<void>()
  child.on('error', () => {}) // a child that failed has opened too few ports, which is reported below
  child.on('message', (port, server) => {
    if (server instanceof Server) servers.set(String(port), server)
    if (servers.size === ports.length) received.resolve()
  })
  const timer = setTimeout(() => void child.kill('SIGKILL'), LISTEN_TIMEOUT_MS)
  await Promise.race([received.promise, once(child, 'close')])
  clearTimeout(timer)
  for (const { port, onConnection } of ports) {
    servers.get(String(port))?.on('connection', onConnection)
    servers.get(String(port))?.on('error', () => {}) // the sandbox has ended
  }
  if (servers.size === ports.length) return { servers: [...servers.values()] }
  for (const server of servers.values()) server.close()
  return { error: (await errors).trim() }
}

/**
 * Listens on a socket in a folder, to which a relay carries the connections of a sandbox's port. Replaces the socket of an
 * earlier process. Closing the server of that process, if it is alive, does not remove this socket.
 */
export async function listenForPort(folder: string, { port, onConnection }: Port): Promise<Server> {
  const path = join(folder, String(port))
  // A server removes the path on which it was opened when it is closed. So it is opened on a path of its own.
  const ownPath = `${path}.${randomBytes(3).toString('hex')}`
  const server = createServer({ allowHalfOpen: false }, onConnection).listen(ownPath)
  await once(server, 'listening')
  // The folder is private to this process; in the container of a relay it may belong to another user.
  await chmod(ownPath, 0o666)
  await rename(ownPath, path)
  return server
}
