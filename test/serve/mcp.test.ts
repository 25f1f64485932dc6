import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Provider, startProvider } from '../../samples/provider/provider.ts'
import quick from '../../samples/provider/quick.json' with { type: 'json' }
import { install } from '../../src/harnesses/bundles/install.ts'
import { claudeCode } from '../../src/harnesses/claude-code.ts'
import type { Json } from '../../src/harnesses/json.ts'
import { assay, BIN, bareEnvironment } from '../support/assay-command.ts'
import { bundlesFolder } from '../support/harnesses/scripted-gateway.ts'
import { writeHistory } from '../support/histories.ts'
import { hasPart } from '../support/parts.ts'
import { type ServiceProcess, startService } from '../support/service.ts'

const QUESTION = 'Which setting works best on the tasks of our repository?'
const ANSWER = 'scripted with mini solved 2 of 2 tasks; Reference with nop solved 0 of 2 tasks'
const CALLS_MAX = 12
/** Longer than any call takes, also on a busy machine. */
const WAIT_SECONDS = 600
const MODELS = ['custom/scripted=mini', 'reference=nop']

const folder = mkdtempSync(join(tmpdir(), 'assay-mcp-'))
const tasks = join(folder, 'tasks')

type PlannedCall = { tool: string; input: Record<string, Json> }

/** The calls of an agent, from nothing to the answer. */
const planFor = (repository: string): PlannedCall[] => [
  { tool: 'connect_repository', input: { repository, gitUrl: join(folder, 'demo.git') } },
  { tool: 'scan_repository', input: { repository, easy: 1 } },
  { tool: 'import_tasks', input: { repository, path: tasks } },
  { tool: 'wait_for_batch', input: { repository, seconds: WAIT_SECONDS } },
  { tool: 'list_tasks', input: { repository } },
  { tool: 'read_task', input: { repository, task: 'greet-in-bash' } },
  // Its verifier executes what the agent wrote, which is a warning, so it is approved alone.
  { tool: 'decide_tasks', input: { repository, decision: 'approved', tasks: ['greet-in-bash'] } },
  { tool: 'decide_tasks', input: { repository, decision: 'approved' } },
  { tool: 'compare', input: { repository, models: MODELS, sandbox: 'local' } },
  { tool: 'compare', input: { repository, models: MODELS, sandbox: 'local', confirm: true } },
  { tool: 'wait_for_comparison', input: { repository, seconds: WAIT_SECONDS } },
  { tool: 'read_answer', input: { repository } },
]

describe.skipIf(!hasPart('bwrap'))('an agent with assay mcp', () => {
  let service: ServiceProcess
  let provider: Provider
  const variables = () => ({ ASSAY_URL: service.url, ASSAY_KEY: service.newKey ?? '' })

  beforeAll(async () => {
    await writeHistory(join(folder, 'demo.git'), [
      { message: 'Start', files: { 'README.md': 'demo\n', 'src/a.py': 'A = 1\n' } },
      { message: 'Add a test (#1)', files: { 'src/a.py': 'A = 2\n', 'tests/test_a.py': 'def test(): pass\n' } },
    ])
    for (const name of ['greet-in-bash', 'old-memory-keys'])
      cpSync(new URL(`../../samples/tasks/${name}`, import.meta.url), join(tasks, name), { recursive: true })
    const turns = [...planFor('lab/agent').map((use) => ({ use })), { say: 'I have read the answer.' }]
    provider = await startProvider({ tasks: [{ match: QUESTION, turns }, ...quick.tasks] })
    service = await startService('serve', ['--data', join(folder, 'data'), '--port', '0'], {
      ASSAY_ALLOW_HOST_BASE: '1',
      ASSAY_SANDBOXES: 'local',
      ASSAY_GIT_ALLOW: folder,
    })
    const added = await assay(['models', 'add', 'custom/scripted', '--base-url', `${provider.url}/v1`], {
      env: variables(),
    })
    expect(added.code, added.err).toBe(0)
  }, 120_000)

  afterAll(async () => {
    await service.kill('SIGTERM')
    await provider[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  }, 60_000)

  test('goes from a repository to the answer in at most 12 calls', { timeout: 4 * WAIT_SECONDS * 1000 }, async () => {
    const client = new Client({ name: 'test', version: '1' })
    const env = { ...bareEnvironment, ...variables() }
    await client.connect(new StdioClientTransport({ command: process.execPath, args: [BIN, 'mcp'], env }))
    const plan = planFor('lab/client')
    expect(plan.length).toBeLessThanOrEqual(CALLS_MAX)
    const results: { text: string; data: unknown }[] = []
    for (const { tool, input } of plan) {
      const result = await client.callTool({ name: tool, arguments: input }, undefined, {
        timeout: 2 * WAIT_SECONDS * 1000,
      })
      const [content] = result.content as [{ text: string }]
      expect(result.isError, `${tool}: ${content.text}`).toBeUndefined()
      results.push({ text: content.text, data: result.structuredContent })
    }
    await client.close()
    expect(results[1]?.data).toMatchObject({ pullRequests: 1 })
    expect(results[3]?.data).toMatchObject({ state: 'completed', counts: { ready: 2 } })
    expect(results[8]?.data).toMatchObject({ started: false, quote: { trials: 4 } })
    expect(results[9]?.data).toMatchObject({ started: true })
    const answer = results.at(-1)
    expect(answer?.text).toContain(ANSWER)
    expect(answer?.data).toMatchObject({
      state: 'completed',
      settings: [
        { setting: 'custom/scripted|mini|none', passed: 2, tasks: 2 },
        { setting: 'reference|nop|none', passed: 0, tasks: 2 },
      ],
    })
  })

  test.skipIf(!hasPart('harnesses'))('works in Claude Code', { timeout: 4 * WAIT_SECONDS * 1000 }, async ({ skip }) => {
    const { bundle } = claudeCode
    if (!bundle) throw new Error('Claude Code has no bundle.')
    const place = await bundlesFolder()
    const signal = AbortSignal.timeout(100_000)
    const installed = await install(bundle, { folder: place, signal, onProgress: () => {} }).catch(() => [])
    const [part] = installed
    if (!part) return skip('Claude Code cannot be downloaded')
    const servers = join(folder, 'servers.json')
    const mcp = { type: 'stdio', command: process.execPath, args: [BIN, 'mcp'], env: variables() }
    writeFileSync(servers, JSON.stringify({ mcpServers: { assay: mcp } }))
    const env = {
      ...bareEnvironment,
      HOME: join(folder, 'home'),
      ANTHROPIC_BASE_URL: provider.url,
      ANTHROPIC_API_KEY: 'sk-ant-scripted',
      IS_SANDBOX: '1',
      CLAUDE_CONFIG_DIR: join(folder, 'home/.claude'),
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      DISABLE_AUTOUPDATER: '1',
      MCP_CONNECTION_NONBLOCKING: 'false',
      MCP_TOOL_TIMEOUT: String(2 * WAIT_SECONDS * 1000),
      // Otherwise the program offers the tools only after a search.
      ENABLE_TOOL_SEARCH: 'false',
    }
    const options = ['--output-format', 'stream-json', '--verbose', '--permission-mode', 'bypassPermissions']
    const program = join(part.source, 'program/claude')
    const agent = spawn(program, ['-p', ...options, '--strict-mcp-config', '--mcp-config', servers], {
      cwd: folder,
      env,
    })
    agent.stdin.end(QUESTION)
    const said = await text(agent.stdout)
    const calls = said.match(/"type":"tool_use"[^}]*"name":"mcp__assay__/g) ?? []
    expect(calls, said).toHaveLength(planFor('').length)
    expect(calls.length).toBeLessThanOrEqual(CALLS_MAX)
    expect(said).toContain('I have read the answer.')
    expect(said).toContain(ANSWER)
  })
})
