import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { POD_RELAY_PROGRAM } from './relay.ts'

async function startProgram() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  const port = typeof address === 'object' && address ? address.port : 0
  const child = spawn(process.execPath, ['-e', POD_RELAY_PROGRAM, String(port)])
  await once(child.stderr, 'data')
  return {
    child,
    port,
    memoryMb: async () =>
      Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024,
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** Builds a message with bytes for a connection. */
function buildDataMessage(connection: number, size: number): Buffer {
  const header = Buffer.alloc(9)
  header.writeUInt32BE(connection, 0)
  header.writeUInt8(1, 4)
  header.writeUInt32BE(size, 5)
  return Buffer.concat([header, Buffer.alloc(size)])
}

test('an answer that a program does not read stays with its sender', async () => {
  await using program = await startProgram()
  const clients = Array.from({ length: 4 }, () => connect(program.port, '127.0.0.1').pause())
  let opened = 0
  program.child.stdout.on('data', (chunk) => (opened += chunk.length / 11))
  await expect.poll(() => opened).toBe(4)
  const before = await program.memoryMb()
  for (let count = 0; count < 3000; count += 1) program.child.stdin.write(buildDataMessage(1 + (count % 4), 65_536))
  const unsent: number[] = []
  const isStalled = () => unsent.push(program.child.stdin.writableLength) > 1 && unsent.at(-1) === unsent.at(-2)
  await expect.poll(isStalled, { interval: 500, timeout: 30_000 }).toBe(true)
  expect(unsent.at(-1)).toBeGreaterThan(60_000_000)
  expect((await program.memoryMb()) - before).toBeLessThan(120)
  for (const client of clients) client.resume()
  await expect.poll(() => program.child.stdin.writableLength, { timeout: 30_000 }).toBe(0)
  for (const client of clients) client.destroy()
})

test('the number of connections of a program is limited', async () => {
  await using program = await startProgram()
  program.child.stdout.resume()
  const clients = Array.from({ length: 600 }, () => connect(program.port, '127.0.0.1').on('error', () => {}))
  await expect.poll(() => clients.filter(({ destroyed }) => destroyed).length).toBe(100)
  for (const client of clients) client.destroy()
})
