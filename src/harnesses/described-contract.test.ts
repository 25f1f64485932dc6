import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { create } from 'tar'
import { describedHarness } from './described.ts'
import { keepsTheContract } from './testing/contract.ts'
import { efforts } from './testing/sayings.ts'

/** What a workspace would send. */
const FOLDER = new URL('./testing/house-agent/', import.meta.url).pathname
const archive = await buffer(create({ gzip: true, portable: true, mtime: new Date(0), cwd: FOLDER }, ['.']))
const digest = `sha256:${createHash('sha256').update(archive).digest('hex')}`

const houseAgent = describedHarness({
  ...{ id: 'custom/house-agent', name: 'House agent', version: '1', protocols: ['openai-chat'] },
  levels: { low: 'low', high: 'high' },
  command: ['{node}', '{bundle}/agent.mjs', '{baseUrl}', '{model}', '{level}'],
  env: {},
  files: [{ path: '.house/settings.json', text: '{"token":"{token}"}' }],
  bundle: { digest, node: true, probe: ['{node}', '{bundle}/agent.mjs', '--version'] },
  output: [
    { when: { event: 'said' }, where: {}, tells: 'turn' },
    { when: { event: 'said' }, where: {}, tells: 'message', text: 'text' },
    {
      when: { event: 'said' },
      each: 'calls',
      where: {},
      tells: 'call',
      id: 'id',
      name: 'name',
      arguments: 'arguments',
    },
    { when: { event: 'done' }, where: {}, tells: 'result', id: 'call', text: 'output' },
  ],
})

keepsTheContract(houseAgent, {
  sayings: [
    { protocol: 'openai-chat', model: 'some-model', level: 'low', wireLevel: { effort: 'low' } },
    ...efforts('openai-chat', 'some-model', ['high']),
  ],
  openSent: async (asked) => (asked === digest ? Readable.from([archive]) : undefined),
  isTriedAlways: true,
})
