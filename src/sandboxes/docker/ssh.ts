import { spawn } from 'node:child_process'
import { Duplex } from 'node:stream'

export type Destination = { destination: string; port: number | null }

/** Options of ssh: no prompts, and the destination is never parsed as an option. */
export function sshWords({ destination, port }: Destination): string[] {
  return [
    ...['-o', 'BatchMode=yes', '-o', 'ConnectTimeout=30', '-T'],
    ...(port === null ? [] : ['-p', String(port)]),
    ...['--', destination, 'docker', 'system', 'dial-stdio'],
  ]
}

/** Opens a connection to the engine over the standard input and output of an ssh process. */
export function dialSsh(destination: Destination): Duplex {
  const child = spawn('ssh', sshWords(destination), { stdio: ['pipe', 'pipe', 'ignore'] })
  const link = new SshLink({
    read: () => void child.stdout.resume(),
    write: (chunk, _encoding, done) => void child.stdin.write(chunk, done),
    final: (done) => void child.stdin.end(done),
    destroy: (error, done) => {
      child.kill()
      done(error)
    },
  })
  child.stdin.on('error', (error) => link.destroy(error))
  child.stdout.on('data', (chunk) => link.push(chunk) || child.stdout.pause())
  child.stdout.on('end', () => link.push(null))
  child.once('error', (error) => link.destroy(error))
  return link
}

/** An agent sets these on what it keeps; they mean nothing for two pipes. */
class SshLink extends Duplex {
  setKeepAlive(): this {
    return this
  }
  setNoDelay(): this {
    return this
  }
  setTimeout(): this {
    return this
  }
  ref(): this {
    return this
  }
  unref(): this {
    return this
  }
}
