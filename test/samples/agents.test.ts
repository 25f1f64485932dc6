import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { ScriptInput } from '../../samples/provider/script.ts'
import { install } from '../../src/harnesses/bundles/install.ts'
import type { Harness } from '../../src/harnesses/harness.ts'
import { findHarness } from '../../src/harnesses/harnesses.ts'
import type { Level, Protocol } from '../../src/harnesses/model-access.ts'
import { imageFor } from '../support/harnesses/harness-image.ts'
import { unset } from '../support/harnesses/level-cases.ts'
import { bundlesFolder, type LevelCase, openScriptedGateway } from '../support/harnesses/scripted-gateway.ts'
import { hasPart, isLongRun } from '../support/parts.ts'
import { IMAGE, openTrialRunner } from '../support/trials/trial-runner.ts'

const SAMPLES = new URL('../../samples/', import.meta.url).pathname
const QUICK: ScriptInput = JSON.parse(readFileSync(join(SAMPLES, 'provider/quick.json'), 'utf8'))
const TASKS = [
  'earn-partial-credit',
  'greet-in-bash',
  'inventory-on-a-prebuilt-image',
  'old-memory-keys',
  'pack-it-up',
] as const
/** Answers with whole files. The other two tasks need a command: one an executable file, one an archive. */
const ONLY_TEXT: ScriptInput = {
  tasks: [
    {
      match: '/app/drafts',
      turns: [
        {
          say: [
            'spaces.txt\n```\none\ntwo\n three\n```\n',
            'blank.txt\n```\none\n\ntwo\n\nthree\n```\n',
            'case.txt\n```\nsome letters here\n```\n',
            'end.txt\n```\nno end\n```\n',
          ].join('\n'),
        },
      ],
    },
    { match: '/srv/stock.tsv', turns: [{ say: 'I write the list.\n\nmissing.txt\n```\npear\nquince\n```\n' }] },
    { match: '/app/requests.txt', turns: [{ say: 'top.txt\n```\n10.0.0.4\n10.0.0.9\n10.0.0.7\n```\n' }] },
    { match: 'the', turns: [{ say: 'That needs a command, and I cannot run any.' }] },
  ],
}
const mapCommands = (toCommand: (command: string) => string): ScriptInput => ({
  ...QUICK,
  tasks: QUICK.tasks?.map((task) => ({
    ...task,
    turns: task.turns.map((turn) => (turn.run === undefined ? turn : { ...turn, run: toCommand(turn.run) })),
  })),
})
/** Grok CLI takes the rest of a command that begins with `cd` for a folder. */
const IN_SUBSHELLS = mapCommands((command) => `(${command})`)
/** Gemini CLI refuses commands with `$(…)`. */
const WITHOUT_SUBSTITUTION = mapCommands((command) =>
  command.replace(`printf '%s\\n' "$(cat end.txt)"`, 'grep . end.txt'),
)
const INSTALL_MS = 600_000
/** The tasks allow two minutes, in which some programs do not even start on a busy machine. */
const TIMEOUT_MULTIPLIER = 5

type ProgramCase = { id: string; levelCase?: LevelCase; script?: ScriptInput; passed?: number }

const UNSET = unset('openai-chat', 'some-model')
const atLevel = (protocol: Protocol, model: string, level: Level): LevelCase => ({
  protocol,
  model,
  level,
  wireLevel: { effort: level },
})

/** Every program. Unless noted, a custom model without a level solves all tasks. */
const PROGRAMS: ProgramCase[] = [
  ...['cline', 'continue', 'reasonix', 'kilo', 'mini-swe-agent', 'gptme', 'mistral-vibe', 'code-puppy'],
  ...['hermes-agent', 'fast-agent', 'opencode', 'pi', 'copilot', 'qwen-code'],
].map((id): ProgramCase => ({ id }))

PROGRAMS.push(
  { id: 'claude-code', levelCase: atLevel('anthropic-messages', 'claude-sonnet-5', 'medium') },
  { id: 'codex', levelCase: atLevel('openai-responses', 'gpt-5.5', 'medium') },
  {
    id: 'gemini-cli',
    levelCase: atLevel('gemini', 'gemini-3.1-pro-preview', 'high'),
    script: WITHOUT_SUBSTITUTION,
  },
  // Cannot leave the level unset.
  { id: 'kimi-code', levelCase: atLevel('openai-chat', 'some-model', 'high') },
  { id: 'grok-cli', script: IN_SUBSHELLS },
  // Offers the model no tools, so the model answers with files.
  { id: 'aider', script: ONLY_TEXT, passed: 3 },
)

describe.runIf(isLongRun() && hasPart('bwrap') && hasPart('harnesses'))('assay/quick with a scripted model', () => {
  test.each(PROGRAMS)('$id ends every task with a score', async (program) => {
    const { id, levelCase = UNSET, script = QUICK, passed = TASKS.length } = program
    const harness = findHarness(id) as Harness
    const image = imageFor(harness)
    await using models = await openScriptedGateway()
    await using runner = await openTrialRunner('bwrap', { images: [{ name: IMAGE, rootfs: image.rootfs }] })
    const bundles = { folder: await bundlesFolder() }
    const signal = AbortSignal.timeout(INSTALL_MS)
    if (harness.bundle) await install(harness.bundle, { ...bundles, signal, onProgress: () => {} })
    const results = []
    for (const name of TASKS) {
      const { place: model, totals } = await models.open(harness, levelCase, script)
      const outputFolder = join(runner.folder, name)
      const more = { isProven: true, outputFolder, model, bundles, timeoutMultiplier: TIMEOUT_MULTIPLIER }
      const record = await runner.run(join(SAMPLES, 'tasks', name), harness, 'workspace', more)
      const { calls } = await totals()
      results.push({ name, state: record.state, class: record.class, isModelUsed: calls.succeeded > 0 })
    }
    const expected = TASKS.map((name) => ({ name, class: 'verified', isModelUsed: true }))
    expect(results).toMatchObject(expected)
    expect(results.filter(({ state }) => state === 'passed').length, JSON.stringify(results)).toBe(passed)
  })
})
