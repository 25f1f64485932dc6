import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

export type Bridge = AsyncDisposable & { /** Arguments of dockerd. */ args: string[] }

/** Opens a network bridge for builds that install packages. It is removed together with the engine. */
export async function openBridge(): Promise<Bridge> {
  const number = process.pid % 200
  const name = `assay-b${process.pid % 100_000}`
  const ip = (...args: string[]) => run('ip', args)
  await ip('link', 'add', name, 'type', 'bridge')
  await ip('addr', 'add', `172.30.${number + 32}.1/24`, 'dev', name)
  await ip('link', 'set', name, 'up')
  // Packets larger than the MTU of the outer network would be dropped silently.
  const args = ['--bridge', name, '--iptables=true', '--ip-forward=true', '--mtu=1400']
  return { args, [Symbol.asyncDispose]: async () => void (await ip('link', 'del', name)) }
}
