import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { create } from 'tar'
import { testHarnessContract } from '../../test/support/harnesses/contract.ts'
import { efforts } from '../../test/support/harnesses/level-cases.ts'
import { buildCustomHarness } from './custom-harness.ts'

/** The bundle that a workspace would upload. */
const FOLDER = new URL('../../test/support/harnesses/house-agent/', import.meta.url).pathname
const archive = await buffer(create({ gzip: true, portable: true, mtime: new Date(0), cwd: FOLDER }, ['.']))
const digest = `sha256:${createHash('sha256').update(archive).digest('hex')}`

const houseAgent = buildCustomHarness({
  id: 'custom/house-agent',
  name: 'House agent',
  version: '1',
  protocols: ['openai-chat'],
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

testHarnessContract(houseAgent, {
  levelCases: [
    { protocol: 'openai-chat', model: 'some-model', level: 'low', wireLevel: { effort: 'low' } },
    ...efforts('openai-chat', 'some-model', ['high']),
  ],
  openUploaded: async (requested) => (requested === digest ? Readable.from([archive]) : undefined),
  isInShortRun: true,
})
