import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createResolve } from './resolve-name.ts'

const KNOWN = '93.184.216.34'
const NOT_FOUND = 3
const TYPE_A = 1

/** Starts a DNS server that knows the names of `known.test` and never answers for those of `silent.test`. */
async function startDns() {
  const socket = createSocket('udp4')
  socket.on('message', (query, { port, address }) => {
    const [name, type, end] = readQuestion(query)
    if (name.endsWith('silent.test')) return
    const isKnown = name.endsWith('known.test') && !name.endsWith('unknown.test')
    const answer = Buffer.from([0xc0, 12, 0, TYPE_A, 0, 1, 0, 0, 0, 0, 0, 4, ...KNOWN.split('.').map(Number)])
    const answers = isKnown && type === TYPE_A ? [answer] : []
    const header = [0x81, isKnown ? 0x80 : 0x80 + NOT_FOUND, 0, 1, 0, answers.length, 0, 0, 0, 0]
    const reply = [query.subarray(0, 2), Buffer.from(header), query.subarray(12, end), ...answers]
    socket.send(Buffer.concat(reply), port, address)
  })
  await once(socket.bind(0, '127.0.0.1'), 'listening')
  return socket
}

function readQuestion(query: Buffer): [name: string, type: number, end: number] {
  const labels: string[] = []
  let at = 12
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return [labels.join('.').toLowerCase(), query.readUInt16BE(at + 1), at + 5]
}

let dns: Awaited<ReturnType<typeof startDns>>
let folder: string
let hostsFile: string
beforeAll(async () => {
  dns = await startDns()
  folder = await mkdtemp(join(tmpdir(), 'assay-hosts-'))
  hostsFile = join(folder, 'hosts')
  await writeFile(hostsFile, '# comment known.test\n10.0.0.7 Inside.test inside\n::1 inside\n')
})
afterAll(async () => {
  dns.close()
  await rm(folder, { recursive: true })
})

const create = (lookupInSystem: (host: string) => Promise<string[]>) =>
  createResolve({ servers: [`127.0.0.1:${dns.address().port}`], hostsFile, lookupInSystem })
const refuse = async (host: string): Promise<string[]> => {
  throw new Error(`${host} was looked up in the system.`)
}

test('names whose server does not answer delay no others', async () => {
  const resolve = create(refuse)
  let ended = 0
  const silent = Array.from({ length: 50 }, (_, index) =>
    resolve(`a${index}.silent.test`)
      .catch(() => {})
      .finally(() => {
        ended += 1
      }),
  )
  expect(await resolve('www.known.test')).toEqual([KNOWN])
  expect(ended).toBe(0)
  await Promise.all(silent)
}, 60_000)

test('a name whose server does not answer is not looked up in the system', async () => {
  await expect(create(refuse)('a.silent.test')).rejects.toMatchObject({ code: 'ETIMEOUT' })
}, 60_000)

test('names of the hosts file come first', async () => {
  expect(await create(refuse)('inside.test')).toEqual(['10.0.0.7'])
  expect(await create(refuse)('inside')).toEqual(['10.0.0.7', '::1'])
})

test('names that DNS does not know are looked up in the system, one at a time', async () => {
  let open = 0
  const resolve = create(async () => {
    open += 1
    await new Promise(setImmediate)
    expect(open).toBe(1)
    open -= 1
    return ['10.0.0.8']
  })
  const names = ['search', 'a.unknown.test', 'b.unknown.test']
  expect(await Promise.all(names.map(resolve))).toEqual(names.map(() => ['10.0.0.8']))
})
